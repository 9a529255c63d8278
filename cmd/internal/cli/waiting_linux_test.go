package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// silentEngine is the host of an engine that lets whoever connects wait: its ssh never
// says anything. The environment finds that.
func silentEngine(t *testing.T) (host string, env []string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	host = "ssh://engine.invalid"
	return host, []string{"DOCKER_HOST=" + host, "PATH=" + dir + ":" + os.Getenv("PATH")}
}

// The engine may yet answer, so a person hears what is waited for, and can leave.
func TestASignalEndsTheWaitForAnEngine(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string
		signal syscall.Signal
		says   string
	}{
		"session": {[]string{"--cwd"}, syscall.SIGINT, "pygent: interrupted"},
		"ui":      {[]string{"ui", "--no-open"}, syscall.SIGINT, "pygent: interrupted"},
		"demo":    {[]string{"demo"}, syscall.SIGINT, "pygent: interrupted"},
		"run":     {[]string{"run", "go"}, syscall.SIGINT, "pygent: interrupted"},
		"SIGTERM": {[]string{"run", "go"}, syscall.SIGTERM, "pygent: terminated"},
		"SIGHUP":  {[]string{"--cwd"}, syscall.SIGHUP, "pygent: hangup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			host, env := silentEngine(t)
			p := &pausedRun{t: t}
			cmd := u.command(tt.args...)
			cmd.Env = append(cmd.Env, env...)
			p.start(cmd)
			p.await("· waiting for the Docker Engine at " + host + " (DOCKER_HOST); Ctrl-C to stop")
			require.NoError(t, cmd.Process.Signal(tt.signal))
			p.await(tt.says)
			require.False(t, p.lines.Scan(), p.lines.Text())
			requireExit(t, cmd, 128+int(tt.signal))
			require.Empty(t, u.sessions())
		})
	}
}

// A program that ends before it is written to is asked once more, for its last words.
func TestTheDemoAsksAnEngineOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nread request\necho asked >>"+dir+"/log\nexit 255\n"), 0o755))
	cmd := newUser(t).command("demo")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=ssh://engine.invalid", "PATH="+dir+":"+os.Getenv("PATH"))
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "! running on this machine: no Docker engine answers (tried ssh://engine.invalid (DOCKER_HOST): ")
	require.Contains(t, got.stdout, demoResult)
	require.Contains(t, got.stderr, "· commands run on this machine; protection: ")
	asked, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "asked\n", string(asked))
}

// The demo is the first that a person sees.
func TestTheDemoSaysThatItsContainerStarts(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			<-told
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"message":"not this one"}`)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			fmt.Fprint(w, "[]")
		default:
			fmt.Fprintf(w, `{"Id":"sha256:1","Os":"linux","Architecture":%q}`, runtime.GOARCH)
		}
	}))
	t.Cleanup(engine.Close)
	tell := sync.OnceFunc(func() { close(told) })
	t.Cleanup(tell) // the engine waits for its requests
	cmd := newUser(t).command("demo")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=tcp://"+engine.Listener.Addr().String())
	p := &pausedRun{t: t}
	p.start(cmd)
	require.Regexp(t, `^· container pygent-\w+-1 is starting$`, p.await("starting"))
	tell()
	p.await("· commands run on this machine")
	requireExit(t, cmd, exitOK)
}

func TestTheWaitForAnEngineIsToldAtATerminal(t *testing.T) {
	t.Parallel()
	host, env := silentEngine(t)
	cmd := newUser(t).command()
	cmd.Env = append(cmd.Env, env...)
	p := atTerminal(t, cmd)
	p.printed("waiting for the Docker Engine at " + host)
	p.Key("ctrl+c")
	p.printed("pygent: interrupted")
	require.Error(t, p.Wait())
	require.Equal(t, exitCancel, p.cmd.ProcessState.ExitCode())
}

func TestAnInterruptHidesNoOtherError(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	_, err := unlessInterrupted(ctx, nil, syscall.ENOSPC)
	require.Equal(t, syscall.ENOSPC, err)
	interrupt()
	cancelled := fmt.Errorf("copy notes.txt: %w: %w", pygent.ErrRuntimeStart, context.Cause(ctx))
	for says, tt := range map[string]struct {
		err  error
		code int
	}{
		"copy notes.txt: " + syscall.ENOSPC.Error(): {fmt.Errorf("copy notes.txt: %w", syscall.ENOSPC), exitUsage},
		"interrupted":                            {cancelled, exitCancel},
		"interrupted\n" + syscall.ENOSPC.Error(): {errors.Join(cancelled, errors.Join(syscall.ENOSPC, context.Canceled)), exitCancel},
	} {
		_, err = unlessInterrupted(ctx, nil, tt.err)
		require.EqualError(t, err, says)
		var exit *exitError
		require.ErrorAs(t, asUsage(err), &exit)
		require.Equal(t, tt.code, exit.code)
	}
}

// The goroutine that watches for a second Ctrl-C may learn of the first one only after
// all that it has caused, and one press may come twice.
func TestOneInterruptIsNotTwo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		interrupts int
		apart      time.Duration
		early      bool // whether the first one has ended the run
		leaves     []bool
	}{
		"one that ended the run":      {1, 0, true, nil},
		"one that came twice":         {2, onePress / 2, true, nil},
		"two, the first ended it":     {2, onePress, true, []bool{true}},
		"none":                        {0, 0, false, nil},
		"one while the run cleans up": {1, 0, false, []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 30 { // which of what has come it looks at first is chance
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if tt.early {
						cancel()
					}
					got, cleaning, over := make(chan os.Signal), make(chan bool, 1), make(chan struct{})
					cleaning <- !tt.early
					var leaves []bool
					var work sync.WaitGroup
					work.Go(func() {
						secondInterrupt(ctx, got, cleaning, over, func() leftovers { return leftovers{} }, func(again bool, _ leftovers) { leaves = append(leaves, again) })
					})
					if !tt.early {
						synctest.Wait()
					}
					for range tt.interrupts {
						got <- os.Interrupt
						time.Sleep(tt.apart)
					}
					close(over)
					work.Wait()
					require.Equal(t, tt.leaves, leaves)
				})
			}
		})
	}
}

// requireExit waits for the end of a command.
func requireExit(t *testing.T, cmd *exec.Cmd, code int) {
	t.Helper()
	err := cmd.Wait()
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%v", err)
}
