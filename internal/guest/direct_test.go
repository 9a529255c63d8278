package guest_test

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// engineOf is the engine's end of an attached container.
type engineOf struct {
	t *testing.T
	net.Conn
}

// says sends what the container wrote to stdout, which is stream 1, or stderr, 2.
func (e engineOf) says(stream byte, text string) {
	header := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	_, err := e.Write(append(header, text...))
	require.NoError(e.t, err)
}

// attachDirect returns the stream of a container whose guest may use the socket of l.
func attachDirect(t *testing.T, l net.Listener) (*guest.Direct, engineOf) {
	t.Helper()
	ours, theirs := net.Pipe()
	d := guest.AttachDirect(ours, ours, l)
	t.Cleanup(func() {
		_ = d.Close()
		_ = theirs.Close()
	})
	return d, engineOf{t, theirs}
}

func listenHere(t testing.TB) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(enginetest.SocketDir(t), "s")})
	require.NoError(t, err)
	return l
}

// requireSaid requires that text comes next.
func requireSaid(t *testing.T, r io.Reader, text string) {
	t.Helper()
	said := make([]byte, len(text))
	_, err := io.ReadFull(r, said)
	require.NoError(t, err)
	require.Equal(t, text, string(said))
}

// password is what guests of these tests send.
const password = "sixteen letters."

// Others connect as well, before the guest.
func TestGuestChoosesTheSocket(t *testing.T) {
	l := listenHere(t)
	d, engine := attachDirect(t, l)
	dialled := make(chan net.Conn, 1)
	go func() {
		for _, begins := range []string{"", "pass", "another password", password} {
			conn, err := net.Dial("unix", l.Addr().String())
			if err == nil {
				_, err = conn.Write([]byte(begins))
			}
			if err != nil || begins == password {
				dialled <- conn
				break
			}
			defer conn.Close()
		}
		engine.says(1, string(wire.BySocket)+password)
	}()
	_, err := d.Write([]byte("hello"))
	require.NoError(t, err)
	inside := <-dialled
	requireSaid(t, inside, "hello")
	_, err = inside.Write([]byte("welcome"))
	require.NoError(t, err)
	requireSaid(t, d, "welcome")
	_, err = net.Dial("unix", l.Addr().String())
	require.Error(t, err, "nobody else can connect")

	require.NoError(t, inside.Close())
	go func() {
		engine.says(2, "panic: ")
		engine.says(2, "out of it\n")
		engine.Close()
	}()
	_, err = d.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "panic: out of it", d.Stderr())
}

func TestGuestChoosesStdio(t *testing.T) {
	l := listenHere(t)
	d, engine := attachDirect(t, l)
	go func() {
		engine.says(1, string(wire.ByStdio)+"wel")
		engine.says(1, "come")
	}()
	requireSaid(t, d, "welcome")
	_, err := net.Dial("unix", l.Addr().String())
	require.Error(t, err, "nobody can connect any more")
	go d.Write([]byte("hello"))
	requireSaid(t, engine, "hello")
}

func TestGuestThatChoosesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		does func(engineOf)
		want string
	}{
		"says something else": {func(e engineOf) { e.says(1, "x") }, `begins with "x"`},
		"ends":                {func(e engineOf) { e.Close() }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			d, engine := attachDirect(t, listenHere(t))
			go c.does(engine)
			_, err := d.Read(make([]byte, 1))
			require.ErrorContains(t, err, c.want)
			_, err = d.Write([]byte("x"))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// deaf is a listener to which nobody connects.
type deaf struct {
	net.Listener
	closed chan struct{}
	once   sync.Once
}

func (d *deaf) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func TestGuestThatOnlySaysThatItConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, engine := attachDirect(t, &deaf{closed: make(chan struct{})})
		go engine.says(1, string(wire.BySocket)+password)
		begun := time.Now()
		_, err := d.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestCloseEndsTheWaitForTheGuest(t *testing.T) {
	for name, said := range map[string]string{"that says nothing": "", "that does not connect": string(wire.BySocket) + password, "that is cut off": string(wire.BySocket) + "six"} {
		t.Run(name, func(t *testing.T) {
			d, engine := attachDirect(t, &deaf{closed: make(chan struct{})})
			ended := make(chan error, 2)
			go func() {
				_, err := d.Read(make([]byte, 1))
				ended <- err
			}()
			go func() {
				_, err := d.Write([]byte("x"))
				ended <- err
			}()
			if said != "" {
				engine.says(1, said) // returns once it is read
			}
			require.NoError(t, d.Close())
			require.Error(t, <-ended)
			require.Error(t, <-ended)
		})
	}
}
