// Package binary embeds the guest's program, compressed, for the platforms on
// which containers run. It is unpacked only when it is asked for.
package binary

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
)

//go:generate sh -c "CGO_ENABLED=0 GOOS=linux GOARCH=amd64 GOAMD64=v1 GOFLAGS= go build -trimpath -buildvcs=false -gcflags=all=-l -ldflags='-s -w -buildid=' -o guest-amd64 ../cmd/guest && CGO_ENABLED=0 GOOS=linux GOARCH=arm64 GOARM64=v8.0 GOFLAGS= go build -trimpath -buildvcs=false -gcflags=all=-l -ldflags='-s -w -buildid=' -o guest-arm64 ../cmd/guest && gzip -9 -n -f guest-amd64 guest-arm64"

//go:embed guest-amd64.gz
var amd64 []byte

//go:embed guest-arm64.gz
var arm64 []byte

// ErrPlatform is returned where there is no guest for a platform.
var ErrPlatform = errors.New("no guest for this platform")

// maxSize bounds an unpacked guest, in bytes.
const maxSize = 64 << 20

// Bytes unpacks the guest for Linux on arch, named as Go or as Docker names
// it.
func Bytes(arch string) ([]byte, error) {
	packed, err := pack(arch)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the guest: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxSize))
	if err != nil {
		return nil, fmt.Errorf("unpack the guest: %w", err)
	}
	return b, nil
}

func pack(arch string) ([]byte, error) {
	switch arch {
	case "amd64", "x86_64":
		return amd64, nil
	case "arm64", "aarch64":
		return arm64, nil
	default:
		return nil, fmt.Errorf("%w: linux/%s", ErrPlatform, arch)
	}
}
