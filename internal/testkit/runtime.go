package testkit

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// RuntimeKind is a kind of runtime to which common tests apply.
type RuntimeKind struct {
	Name      string
	Construct func(ctx context.Context, opts ...pygent.RuntimeOption) (pygent.Runtime, error)
	Options   func(t testing.TB) []pygent.RuntimeOption // those that make it of the kind
}

// RuntimeKinds are all kinds. A test is skipped if it asks for the options of one whose
// engine is not there.
func RuntimeKinds() []RuntimeKind {
	onImage := func(image string) func(testing.TB) []pygent.RuntimeOption {
		return func(t testing.TB) []pygent.RuntimeOption {
			t.Helper()
			RequireDocker(t)
			return []pygent.RuntimeOption{pygent.WithImage(image)}
		}
	}
	return []RuntimeKind{
		{"local", pygent.NewLocalRuntime, func(testing.TB) []pygent.RuntimeOption { return nil }},
		{"docker", pygent.NewDockerRuntime, onImage(enginetest.Image())},
		{"busybox", pygent.NewDockerRuntime, onImage(enginetest.Busybox())},
		{"remote", pygent.NewDockerRuntime, OnRemote},
	}
}

// New returns a new runtime of the kind until the end of a test.
func (k RuntimeKind) New(t testing.TB, opts ...pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	return NewRuntime(t, k.Construct, append(k.Options(t), opts...)...)
}

// NewRuntime returns a new runtime until the end of a test.
func NewRuntime(t testing.TB, construct func(context.Context, ...pygent.RuntimeOption) (pygent.Runtime, error), opts ...pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	r, err := construct(t.Context(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Cleanup()) })
	return r
}

// Bash runs a command, whose result is not an error.
func Bash(t testing.TB, r pygent.Runtime, cmd string, opts ...pygent.BashOption) pygent.BashResult {
	t.Helper()
	res, err := r.Bash(t.Context(), cmd, opts...)
	require.NoError(t, err)
	require.Equal(t, cmd, res.Command)
	return res
}

// Collect reads a job's output until the job has ended.
func Collect(t testing.TB, jobs pygent.JobRunner, id string) (string, pygent.Job) {
	t.Helper()
	var text strings.Builder
	for offset := int64(0); ; {
		out, err := jobs.JobOutput(t.Context(), id, offset, 10*time.Second)
		require.NoError(t, err)
		text.WriteString(out.Text)
		offset = out.Next
		if !out.Job.Running && out.Text == "" {
			return text.String(), out.Job
		}
	}
}

// Nowhere is a runtime in which commands do nothing and no file is, for tests of the loop
// alone.
type Nowhere struct{}

// Bash does nothing.
func (Nowhere) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{Command: cmd}, nil
}

// ReadFile finds nothing.
func (Nowhere) ReadFile(context.Context, string) ([]byte, error) { return nil, fs.ErrNotExist }

// WriteFile does nothing.
func (Nowhere) WriteFile(context.Context, string, []byte) error { return nil }

// UploadFile does nothing.
func (Nowhere) UploadFile(context.Context, string, string) error { return nil }

// ExportFile does nothing.
func (Nowhere) ExportFile(context.Context, string, string) error { return nil }

// Cleanup does nothing.
func (Nowhere) Cleanup() error { return nil }

// NoRuntime is a runtime that can only be cleaned up. All else panics.
type NoRuntime struct{ pygent.Runtime }

// Cleanup does nothing.
func (NoRuntime) Cleanup() error { return nil }
