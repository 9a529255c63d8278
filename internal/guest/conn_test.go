package guest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/x/pygent/internal/guest"
)

// dialled connects to a server of the test through the guest. stop closes both
// ends.
func dialled(c *guest.Client) (ours, theirs net.Conn, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	if ours, err = c.Dial(context.Background(), l.Addr().(*net.TCPAddr).Port); err != nil {
		return nil, nil, nil, err
	}
	theirs, err = l.Accept()
	return ours, theirs, func() { ours.Close(); theirs.Close() }, err
}

// accepted connects to a listener of the host in the guest.
func accepted(l *guest.Listener) (ours, theirs net.Conn, stop func(), err error) {
	if theirs, err = net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(l.Port())); err != nil {
		return nil, nil, nil, err
	}
	ours, err = l.Accept()
	return ours, theirs, func() { ours.Close(); theirs.Close() }, err
}

func TestConnectionsKeepThePromisesOfNetConn(t *testing.T) {
	if testing.Short() {
		t.Skip("sends megabytes")
	}
	c := local(t)
	l, err := c.Listen(t.Context(), 0)
	require.NoError(t, err)
	defer l.Close()
	swapped := func(mp nettest.MakePipe) nettest.MakePipe {
		return func() (net.Conn, net.Conn, func(), error) {
			a, b, stop, err := mp()
			return b, a, stop, err
		}
	}
	dial := func() (net.Conn, net.Conn, func(), error) { return dialled(c) }
	accept := func() (net.Conn, net.Conn, func(), error) { return accepted(l) }
	t.Run("dialled", func(t *testing.T) { nettest.TestConn(t, dial) })
	t.Run("other end of dialled", func(t *testing.T) { nettest.TestConn(t, swapped(dial)) })
	t.Run("accepted", func(t *testing.T) { nettest.TestConn(t, accept) })
	t.Run("other end of accepted", func(t *testing.T) { nettest.TestConn(t, swapped(accept)) })
}

func TestConnectionsEndOneDirectionAtATime(t *testing.T) {
	ours, theirs, stop, err := dialled(local(t))
	require.NoError(t, err)
	defer stop()
	require.NoError(t, ours.(*guest.Conn).CloseWrite())
	got, err := io.ReadAll(theirs)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = io.WriteString(theirs, "still open")
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	got, err = io.ReadAll(ours)
	require.NoError(t, err)
	require.Equal(t, "still open", string(got))
}

func TestClosedConnectionsSaySo(t *testing.T) {
	ours, _, stop, err := dialled(local(t))
	require.NoError(t, err)
	defer stop()
	require.NoError(t, ours.Close())
	_, err = ours.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = ours.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, ours.SetDeadline(time.Time{}), net.ErrClosed)
	require.ErrorIs(t, ours.Close(), net.ErrClosed)
}

func TestServersOfNetHTTPTakeOverConnectionsFromInside(t *testing.T) {
	l, err := local(t).Listen(t.Context(), 0)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, strings.ToUpper(line))
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(l.Port()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n")
	require.NoError(t, err)
	head := make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"))
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "HELLO\n", string(got))
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

func TestListenersEnd(t *testing.T) {
	t.Run("when closed", func(t *testing.T) {
		l, err := local(t).Listen(t.Context(), 0)
		require.NoError(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			waiting <- err
		}()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-waiting, net.ErrClosed)
	})
	t.Run("with the guest", func(t *testing.T) {
		c := local(t)
		l, err := c.Listen(t.Context(), 0)
		require.NoError(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			waiting <- err
		}()
		require.NoError(t, c.Close())
		err = <-waiting
		require.ErrorIs(t, err, guest.ErrClosed)
		require.NoError(t, l.Close())
	})
	t.Run("and leave the port free", func(t *testing.T) {
		c := local(t)
		l, err := c.Listen(t.Context(), 0)
		require.NoError(t, err)
		_, err = c.Listen(t.Context(), l.Port())
		require.ErrorContains(t, err, "address already in use")
		require.NoError(t, l.Close())
		require.Eventually(t, func() bool {
			again, err := c.Listen(t.Context(), l.Port())
			return err == nil && again.Close() == nil
		}, 10*time.Second, time.Millisecond)
	})
}

// Many connections in succession must count as only a few at once.
func TestListenersForgetConnectionsThatAreClosed(t *testing.T) {
	l, err := local(t).Listen(t.Context(), 0)
	require.NoError(t, err)
	defer l.Close()
	for range 600 {
		ours, theirs, stop, err := accepted(l)
		require.NoError(t, err)
		_, err = theirs.Write(make([]byte, 1000)) // nobody reads this
		require.NoError(t, err)
		require.NoError(t, ours.Close())
		stop()
	}
}
