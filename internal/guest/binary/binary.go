// Package binary embeds the guest's program, compressed, for the platforms on
// which containers run. It is unpacked only when it is asked for.
package binary

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

//go:generate sh -c "CGO_ENABLED=0 GOOS=linux GOARCH=amd64 GOAMD64=v1 GOFLAGS= go build -trimpath -buildvcs=false -gcflags=all=-l -ldflags='-s -w -buildid=' -o guest-amd64 ../cmd/guest && CGO_ENABLED=0 GOOS=linux GOARCH=arm64 GOARM64=v8.0 GOFLAGS= go build -trimpath -buildvcs=false -gcflags=all=-l -ldflags='-s -w -buildid=' -o guest-arm64 ../cmd/guest && sha256sum guest-amd64 guest-arm64 > guest.sha256 && gzip -9 -n -f guest-amd64 guest-arm64"

//go:embed guest-amd64.gz
var amd64 []byte

//go:embed guest-arm64.gz
var arm64 []byte

// sums are the checksums of the unpacked guests, as sha256sum prints them.
//
//go:embed guest.sha256
var sums string

// ErrPlatform is returned where there is no guest for a platform.
var ErrPlatform = errors.New("no guest for this platform")

// maxSize bounds an unpacked guest, in bytes.
const maxSize = 64 << 20

// Bytes unpacks the guest for Linux on arch, named as Go or as Docker names
// it.
func Bytes(arch string) ([]byte, error) {
	_, packed, err := pack(arch)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the guest: %w", err)
	}
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:]) // as gzip's trailer tells it
	if size > maxSize {
		return nil, fmt.Errorf("unpack the guest: it has %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("unpack the guest: %w", err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF { // which also means that gzip's checksum is right
		return nil, fmt.Errorf("unpack the guest: %w", cmp.Or(err, errLonger))
	}
	return b, nil
}

// errLonger means that packed bytes are of something else than they say.
var errLonger = errors.New("it is longer than it says")

// Supports reports whether there is a guest for Linux on arch.
func Supports(arch string) bool {
	_, _, err := pack(arch)
	return err == nil
}

// pack returns the compressed guest for arch, and Go's name of that.
func pack(arch string) (name string, packed []byte, err error) {
	switch arch {
	case "amd64", "x86_64":
		return "amd64", amd64, nil
	case "arm64", "aarch64":
		return "arm64", arm64, nil
	default:
		return "", nil, fmt.Errorf("%w: linux/%s", ErrPlatform, arch)
	}
}

// Checksum returns the SHA-256 of what [Bytes] unpacks, without unpacking it.
func Checksum(arch string) (sum [sha256.Size]byte, err error) {
	name, _, err := pack(arch)
	if err != nil {
		return sum, err
	}
	for line := range strings.Lines(sums) {
		if text, ok := strings.CutSuffix(strings.TrimSpace(line), "  guest-"+name); ok && hex.DecodedLen(len(text)) == len(sum) {
			_, err = hex.Decode(sum[:], []byte(text))
			return sum, err
		}
	}
	return sum, fmt.Errorf("no checksum of the guest for %s", name)
}
