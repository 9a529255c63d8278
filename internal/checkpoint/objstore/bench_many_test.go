package objstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

var many = flag.Int("many", 10_000, "how many files of 1 KiB BenchmarkMany has")

// BenchmarkMany measures checkpoints of many small files, and what git takes for a
// commit of the same ones, in the same run: the wall time, the lowest of all
// iterations, and the median of what the processors did.
func BenchmarkMany(b *testing.B) {
	b.Run("flat", func(b *testing.B) { benchMany(b, *many) })
	b.Run("tree", func(b *testing.B) { benchMany(b, 100) })
}

// benchMany measures a tree with so many files in each directory.
func benchMany(b *testing.B, inOne int) {
	dir := b.TempDir()
	random := rand.NewChaCha8([32]byte{7})
	words := strings.Fields("func return if err nil for range string int error the of a file tree store := { } ( ) package import type struct")
	for i := range *many {
		sub := filepath.Join(dir, fmt.Sprintf("d%04d", i/inOne))
		if inOne == *many {
			sub = dir
		} else if i%inOne == 0 {
			require.NoError(b, os.Mkdir(sub, 0o755))
		}
		text := fmt.Appendf(nil, "// %x\n", random.Uint64())
		for len(text) < 1<<10 {
			text = append(append(text, words[random.Uint64()%uint64(len(words))]...), ' ')
		}
		require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%06d.txt", i)), text[:1<<10], 0o644))
	}
	age(b, dir)
	took := map[string][]time.Duration{}
	work := map[string][]time.Duration{}
	measure := func(what string, f func()) {
		start, before := time.Now(), cpuTime()+childTime()
		f()
		took[what] = append(took[what], time.Since(start))
		work[what] = append(work[what], cpuTime()+childTime()-before)
	}
	for b.Loop() {
		s, l := openStore(b, b.TempDir()), openLocal(b, dir)
		checkpoint := func(c *objstore.Cache, o objstore.TakeOptions) {
			_, report, err := s.Take(context.Background(), l, c, o)
			require.NoError(b, err)
			require.GreaterOrEqual(b, report.Files, *many)
		}
		var c objstore.Cache
		measure("first", func() { checkpoint(&c, objstore.TakeOptions{Now: later}) })
		measure("same", func() { checkpoint(&c, objstore.TakeOptions{Now: later}) })
		measure("reread", func() { checkpoint(new(objstore.Cache), objstore.TakeOptions{Now: later}) })
		git := b.TempDir()
		run := func(args ...string) {
			cmd := exec.Command("git", append([]string{"--git-dir=" + filepath.Join(git, "g"), "--work-tree=" + dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "gc.auto=0"}, args...)...)
			out, err := cmd.CombinedOutput()
			require.NoError(b, err, "%s", out)
		}
		run("init", "-q")
		measure("git-add", func() { run("add", "-A") })
		measure("git-commit", func() { run("commit", "-qm", "all") })
		measure("git-same", func() { run("add", "-A") })
	}
	for what, all := range took {
		b.ReportMetric(slices.Min(all).Seconds(), "s-"+what)
		slices.Sort(work[what])
		b.ReportMetric(work[what][len(all)/2].Seconds(), "cpu-s-"+what)
	}
}
