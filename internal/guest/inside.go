package guest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/x/pygent/internal/guest/server"
	"github.com/x/pygent/internal/guest/supervise"
)

// startInside starts a guest inside this process and connects to it. The
// environment of its commands is env and config.Env, and nothing else. They run
// in process groups, or on Windows in job objects.
func startInside(ctx context.Context, env []string, config Config) (*Client, error) {
	ours, theirs := net.Pipe()
	l := &inside{Conn: ours, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.served = server.New(supervise.NewGroups(), env).Serve(theirs)
	}()
	return Connect(ctx, l, config)
}

// inside is the stream of a guest inside this process.
type inside struct {
	net.Conn
	done   chan struct{} // closed when the server has ended
	served error         // written before done is closed
	once   sync.Once
	err    error
}

// Close closes the stream and waits for the server.
func (l *inside) Close() error {
	l.once.Do(func() {
		l.err = l.Conn.Close()
		<-l.done
		l.err = errors.Join(l.err, l.served)
	})
	return l.err
}
