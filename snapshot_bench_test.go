package pygent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

// BenchmarkSnapshot saves and loads a workspace of 1,000 files, on this machine and in
// a container, and tells the most memory that this process had meanwhile.
// PYGENT_BENCH_MIB sets how large the workspace is; 1024 takes a while.
func BenchmarkSnapshot(b *testing.B) {
	mib := 64
	if n, err := strconv.Atoi(os.Getenv("PYGENT_BENCH_MIB")); err == nil {
		mib = n
	}
	for _, kind := range []struct {
		name string
		opts []pygent.Option
	}{
		{"local", []pygent.Option{pygent.WithDocker(pygent.DockerNever)}},
		{"docker", []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage())}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			if kind.name == "docker" {
				if err := dockerAnswers(); err != nil {
					b.Skip("no Docker engine answers: ", err)
				}
			}
			opts := append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel()), pygent.MaxCopyBytes(pygent.NoLimit)}, kind.opts...)
			agent, err := pygent.New(opts...)
			require.NoError(b, err)
			defer func() { require.NoError(b, agent.Close()) }()
			for i := range 10 { // a command may not take for ever
				made, err := agent.Runtime().Bash(b.Context(), fmt.Sprintf("for i in $(seq 100); do head -c %d /dev/urandom > f%d-$i; done", mib<<20/1000, i))
				require.NoError(b, err)
				require.Zero(b, made.ExitCode, made.Output)
			}
			var saving, loading time.Duration
			peak := peakMemory()
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "snap")
				start := time.Now()
				_, err := snapshot.Save(b.Context(), agent, dir)
				require.NoError(b, err)
				saving += time.Since(start)
				start = time.Now()
				_, err = snapshot.Load(b.Context(), dir)
				require.NoError(b, err)
				loading += time.Since(start)
				require.NoError(b, os.RemoveAll(dir))
			}
			b.ReportMetric(saving.Seconds()/float64(b.N), "s/save")
			b.ReportMetric(loading.Seconds()/float64(b.N), "s/load")
			b.ReportMetric(float64(peakMemory()), "MiB-peak")
			b.ReportMetric(float64(peak), "MiB-before")
		})
	}
}

// peakMemory returns the most memory that this process had, in MiB; 0 where the system
// does not tell. It begins anew afterwards, if the system can do that.
func peakMemory() (mib int) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			mib = kib >> 10
		}
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return mib
}
