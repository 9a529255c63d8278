package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
)

func init() { pygent.RegisterFace(pygent.FaceWeb, Run) }

// Times of a server.
const (
	headerWithin   = 10 * time.Second
	shutdownWithin = 5 * time.Second
)

// Run shows an agent on a page of this machine alone until ctx ends. It prints the
// address, which has the token, and opens it in the browser. It is what
// [pygent.Agent.RunGUI] calls.
func Run(ctx context.Context, face pygent.FaceSession) error {
	s, err := New()
	if err != nil {
		return err
	}
	err = s.Face(ServeOptions{Open: true})(ctx, face)
	return errors.Join(err, s.Close())
}

// Face returns a face that shows an agent on this server, and serves until ctx ends or
// the agent is closed. It is for a program that has [pygent.Agent.RunGUI] show the page
// with options of its own, by [pygent.RegisterFace]. Without Out in the options, the
// agent's own output gets the address.
func (s *Server) Face(o ServeOptions) pygent.Face {
	return func(ctx context.Context, face pygent.FaceSession) error {
		one, err := s.add("", face, false)
		if err != nil {
			return err
		}
		if o.Out == nil {
			o.Out = face.Out
		}
		serving, stop := context.WithCancel(ctx)
		defer stop()
		s.work.Go(func() {
			select {
			case <-one.ended: // the program has closed the agent
				stop()
			case <-serving.Done():
			}
		})
		err = Serve(serving, s, o)
		one.cancel()
		<-one.ended
		return err
	}
}

// ServeOptions say how [Serve] listens.
type ServeOptions struct {
	// Listen is the address to listen at; "127.0.0.1:0" by default. One that others
	// can reach is an error without AllowRemote.
	Listen string
	// AllowRemote lets others reach the server. They then need to be told the
	// names: see [WithHosts]. It needs a certificate, or BehindProxy.
	AllowRemote bool
	// CertFile and KeyFile are the certificate and its key, for TLS.
	CertFile, KeyFile string
	// BehindProxy says that a proxy in front of the server has TLS.
	BehindProxy bool
	// Out gets the address of the page, in a line. Nil is nobody.
	Out io.Writer
	// Open opens the page in the browser of this machine, if there is one.
	Open bool
}

// Serve serves until ctx ends, and ends the requests then. It does not close the
// server.
func Serve(ctx context.Context, s *Server, o ServeOptions) error {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	secure := o.CertFile != "" || o.KeyFile != ""
	if err := o.check(secure); err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	var certificates []tls.Certificate
	if secure {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return fmt.Errorf("serve the page: read the certificate: %w", err)
		}
		certificates = []tls.Certificate{pair}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	server := &http.Server{
		Handler: s, TLSConfig: &tls.Config{Certificates: certificates}, ReadHeaderTimeout: headerWithin, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.opts.log.Handler(), slog.LevelWarn),
	}
	address := s.address(listener.Addr(), secure)
	if o.Out != nil {
		if _, err := fmt.Fprintln(o.Out, address); err != nil {
			return errors.Join(fmt.Errorf("tell the address of the page: %w", err), listener.Close())
		}
	}
	if o.Open {
		defer openBrowser(address)()
	}
	ended := make(chan error, 1)
	go func() {
		if secure {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWithin)
	defer cancel()
	if server.Shutdown(within) != nil {
		_ = server.Close() // what has not ended by itself
	}
	<-ended
	return nil
}

// check refuses an address that others can reach, unless that is meant and safe.
func (o ServeOptions) check(secure bool) error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	switch {
	case !o.AllowRemote:
		return fmt.Errorf("%s is reachable from other machines, which could run commands; this must be allowed explicitly", o.Listen)
	case !secure && !o.BehindProxy:
		return errors.New("other machines can connect only over TLS: give a certificate and its key, or say that a proxy terminates TLS")
	}
	return nil
}

// reached is where a listener is reached: one that listens everywhere by the first name
// that the program gave, or else by this machine's own for itself.
func (s *Server) reached(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	name := ownNames[0]
	if given := s.opts.hosts[len(ownNames):]; len(given) > 0 {
		name = given[0]
	}
	if _, _, err := net.SplitHostPort(name); err == nil {
		return name // it has a port, such as that of a proxy
	}
	return net.JoinHostPort(strings.Trim(name, "[]"), strconv.Itoa(tcp.Port))
}

// address is where the page is. The fragment never leaves the browser.
func (s *Server) address(at net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	address := scheme + "://" + s.reached(at) + s.opts.base + "/"
	if s.opts.user == nil {
		address += "#token=" + s.opts.token
	}
	return address
}
