package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/guest"
)

// BenchmarkTrue compares the shortest command in a guest with the lower limit:
// a local fork and exec of a shell.
func BenchmarkTrue(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		median(b, func() { require.NoError(b, exec.Command("sh", "-c", "true").Run()) })
	})
	b.Run("floor-bash", func(b *testing.B) {
		median(b, func() { require.NoError(b, exec.Command("bash", "-c", "true").Run()) })
	})
	b.Run("local", func(b *testing.B) { benchmarkTrue(b, local(b)) })
	b.Run("docker", func(b *testing.B) { benchmarkTrue(b, container(b, debianImage(b), containerOptions{}).client) })
	b.Run("busybox", func(b *testing.B) { benchmarkTrue(b, container(b, busyboxImage(b), containerOptions{}).client) })
}

func benchmarkTrue(b *testing.B, c *guest.Client) {
	run(b, c, "true")
	median(b, func() { run(b, c, "true") })
}

// median reports the median time of f in addition to the mean.
func median(b *testing.B, f func()) {
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		f()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs/median")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs/p99")
}

// BenchmarkFortyAtOnce runs 40 commands at the same time.
func BenchmarkFortyAtOnce(b *testing.B) {
	each := func(b *testing.B, c *guest.Client) {
		median(b, func() {
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { run(b, c, "true") })
			}
			all.Wait()
		})
	}
	b.Run("local", func(b *testing.B) { each(b, local(b)) })
	b.Run("docker", func(b *testing.B) { each(b, container(b, debianImage(b), containerOptions{}).client) })
}

// BenchmarkDeadline measures how long after its deadline and grace the result
// of a command arrives, if the command's processes try to escape. All of them
// are gone by then.
func BenchmarkDeadline(b *testing.B) {
	const timeout, grace = 400 * time.Millisecond, 50 * time.Millisecond
	each := func(b *testing.B, c *guest.Client) {
		var times []time.Duration
		for b.Loop() {
			start := time.Now()
			r := runCommand(b, c, guest.Command{Script: breakaway, Timeout: timeout, Grace: grace})
			times = append(times, time.Since(start)-timeout-grace)
			require.Zero(b, r.Survivors)
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs-over/median")
		b.ReportMetric(float64(times[len(times)-1].Microseconds()), "µs-over/max")
	}
	b.Run("local", func(b *testing.B) { each(b, local(b)) })
	b.Run("docker", func(b *testing.B) { each(b, container(b, debianImage(b), containerOptions{}).client) })
}

// BenchmarkStart measures the time from the creation of a container to its
// first result.
func BenchmarkStart(b *testing.B) {
	median(b, func() {
		r := startContainer(b, debianImage(b), containerOptions{})
		run(b, r.client, "true")
		require.NoError(b, r.client.Close())
	})
}

// BenchmarkTree takes a tree of 20,000 files again, of which ten have changed.
func BenchmarkTree(b *testing.B) {
	each := func(b *testing.B, c *guest.Client, dir string) {
		for i := range 20_000 {
			name := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i))
			require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(b, os.WriteFile(name, bytes.Repeat([]byte("0123456789\n"), 900), 0o644))
		}
		s, err := objstore.Open(b.TempDir())
		require.NoError(b, err)
		defer s.Close()
		var known objstore.Cache
		take := func() objstore.Report {
			o := objstore.TakeOptions{Now: func() time.Time { return time.Now().Add(time.Hour) }}
			tree, report, err := s.Take(context.Background(), guest.Tree{Client: c}, &known, o)
			require.NoError(b, err)
			s.Forget(tree)
			return report
		}
		require.Equal(b, 20_000, take().Read)
		n := 0
		median(b, func() {
			for i := range 10 {
				name := filepath.Join(dir, fmt.Sprintf("p%02d/q01/f%05d.go", i, i*400+20))
				require.NoError(b, os.WriteFile(name, fmt.Append(nil, n, i), 0o644))
			}
			n++
			require.Equal(b, 10, take().Read)
		})
	}
	b.Run("local", func(b *testing.B) {
		dir := b.TempDir()
		each(b, localIn(b, dir, guest.Config{}), dir)
	})
	b.Run("docker", func(b *testing.B) {
		r := container(b, debianImage(b), containerOptions{})
		each(b, r.client, r.workspace)
	})
}
