package checkpoint_test

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

	"github.com/x/pygent/internal/checkpoint"
)

// BenchmarkLargeTree measures, among 27,700 unchanged files, what the two looks around a
// call cost, and the undo of a turn that changed one file, beside git status.
func BenchmarkLargeTree(b *testing.B) {
	dir := b.TempDir()
	old := time.Now().Add(-time.Hour)
	for i := range 27_700 {
		name := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i))
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b, os.WriteFile(name, fmt.Appendf(nil, "package p%d\n", i), 0o644))
		require.NoError(b, os.Chtimes(name, old, old))
	}
	git := func(args ...string) {
		out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a"}, args...)...).CombinedOutput()
		require.NoError(b, err, "%s", out)
	}
	git("init", "-q")
	git("config", "gc.auto", "0")
	git("add", ".")
	git("commit", "-qm", "all")
	git("gc", "-q")
	time.Sleep(36 * time.Second) // files that are younger are read again: see package objstore
	ctx, files := context.Background(), checkpoint.Local(dir)
	book, err := checkpoint.Open(ctx, b.TempDir(), "log", "", false)
	require.NoError(b, err)
	defer book.Close()
	var c talk
	take := func(kind checkpoint.Kind) checkpoint.Entry {
		c.messages++
		e, err := book.Take(ctx, files, checkpoint.Entry{Messages: c.messages, Note: checkpoint.Note{Kind: kind, Place: place(c.messages)}})
		require.NoError(b, err)
		return e
	}
	times := map[string][]time.Duration{}
	measure := func(what string, do func()) {
		start := time.Now()
		do()
		times[what] = append(times[what], time.Since(start))
	}
	take(checkpoint.Start)
	for n := 0; b.Loop(); n++ {
		start := take(checkpoint.Start)
		measure("call", func() {
			_, err := book.Look(ctx, files, checkpoint.Work{})
			require.NoError(b, err)
			_, err = book.Look(ctx, files, checkpoint.Work{Ran: true})
			require.NoError(b, err)
		})
		require.NoError(b, os.WriteFile(filepath.Join(dir, "p00/q00/f00001.go"), fmt.Appendf(nil, "package x%d\n", n), 0o644))
		take(checkpoint.End)
		measure("undo", func() {
			_, err := book.Restore(ctx, files, start.N, &c)
			require.NoError(b, err)
		})
		measure("git-status", func() { git("status", "--short") })
	}
	for what, all := range times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-"+what)
	}
}
