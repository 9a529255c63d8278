//go:build linux

package escape

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// place is a kind of runtime in which attacks begin.
type place struct {
	name   string
	docker bool
	new    func(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime
}

// places returns all kinds. If there is no engine, and none is required, only the
// local runtime is tested.
func places() []place {
	return append(containers(), place{"local", false, func(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime {
		return open(t, pygent.NewLocalRuntime, opts)
	}})
}

func containers() []place {
	return []place{
		{"docker", true, func(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime {
			requireEngine(t, "")
			return open(t, pygent.NewDockerRuntime, append(opts, pygent.WithImage(image)))
		}},
		{"remote", true, func(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime {
			host := os.Getenv("PYGENT_TEST_REMOTE_ENGINE")
			if host == "" {
				host = "unix:///nonexistent" // see scripts/remote.sh
			}
			requireEngine(t, host)
			return open(t, pygent.NewDockerRuntime, append(opts, pygent.WithImage(image), pygent.WithDockerHost(host)))
		}},
	}
}

var image = enginetest.Image()

// requireEngine skips a test without the engine that it needs.
func requireEngine(t *testing.T, host string) {
	t.Helper()
	enginetest.NeedAt(t, host, image)
}

func open(t *testing.T, construct func(context.Context, ...pygent.RuntimeOption) (pygent.Runtime, error), opts []pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	r, err := construct(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Cleanup()) })
	return r
}

// everywhere runs a test in each place, and requires that it leaves the victim
// unchanged.
func everywhere(t *testing.T, places []place, test func(t *testing.T, v *victim, p place)) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			v := here(t)
			before := v.state(t)
			t.Cleanup(func() { require.Equal(t, before, v.state(t), "the files of the victim") })
			test(t, v, p)
		})
	}
}

// bash runs a script and returns its output. It does not matter if the script
// fails.
func bash(t *testing.T, r pygent.Runtime, script string) string {
	t.Helper()
	res, err := r.Bash(t.Context(), script, pygent.BashTimeout(time.Minute))
	require.NoError(t, err)
	require.False(t, res.TimedOut, "%s\n%s", script, res.Output)
	return res.Output
}

// held requires that an attack failed, which means that its script does not print
// ESCAPED.
func held(t *testing.T, v *victim, r pygent.Runtime, script string) {
	t.Helper()
	out := bash(t, r, script)
	require.NotContains(t, strings.ReplaceAll(out, "echo ESCAPED", ""), "ESCAPED", script)
	v.silent(t, script, out)
	require.Equal(t, "alive\n", bash(t, r, "echo alive"))
}

// dirOf makes a directory with files, apart from the victim's.
func dirOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	return dir
}
