package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/tree"
)

// slow is a reader and a writer that says when it is first used, and then waits.
type slow struct {
	once sync.Once
	used chan struct{}
	on   <-chan struct{}
}

func (s *slow) wait() {
	s.once.Do(func() { close(s.used) })
	<-s.on
}

func (s *slow) Write(p []byte) (int, error) { s.wait(); return len(p), nil }

func (s *slow) Read([]byte) (int, error) { s.wait(); return 0, io.EOF }

// TestSlowStreamsHoldUpNoOthers keeps as many long bodies under way as there is
// room for.
func TestSlowStreamsHoldUpNoOthers(t *testing.T) {
	const streams = 32
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, 1<<20))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "small"), []byte("few bytes"), 0o600))
	kinds := map[string]func(ctx context.Context, c *guest.Client, s *slow) error{
		"read": func(ctx context.Context, c *guest.Client, s *slow) error {
			_, err := c.ReadFile(ctx, "large", s, 0, -1)
			return err
		},
		"pack": func(ctx context.Context, c *guest.Client, s *slow) error {
			return c.Pack(ctx, "large", func(r io.Reader) error {
				_, err := io.Copy(s, r)
				return err
			})
		},
		"write": func(ctx context.Context, c *guest.Client, s *slow) error {
			return c.WriteFile(ctx, "written", s, 0)
		},
		"unpack": func(ctx context.Context, c *guest.Client, s *slow) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			_, err = c.Unpack(ctx, "unpacked", func(w io.Writer) error {
				s.wait()
				return tree.Pack(w, root, "small", tree.PackOptions{})
			})
			return err
		},
	}
	for name, hold := range kinds {
		t.Run(name, func(t *testing.T) {
			c := inside(t, guest.Config{Workspace: dir})
			goOn, held := make(chan struct{}), make(chan error, streams)
			for range streams {
				s := &slow{used: make(chan struct{}), on: goOn}
				go func() { held <- hold(t.Context(), c, s) }()
				<-s.used
			}
			var b bytes.Buffer
			_, err := c.ReadFile(t.Context(), "small", &b, 0, -1)
			require.NoError(t, err)
			require.Equal(t, "few bytes", b.String())
			_, err = c.Stat(t.Context(), "small")
			require.NoError(t, err)
			close(goOn)
			for range streams {
				require.NoError(t, <-held)
			}
			require.NoError(t, c.WriteFile(t.Context(), "after", bytes.NewReader(make([]byte, 1<<20)), 0))
		})
	}
}

// widened is a stream that tells each change of its width.
type widened struct {
	net.Conn
	changes chan bool
}

func (w widened) Widen(wide bool) { w.changes <- wide }

func TestStreamIsWideWhileLongBodiesAreSent(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "small"), []byte("few bytes"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 4<<20), 0o600))
	changes := make(chan bool)
	c := insideOn(t, guest.Config{Workspace: dir}, func(conn net.Conn) io.ReadWriteCloser { return widened{conn, changes} })

	// None of these waits for anybody to hear of a change.
	_, err := c.ReadFile(t.Context(), "small", io.Discard, 0, -1)
	require.NoError(t, err)
	require.NoError(t, c.WriteFile(t.Context(), "written", bytes.NewReader(make([]byte, 1<<20)), 0))

	goOn, ended := make(chan struct{}), make(chan error, 2)
	hold := func() *slow {
		s := &slow{used: make(chan struct{}), on: goOn}
		go func() {
			_, err := c.ReadFile(t.Context(), "large", s, 0, -1)
			ended <- err
		}()
		return s
	}
	first := hold()
	require.True(t, <-changes)
	<-first.used
	<-hold().used // the second changes nothing
	close(goOn)
	require.False(t, <-changes)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

// TestTimeOfOurOwnCodeDoesNotCount lets our side take longer for the beginning
// of a body than the guest may take for any piece.
func TestTimeOfOurOwnCodeDoesNotCount(t *testing.T) {
	if os.Getenv("PYGENT_TEST_ALONE") == "" {
		// yamux shares its timers in the whole process, and those of a bubble
		// must not get out.
		alone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		alone.Env = append(os.Environ(), "PYGENT_TEST_ALONE=1")
		output, err := alone.CombinedOutput()
		require.NoError(t, err, string(output))
		return
	}
	synctest.Test(t, func(t *testing.T) {
		c := inside(t, guest.Config{})
		late := readerFunc(func([]byte) (int, error) {
			time.Sleep(10 * time.Minute)
			return 0, io.EOF
		})
		require.NoError(t, c.WriteFile(t.Context(), "late", late, 0))
		require.NoError(t, c.Pack(t.Context(), "late", func(r io.Reader) error {
			time.Sleep(10 * time.Minute)
			_, err := io.Copy(io.Discard, r)
			return err
		}))
		_, err := c.ReadFile(t.Context(), "late", lateWriter{}, 0, -1)
		require.NoError(t, err)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// lateWriter takes its time before it reads anything.
type lateWriter struct{}

func (lateWriter) Write(p []byte) (int, error) { return len(p), nil }

func (lateWriter) ReadFrom(r io.Reader) (int64, error) {
	time.Sleep(10 * time.Minute)
	return io.Copy(io.Discard, r)
}
