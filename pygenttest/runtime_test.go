package pygenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// complete is a runtime with every optional interface that is tested.
type complete interface {
	pygent.Runtime
	pygent.Describer
	pygent.RangeReader
	pygent.JobRunner
	pygent.ProcessStarter
	pygent.FileLister
	pygent.FileRemover
	pygent.FileStreamer
}

// broken is a runtime that breaks a promise.
type broken struct {
	complete
	bash    func(ctx context.Context, cmd string, o pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error)
	read    func(ctx context.Context, path string) ([]byte, error)
	write   func(ctx context.Context, path string, data []byte) error
	upload  func(ctx context.Context, src, dest string) error
	export  func(ctx context.Context, path, dest string) error
	cleanup func() error
}

func (b broken) Bash(ctx context.Context, cmd string, opts ...pygent.BashOption) (pygent.BashResult, error) {
	if b.bash == nil {
		return b.complete.Bash(ctx, cmd, opts...)
	}
	return b.bash(ctx, cmd, pygent.NewBashOptions(opts...), func() (pygent.BashResult, error) { return b.complete.Bash(ctx, cmd, opts...) })
}

func (b broken) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if b.read == nil {
		return b.complete.ReadFile(ctx, path)
	}
	return b.read(ctx, path)
}

func (b broken) WriteFile(ctx context.Context, path string, data []byte) error {
	if b.write == nil {
		return b.complete.WriteFile(ctx, path, data)
	}
	return b.write(ctx, path, data)
}

func (b broken) UploadFile(ctx context.Context, src, dest string) error {
	if b.upload == nil {
		return b.complete.UploadFile(ctx, src, dest)
	}
	return b.upload(ctx, src, dest)
}

func (b broken) ExportFile(ctx context.Context, path, dest string) error {
	if b.export == nil {
		return b.complete.ExportFile(ctx, path, dest)
	}
	return b.export(ctx, path, dest)
}

func (b broken) Cleanup() error {
	if b.cleanup == nil {
		return b.complete.Cleanup()
	}
	return b.cleanup()
}

// Runtimes whose optional interfaces are broken.
type (
	badDescription struct{ complete }
	badRange       struct{ complete }
	badKill        struct{ complete }
	badProcess     struct{ complete }
	leakyProcess   struct{ pygent.Process }
	badList        struct{ complete }
	badRemoval     struct{ complete }
	badStream      struct{ complete }
)

func (b badDescription) Describe(ctx context.Context) pygent.RuntimeInfo {
	info := b.complete.Describe(ctx)
	info.Workspace = "/elsewhere"
	return info
}

func (b badRange) ReadFileRange(ctx context.Context, path string, offset, limit int64) ([]byte, int64, error) {
	data, _, err := b.complete.ReadFileRange(ctx, path, offset, limit)
	return data, int64(len(data)), err
}

func (b badKill) KillJob(ctx context.Context, id string) (pygent.Job, error) {
	jobs, err := b.Jobs(ctx)
	if len(jobs) == 0 || jobs[0].ID != id {
		return pygent.Job{}, errors.Join(err, pygent.ErrUnknownJob)
	}
	jobs[0].Running = false // it says so, but does not end it
	return jobs[0], nil
}

func (b badProcess) StartProcess(ctx context.Context, cmd string, opts ...pygent.BashOption) (pygent.Process, error) {
	p, err := b.complete.StartProcess(ctx, cmd, opts...)
	return leakyProcess{p}, err
}

func (leakyProcess) Close() error { return nil }

func (b badList) ListFiles(ctx context.Context, dir string, _, limit int) ([]pygent.FileInfo, bool, error) {
	return b.complete.ListFiles(ctx, dir, pygent.NoLimit, limit)
}

func (b badRemoval) RemoveFile(ctx context.Context, path string, _ bool) error {
	return b.complete.RemoveFile(ctx, path, true)
}

func (b badStream) WriteFileFrom(ctx context.Context, path string, r io.Reader) error {
	data, err := io.ReadAll(r)
	return errors.Join(b.WriteFile(ctx, path, data), err)
}

