package objstore_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

var gib = flag.Bool("gib", false, "measure with a tree of 1 GiB in 20,000 files, instead of one of 20 MB in 2,000")

// BenchmarkTurn measures checkpoints of turns that change ten files. It prints
// what the first one costs, too, and a restore.
func BenchmarkTurn(b *testing.B) {
	dir, home := b.TempDir(), b.TempDir()
	names := benchTree(b, dir)
	age(b, dir)
	s, l := openStore(b, home), openLocal(b, dir)
	var c objstore.Cache
	checkpoint := func() (objstore.Tree, objstore.Report, time.Duration) {
		start := time.Now()
		tree, report, err := s.Take(context.Background(), l, &c, objstore.TakeOptions{Now: later})
		require.NoError(b, err)
		return tree, report, time.Since(start)
	}
	log, err := s.OpenLog("bench")
	require.NoError(b, err)
	defer log.Close()
	tree, report, first := checkpoint()
	_, _, same := checkpoint()
	start := time.Now()
	_, err = s.Apply(context.Background(), openLocal(b, b.TempDir()), objstore.Tree{}, tree, objstore.ApplyOptions{})
	require.NoError(b, err)
	restored := time.Since(start)
	edit(b, rand.New(rand.NewPCG(3, 4)), names)
	edited, _, _ := checkpoint()
	s.Forget(edited)
	start = time.Now()
	_, err = s.Apply(context.Background(), l, edited, tree, objstore.ApplyOptions{})
	require.NoError(b, err)
	undone := time.Since(start)
	stored := report.Stored

	var turns []time.Duration
	var grown int64
	random := rand.New(rand.NewPCG(1, 2))
	var busy time.Duration
	for n := int64(0); b.Loop(); n++ {
		b.StopTimer()
		edit(b, random, names)
		b.StartTimer()
		before := cpuTime()
		tree, report, took := checkpoint()
		require.NoError(b, log.Append(context.Background(), objstore.Ref{N: n, Tree: tree}))
		require.GreaterOrEqual(b, report.Read, 10)
		busy += cpuTime() - before
		turns, grown = append(turns, took), grown+report.Stored
	}
	slices.Sort(turns)
	b.ReportMetric(first.Seconds(), "s-first")
	b.ReportMetric(float64(stored)/(1<<20), "MiB-stored")
	b.ReportMetric(float64(same.Microseconds())/1000, "ms-unchanged")
	b.ReportMetric(restored.Seconds(), "s-restore")
	b.ReportMetric(float64(undone.Microseconds())/1000, "ms-undo")
	b.ReportMetric(float64(busy.Microseconds())/1000/float64(len(turns)), "ms-of-processor")
	b.ReportMetric(float64(turns[len(turns)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(turns[len(turns)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(grown)/float64(len(turns))/1000, "KB-a-turn")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-memory")
}

// benchTree makes a tree, and returns the names of its small files.
func benchTree(b *testing.B, dir string) (names []string) {
	count := 2000
	if *gib {
		count = 20_000
	}
	random := rand.NewChaCha8([32]byte{7})
	words := strings.Fields("func return if err nil for range string int error the of a file tree store // := { } ( ) package import type struct")
	for i := range count {
		name := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i))
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		var text strings.Builder
		for text.Len() < 9<<10 {
			text.WriteString(words[random.Uint64()%uint64(len(words))] + " ")
		}
		require.NoError(b, os.WriteFile(name, []byte(text.String()), 0o644))
		names = append(names, name)
	}
	if *gib {
		block := make([]byte, 1<<20)
		for i, blocks := range []int{256, 256, 300} {
			f, err := os.Create(filepath.Join(dir, fmt.Sprintf("large%d", i)))
			require.NoError(b, err)
			for n := range blocks {
				random.Read(block)
				if i == 2 {
					copy(block, strings.Repeat(fmt.Sprintf("line %d of a log, like the others\n", n), 40_000))
				}
				_, err := f.Write(block)
				require.NoError(b, err)
			}
			require.NoError(b, f.Close())
		}
	}
	return names
}

// age makes the times of files differ from those of the turns.
func age(b *testing.B, dir string) {
	old := time.Now().Add(-time.Hour)
	require.NoError(b, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { return os.Chtimes(name, old, old) }))
}

func edit(b *testing.B, random *rand.Rand, names []string) {
	for _, i := range random.Perm(len(names))[:10] {
		f, err := os.OpenFile(names[i], os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(b, err)
		_, err = fmt.Fprintf(f, "// %x\n", random.Uint64())
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
}
