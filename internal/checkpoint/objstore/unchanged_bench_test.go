package objstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// BenchmarkUnchanged compares the look at a tree of 27,700 files in which nothing has
// changed with what git status takes for it.
func BenchmarkUnchanged(b *testing.B) {
	dir := b.TempDir()
	for i := range 27_700 {
		name := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i))
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b, os.WriteFile(name, fmt.Appendf(nil, "package p%d\n", i), 0o644))
	}
	age(b, dir)
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, "%s", out)
	}
	git("init", "-q")
	git("config", "gc.auto", "0")
	git("add", ".")
	git("commit", "-qm", "all")
	git("gc", "-q")
	s, l := openStore(b, b.TempDir()), openLocal(b, dir)
	var c objstore.Cache
	look := func() time.Duration {
		start := time.Now()
		_, report, err := s.Take(context.Background(), l, &c, objstore.TakeOptions{Now: later})
		require.NoError(b, err)
		_ = report
		return time.Since(start)
	}
	look()
	git("status", "--short")
	var looks, statuses []time.Duration
	for b.Loop() {
		looks = append(looks, look())
		start := time.Now()
		git("status", "--short")
		statuses = append(statuses, time.Since(start))
	}
	slices.Sort(looks)
	slices.Sort(statuses)
	b.ReportMetric(float64(looks[len(looks)/2].Microseconds())/1000, "ms-look")
	b.ReportMetric(float64(statuses[len(statuses)/2].Microseconds())/1000, "ms-git-status")
	b.ReportMetric(float64(looks[len(looks)/2])/float64(statuses[len(statuses)/2]), "times")
}
