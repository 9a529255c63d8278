package binary_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/guest/binary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEmbeddedBytesAreWhatTheSourceBuilds fails if the source was changed and
// go generate was not run.
func TestEmbeddedBytesAreWhatTheSourceBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	readSource(t)
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(t.TempDir(), "guest")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-l", "-ldflags=-s -w -buildid=", "-o", path, "../cmd/guest")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
		built, err := os.ReadFile(path)
		require.NoError(t, err)
		embedded, err := binary.Bytes(arch)
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(built), sha256.Sum256(embedded), "linux/%s: run go generate ./internal/guest/binary with %s", arch, runtime.Version())
	}
}

// readSource reads the directories of the source, because go test takes the result of
// an earlier run for a later one unless a file has changed that the test itself has read.
func readSource(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{$.Dir}}{{end}}", "../cmd/guest").Output()
	require.NoError(t, err)
	dirs := strings.Fields(string(out))
	require.NotEmpty(t, dirs)
	for _, dir := range append(dirs, filepath.Join("..", "..", "..")) { // and go.mod
		_, err := os.ReadDir(dir)
		require.NoError(t, err)
	}
}

// TestChecksumsAreOfTheGuests reads the file that go generate has written beside them.
func TestChecksumsAreOfTheGuests(t *testing.T) {
	var want strings.Builder
	for _, arch := range []string{"amd64", "arm64"} {
		b, err := binary.Bytes(arch)
		require.NoError(t, err)
		fmt.Fprintf(&want, "%x  guest-%s\n", sha256.Sum256(b), arch)
	}
	sums, err := os.ReadFile("guest.sha256")
	require.NoError(t, err)
	require.Equal(t, want.String(), string(sums), "run go generate ./internal/guest/binary")
}

func TestProgramsAreStatic(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64} {
		b, err := binary.Bytes(arch)
		require.NoError(t, err)
		file, err := elf.NewFile(bytes.NewReader(b))
		require.NoError(t, err)
		require.Equal(t, machine, file.Machine)
		for _, p := range file.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type)
		}
	}
	_, err := binary.Bytes("riscv64")
	require.ErrorIs(t, err, binary.ErrPlatform)
	require.False(t, binary.Supports("riscv64"))
}
