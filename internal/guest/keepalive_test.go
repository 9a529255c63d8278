package guest

import (
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/server"
	"github.com/x/pygent/internal/guest/supervise"
)

// late is the connection of a host that was stopped while its guest
// disappeared. Writes succeed, and the end of the stream is seen only after a
// write.
type late struct {
	net.Conn
	gone  chan struct{} // closed when the guest has disappeared
	tried chan struct{} // closed when something was written after that
	ended chan struct{} // closed when everything that the guest sent was read
	once  sync.Once
	last  sync.Once
}

func (l *late) Write(p []byte) (int, error) {
	select {
	case <-l.gone:
		l.once.Do(func() { close(l.tried) })
		return len(p), nil
	default:
		return l.Conn.Write(p)
	}
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil {
		l.last.Do(func() { close(l.ended) })
		<-l.tried
	}
	return n, err
}

func TestGuestThatWasNotHeardForLongIsCalledFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		silence time.Duration
		unsent  bool
	}{"for a moment": {0, false}, "for long": {3 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- server.New(supervise.NewGroups(), os.Environ()).Serve(theirs) }()
			conn := &late{Conn: ours, gone: make(chan struct{}), tried: make(chan struct{}), ended: make(chan struct{})}
			c, err := Connect(t.Context(), conn, Config{Workspace: t.TempDir(), KeepAlive: time.Hour})
			require.NoError(t, err)
			close(conn.gone)
			require.NoError(t, theirs.Close())
			<-conn.ended // data that arrives late is received, too
			c.heard.last.Store(-int64(tc.silence))
			_, err = c.Run(t.Context(), Command{Script: "true"})
			require.ErrorIs(t, err, ErrClosed)
			if tc.unsent {
				require.ErrorIs(t, err, ErrUnsent)
			} else {
				require.NotErrorIs(t, err, ErrUnsent)
			}
			require.NoError(t, c.Close())
			<-served
		})
	}
}
