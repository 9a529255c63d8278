package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInCacheCountsWhatWasFetched(t *testing.T) {
	got, err := inCache(fstest.MapFS{
		"cache/download/example.com/a/@v/v1.0.0.zip":  {Data: make([]byte, 1<<20)},
		"cache/download/example.com/a/@v/v1.0.0.mod":  {Data: []byte("module a")},
		"cache/download/example.com/b/@v/v0.1.0.zip":  {Data: make([]byte, 1<<19)},
		"example.com/a@v1.0.0/a.zip":                  {Data: []byte("of the module")},
		"cache/download/example.com/b/@v/v0.1.0.info": {},
	})
	require.NoError(t, err)
	require.Equal(t, fetched{modules: 2, bytes: 3 << 19}, got)
	require.Equal(t, "1.5 MiB, 2 modules", got.String())
}

// TestAUserIsAModuleOfItsOwn uses no network: it only writes what the go command reads.
func TestAUserIsAModuleOfItsOwn(t *testing.T) {
	g := gopher{dir: t.TempDir()}
	require.NoError(t, g.look(t.Context()))
	user := filepath.Join(g.dir, "user")
	require.NoError(t, g.writeUser(user, "bench/embed/pygent"))
	out, _, err := g.run(t.Context(), user, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "list", "-m", "-f", "{{.Dir}}", module)
	require.NoError(t, err)
	require.Equal(t, g.root, string(bytes.TrimSpace(out)))
	require.FileExists(t, filepath.Join(user, "main.go"))
	_, err = os.Stat(filepath.Join(user, "go.sum"))
	require.NoError(t, err)
}

func TestReportLeavesOutWhatWasNotMeasured(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report(&out, []weight{
		{program: program{name: "one"}, got: fetched{3, 1 << 20}, tidied: fetched{5, 3 << 20}, packages: 7, processor: 61 * time.Second},
		{program: program{name: "two"}, packages: 9},
	}))
	require.Contains(t, out.String(), "one      1.0 MiB, 3 modules  3.0 MiB, 5 modules  7         1m1s\n")
	require.Contains(t, out.String(), "two      -                   -                   9         -\n")
}
