package pygent_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
)

var gib = flag.Bool("gib", false, "measure with a tree of 1 GiB in 20,000 files, instead of one of 20 MB in 2,000")

// settledAfter is how old a file must be to be known by its times alone, and not be
// read again: see package store.
const settledAfter = 36 * time.Second

// BenchmarkCheckpoints measures what a turn that edits ten files costs: what the
// caller waits for at its end, and by what the store grows. With -benchtime=200x it
// is the growth over 200 turns.
func BenchmarkCheckpoints(b *testing.B) {
	b.Run("local", func(b *testing.B) { benchCheckpoints(b, pygent.WithDocker(pygent.DockerNever)) })
	docker := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage())}
	b.Run("mounted", func(b *testing.B) { benchCheckpoints(b, docker...) })
	b.Run("volume", func(b *testing.B) { benchCheckpoints(b, append(docker, pygent.WithSharedFiles(false))...) })
	if host := os.Getenv("PYGENT_TEST_REMOTE_ENGINE"); host != "" {
		b.Run("remote", func(b *testing.B) { benchCheckpoints(b, append(docker, pygent.WithDockerHost(host))...) })
	}
}

func benchCheckpoints(b *testing.B, opts ...pygent.Option) {
	base := b.TempDir()
	work, trees := filepath.Join(base, "work"), filepath.Join(base, "trees")
	count := benchWork(b, work)
	var ended time.Time
	agent, err := pygent.New(append(opts, pygent.WithWorkspace(work), checkpoint.Keep(trees), pygent.WithModel(obedient()),
		pygent.WithSurvey(false), pygent.WithInstructions(false), pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventMessage:
				ended = time.Now()
			case pygent.EventWarning:
				b.Error(e.Text)
			}
		}))...)
	require.NoError(b, err)
	defer func() { require.NoError(b, agent.Close()) }()
	turn := func(script string) time.Duration {
		_, err := agent.RunUntilStop(context.Background(), script, pygent.WithEndOnReply())
		took := time.Since(ended)
		require.NoError(b, err)
		return took
	}
	start := time.Now()
	turn("true")
	first := time.Since(start)
	time.Sleep(settledAfter)
	turn("true")

	before := sizeOf(b, trees)
	random := rand.New(rand.NewPCG(1, 2))
	var turns []time.Duration
	for b.Loop() {
		var script strings.Builder
		for _, i := range random.Perm(count)[:10] {
			fmt.Fprintf(&script, "echo '// %x' >> %s; ", random.Uint64(), benchName(i))
		}
		turns = append(turns, turn(script.String()))
	}
	grown := sizeOf(b, trees) - before
	slices.Sort(turns)
	b.ReportMetric(first.Seconds(), "s-first")
	b.ReportMetric(float64(turns[len(turns)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(turns[len(turns)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(grown)/float64(len(turns))/1000, "KB-a-turn")
}

func benchName(i int) string { return fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i) }

// benchWork makes a workspace, and returns how many small files it has.
func benchWork(b *testing.B, dir string) (count int) {
	count = 2000
	if *gib {
		count = 20_000
	}
	random := rand.NewChaCha8([32]byte{7})
	words := strings.Fields("func return if err nil for range string int error the of a file tree store := { } ( ) package import type struct")
	for i := range count {
		name := filepath.Join(dir, benchName(i))
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		var text strings.Builder
		for text.Len() < 9<<10 {
			text.WriteString(words[random.Uint64()%uint64(len(words))] + " ")
		}
		require.NoError(b, os.WriteFile(name, []byte(text.String()), 0o644))
	}
	for i := 0; *gib && i < 812; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("large", i/271)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(b, err)
		block := make([]byte, 1<<20)
		random.Read(block)
		_, err = f.Write(block)
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
	return count
}

// sizeOf returns the bytes of all files in a directory.
func sizeOf(b *testing.B, dir string) (bytes int64) {
	require.NoError(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}
