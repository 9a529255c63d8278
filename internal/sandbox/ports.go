package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Dial connects to a TCP port on which a process of the sandbox listens. The
// connection outlives ctx, and ends with the sandbox.
func (r *Sandbox) Dial(ctx context.Context, port int) (net.Conn, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	client, err := r.commands.Guest(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial port %d: %w", port, r.errorOf(ctx, err))
	}
	conn, err := client.Dial(ctx, port)
	if err != nil {
		return nil, r.errorOf(ctx, err)
	}
	return conn, nil
}

// Publication is a port of a sandbox that is reachable on this machine.
type Publication struct {
	address string // where it listens here
	port    int    // in the sandbox
}

// ParsePublication parses a port to publish: "8080", "3000:8080" or
// "0.0.0.0:3000:8080".
func ParsePublication(s string) (Publication, error) {
	host, outside, inside := "127.0.0.1", s, s
	var err error
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		outside, inside = s[:i], s[i+1:]
	}
	if strings.Contains(outside, ":") {
		host, outside, err = net.SplitHostPort(outside)
	}
	port, portErr := portNumber(inside)
	if err = cmp.Or(err, portErr); err == nil {
		_, err = portNumber(outside)
	}
	if err != nil {
		return Publication{}, fmt.Errorf("port %q: %w; write it as 8080, 3000:8080 or 0.0.0.0:3000:8080", s, err)
	}
	return Publication{net.JoinHostPort(host, outside), port}, nil
}

func portNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is no port", s)
	}
	return n, nil
}

// forwarding listens on ports of this machine and passes connections on to
// ports of a sandbox.
type forwarding struct {
	dial      func(ctx context.Context, port int) (net.Conn, error)
	listeners []net.Listener
	wg        sync.WaitGroup
	life      context.Context
	end       context.CancelFunc
}

// publish starts the forwarding. Commands on this machine listen on the
// published port themselves when it is the same.
func publish(ports []Publication, local bool, dial func(context.Context, int) (net.Conn, error)) (*forwarding, error) {
	f := &forwarding{dial: dial}
	f.life, f.end = context.WithCancel(context.Background())
	for _, p := range ports {
		if local && strings.HasSuffix(p.address, ":"+strconv.Itoa(p.port)) {
			continue
		}
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("publish port %d: %w", p.port, err), f.close())
		}
		f.listeners = append(f.listeners, l)
		f.wg.Go(func() { f.serve(l, p.port) })
	}
	return f, nil
}

func (f *forwarding) serve(l net.Listener, port int) {
	for {
		outside, err := l.Accept()
		if err != nil {
			return // closed
		}
		f.wg.Go(func() {
			defer outside.Close()
			inside, err := f.dial(f.life, port)
			if err != nil {
				return // the client sees the connection end, as with a server that is down
			}
			defer inside.Close()
			f.join(outside, inside)
		})
	}
}

// join copies both ways until both have ended or the forwarding closes.
func (f *forwarding) join(a, b net.Conn) {
	stop := context.AfterFunc(f.life, func() { a.Close(); b.Close() })
	defer stop()
	var wg sync.WaitGroup
	copyEnd := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			to.Close()
			from.Close()
		}
	}
	wg.Go(func() { copyEnd(a, b) })
	copyEnd(b, a)
	wg.Wait()
}

// close ends the listeners and the connections, and waits for them. A nil
// forwarding has none.
func (f *forwarding) close() error {
	if f == nil {
		return nil
	}
	f.end()
	var err error
	for _, l := range f.listeners {
		err = errors.Join(err, l.Close())
	}
	f.wg.Wait()
	return err
}