// failing is a test whose failure is wanted.
type failing struct {
	testing.TB
	mu     sync.Mutex
	failed bool
}

func (r *failing) Errorf(string, ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *failing) FailNow() { runtime.Goexit() }

// fails reports whether a check fails.
func fails(t *testing.T, check func(testing.TB)) bool {
	r := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// onHost is a path of the workspace without any confinement.
func onHost(rt complete, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(rt.Describe(context.Background()).Workspace, path)
}

// halfWrites returns a runtime that writes a file that exists in two steps. Between
// them it waits until a part of the file has been read.
func halfWrites(rt complete) pygent.Runtime {
	var size atomic.Int64
	var once sync.Once
	seen := make(chan struct{})
	return broken{complete: rt,
		write: func(ctx context.Context, path string, data []byte) error {
			if _, err := os.Stat(onHost(rt, path)); err != nil {
				return rt.WriteFile(ctx, path, data)
			}
			size.Store(int64(len(data)))
			f, err := os.Create(onHost(rt, path))
			if err != nil {
				return err
			}
			defer f.Close()
			_, _ = f.Write(data[:len(data)/2])
			<-seen
			_, err = f.Write(data[len(data)/2:])
			return err
		},
		read: func(ctx context.Context, path string) ([]byte, error) {
			data, err := rt.ReadFile(ctx, path)
			if int64(len(data)) < size.Load() {
				once.Do(func() { close(seen) })
			}
			return data, err
		},
	}
}

func TestEachCheckFindsARuntimeThatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the checks of runtimes many times")
	}
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell and links")
	}
	after := func(change func(cmd string, o pygent.BashOptions, r *pygent.BashResult)) func(complete) pygent.Runtime {
		return func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(_ context.Context, cmd string, o pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				res, err := run()
				change(cmd, o, &res)
				return res, err
			}}
		}
	}
	// rewritten runs commands with other words.
	rewritten := func(rewrite func(cmd string) string) func(complete) pygent.Runtime {
		return func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(ctx context.Context, cmd string, o pygent.BashOptions, _ func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				res, err := rt.Bash(ctx, rewrite(cmd), func(to *pygent.BashOptions) { *to = o })
				res.Command = cmd
				return res, err
			}}
		}
	}
	unconfined := func(rt complete) pygent.Runtime {
		return broken{complete: rt,
			read: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(onHost(rt, path)) },
		}
	}
	faulty := map[string]func(complete) pygent.Runtime{
		"output and exit code": after(func(_ string, _ pygent.BashOptions, r *pygent.BashResult) { r.ExitCode = min(r.ExitCode, 1) }),
		"order of the output":  rewritten(func(cmd string) string { return "( " + cmd + " ) 2>err; cat err" }),
		"empty standard input": rewritten(func(cmd string) string { return "echo typed | ( " + cmd + " )" }),
		"no state between commands": rewritten(func(cmd string) string {
			return `[ -f state ] && . ./state; ` + cmd + `; s=$?; echo "X=$X" >"$OLDPWD/state" 2>/dev/null || echo "X=$X" >state; exit $s`
		}),
		"options of a command": func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(ctx context.Context, cmd string, _ pygent.BashOptions, _ func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				return rt.Bash(ctx, cmd)
			}}
		},
		"time limit": func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(ctx context.Context, cmd string, o pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				if o.Timeout >= time.Second || !strings.Contains(cmd, ticks) {
					return run()
				}
				_, _ = rt.StartJob(ctx, cmd) // is left running
				time.Sleep(o.Timeout)
				return pygent.BashResult{Command: cmd, Output: "begun\n", TimedOut: true}, nil
			}}
		},
		"cancelling": func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(ctx context.Context, cmd string, _ pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				if ctx.Err() != nil || !strings.Contains(cmd, ticks) {
					return run()
				}
				_, _ = rt.StartJob(ctx, cmd)
				<-ctx.Done()
				return pygent.BashResult{}, ctx.Err()
			}}
		},
		"bounds of the output":   after(func(_ string, _ pygent.BashOptions, r *pygent.BashResult) { r.Output = strings.Repeat("x", 1<<20) }),
		"output that is no text": after(func(_ string, _ pygent.BashOptions, r *pygent.BashResult) { r.Output = "a\xffb\n" }),
		"output while it runs": after(func(_ string, o pygent.BashOptions, _ *pygent.BashResult) {
			if o.Output != nil {
				time.AfterFunc(100*time.Millisecond, func() { o.Output(pygent.OutputChunk{Text: "late"}) })
			}
		}),
		"commands at the same time": func(rt complete) pygent.Runtime {
			var mu sync.Mutex
			last := ""
			return broken{complete: rt, bash: func(_ context.Context, _ string, _ pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				res, err := run()
				mu.Lock()
				defer mu.Unlock()
				last += res.Output
				res.Output = last
				return res, err
			}}
		},
		"files": func(rt complete) pygent.Runtime {
			return broken{complete: rt, write: func(ctx context.Context, path string, data []byte) error {
				return rt.WriteFile(ctx, path, bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
			}}
		},
		"mode of a file": func(rt complete) pygent.Runtime {
			return broken{complete: rt, write: func(ctx context.Context, path string, data []byte) error {
				return errors.Join(rt.RemoveFile(ctx, path, false), rt.WriteFile(ctx, path, data))
			}}
		},
		"files that are not there": func(rt complete) pygent.Runtime {
			return broken{complete: rt, read: func(ctx context.Context, path string) ([]byte, error) {
				data, err := rt.ReadFile(ctx, path)
				if err != nil {
					return nil, errors.New("it went wrong")
				}
				return data, nil
			}}
		},
		"paths that leave the workspace": unconfined,
		"links":                          unconfined,
		"uploads": func(rt complete) pygent.Runtime {
			return broken{complete: rt, upload: func(ctx context.Context, src, dest string) error {
				if err := rt.UploadFile(ctx, src, dest); err != nil {
					return err
				}
				_, err := rt.Bash(ctx, "chmod -R a-x,u+X .")
				return err
			}}
		},
		"exports": func(rt complete) pygent.Runtime {
			return broken{complete: rt, export: func(_ context.Context, path, dest string) error {
				return exec.Command("cp", "-rT", onHost(rt, path), dest).Run() // through the link at dest
			}}
		},
		"files at the same time": halfWrites,
		"cleanup": func(rt complete) pygent.Runtime {
			return broken{complete: rt, cleanup: func() error { return nil }}
		},
		"cleanup while a command runs": func(rt complete) pygent.Runtime {
			return broken{complete: rt, bash: func(ctx context.Context, _ string, _ pygent.BashOptions, run func() (pygent.BashResult, error)) (pygent.BashResult, error) {
				res, _ := run()
				return res, nil // as if it had ended by itself
			}}
		},
		"description":    func(rt complete) pygent.Runtime { return badDescription{rt} },
		"parts of files": func(rt complete) pygent.Runtime { return badRange{rt} },
		"jobs":           func(rt complete) pygent.Runtime { return badKill{rt} },
		"processes":      func(rt complete) pygent.Runtime { return badProcess{rt} },
		"lists of files": func(rt complete) pygent.Runtime { return badList{rt} },
		"removed files":  func(rt complete) pygent.Runtime { return badRemoval{rt} },
		"streamed files": func(rt complete) pygent.Runtime { return badStream{rt} },
	}
	for _, check := range runtimeChecks {
		t.Run(check.name, func(t *testing.T) {
			wrong, ok := faulty[check.name]
			require.True(t, ok, "no runtime is wrong in this way")
			rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithLocalProtection(pygent.ProtectionOff))
			require.NoError(t, err)
			defer func() { require.NoError(t, rt.Cleanup()) }()
			require.True(t, fails(t, func(t testing.TB) { check.run(t, wrong(rt.(complete))) }), "the check does not find it")
		})
	}
}
