package pygent_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// faultyEngine forwards connections to the shared engine of the tests, and can
// freeze or cut them. The engine itself is not affected.
type faultyEngine struct {
	host   string // value for DOCKER_HOST
	engine *client.Client

	mu     sync.Mutex // guards what follows
	moves  *sync.Cond
	frozen bool // no bytes are forwarded in either direction
	down   bool // new connections are refused
	open   map[net.Conn]bool
}

// newFaultyEngine listens on a Unix socket or on TCP, as a remote engine does.
func newFaultyEngine(t *testing.T, network string) *faultyEngine {
	t.Helper()
	return newFaultyEngineOf(t, testEngine(t), network)
}

func newFaultyEngineOf(t *testing.T, engine *client.Client, network string) *faultyEngine {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(shortDir(t), "s")
	}
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	f := &faultyEngine{host: network + "://" + l.Addr().String(), engine: engine, open: map[net.Conn]bool{}}
	f.moves = sync.NewCond(&f.mu)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.thaw()
		f.cut()
		wg.Wait()
	})
	return f
}

// pass forwards a connection to the engine and back.
func (f *faultyEngine) pass(outside net.Conn) {
	defer outside.Close()
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return
	}
	inside, err := f.engine.Dialer()(context.Background())
	if err != nil {
		return
	}
	defer inside.Close()
	f.mu.Lock()
	f.open[outside], f.open[inside] = true, true
	f.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(inside, held{f, outside})
		inside.(interface{ CloseWrite() error }).CloseWrite()
	})
	io.Copy(outside, held{f, inside})
	outside.Close()
	wg.Wait()
}

// held is a connection that forwards nothing while the engine is frozen.
type held struct {
	f *faultyEngine
	net.Conn
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	for h.f.frozen {
		h.f.moves.Wait()
	}
	return n, err
}

// freeze stops all bytes without closing a connection, as when a network fails.
func (f *faultyEngine) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

func (f *faultyEngine) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = false
	f.moves.Broadcast()
}

// cut closes all connections, and refuses new ones until mend.
func (f *faultyEngine) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = true
	for conn := range f.open {
		conn.Close()
	}
	clear(f.open)
}

func (f *faultyEngine) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
}
