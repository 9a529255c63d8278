package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// guardConnections has a transport see nothing on its connections but whole answers.
// net/http writes to the log of the whole process when bytes come that belong to none,
// as of a server that sends more than it announced, and takes them for the next answer if
// that is asked for just then. HTTP/2 and TLS through a proxy go past this.
func guardConnections(t *http.Transport) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &answersOnly{Conn: conn}, nil
	}
	if t.DialTLSContext != nil {
		return
	}
	config := t.TLSClientConfig
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := &tls.Config{}
		if config != nil {
			own = config.Clone()
		}
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		if own.NextProtos == nil {
			own.NextProtos = []string{"h2", "http/1.1"}
		}
		conn := tls.Client(plain, own)
		if limit := t.TLSHandshakeTimeout; limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		if err := conn.HandshakeContext(ctx); err != nil {
			plain.Close()
			return nil, err
		}
		if conn.ConnectionState().NegotiatedProtocol == "h2" {
			return conn, nil // which net/http has to see
		}
		return &answersOnly{Conn: conn}, nil
	}
}

// answersOnly is a connection for HTTP/1 whose reader gets the bytes of answers to
// requests that were written, and the end of the connection in place of any others.
type answersOnly struct {
	net.Conn

	mu    sync.Mutex // guards what follows: net/http reads and writes in two goroutines
	part  answerPart
	left  int64  // bytes of a body or chunk
	line  []byte // of the head, as far as it has come
	first bool   // line is the first one of a head
	known bool   // an answer has come before
	ended bool   // something came that belongs to no answer

	status  int
	length  int64 // -1 when it was not announced
	chunked bool
}

// answerPart is what comes next.
type answerPart int

const (
	noAnswer   answerPart = iota // no request waits for one
	headLine                     // a line of the head
	wholeBody                    // left bytes
	chunkSize                    // a line
	chunkBody                    // left bytes, with the end of their line
	trailer                      // a line after the last chunk
	untilClose                   // whatever comes
)

// Write implements net.Conn. What is written while no answer is awaited begins a request.
func (c *answersOnly) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.part == noAnswer {
		c.beginHead()
		if !c.known && !bytes.HasPrefix(p, []byte("POST ")) && !bytes.HasPrefix(p, []byte("GET ")) {
			c.part = untilClose // TLS, or the way to a proxy
		}
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *answersOnly) Read(p []byte) (int, error) {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.take(p[:n])
	if took < n {
		c.ended = true
		if took == 0 {
			return 0, io.EOF
		}
	}
	return took, err
}

// take follows an answer through the bytes that come, and returns how many of them belong
// to it.
func (c *answersOnly) take(p []byte) (took int) {
	for took < len(p) {
		rest := p[took:]
		switch c.part {
		case untilClose:
			return len(p)
		case noAnswer:
			return took
		case wholeBody, chunkBody:
			n := min(c.left, int64(len(rest)))
			c.left -= n
			took += int(n)
			if c.left == 0 {
				c.endBody()
			}
		default:
			n := bytes.IndexByte(rest, '\n') + 1
			whole := n > 0
			if !whole {
				n = len(rest)
			}
			c.line = append(c.line, rest[:n]...)
			if c.strange() {
				return took
			}
			took += n
			if whole {
				line := strings.TrimRight(string(c.line), "\r\n")
				c.line = c.line[:0]
				c.endLine(line)
			}
		}
	}
	return took
}

// strange reports whether the beginning of an answer is none, where the server is known to
// speak HTTP. What a server sends first is for net/http to judge, and so are long lines.
func (c *answersOnly) strange() bool {
	const begin = "HTTP/"
	n := min(len(c.line), len(begin))
	wrong := c.part == headLine && c.first && string(c.line[:n]) != begin[:n]
	if wrong && !c.known || len(c.line) > maxHeaderBytes {
		c.part = untilClose
		return false
	}
	return wrong
}

func (c *answersOnly) beginHead() {
	c.part, c.first, c.line, c.status, c.length, c.chunked = headLine, true, nil, 0, -1, false
}

// endLine takes a whole line.
func (c *answersOnly) endLine(line string) {
	switch {
	case c.part == chunkSize:
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		switch {
		case err != nil || n < 0 || n > 1<<62:
			c.part = untilClose // net/http refuses it
		case n == 0:
			c.part = trailer
		default:
			c.part, c.left = chunkBody, n+int64(len("\r\n"))
		}
	case c.part == trailer:
		if line == "" {
			c.endAnswer()
		}
	case c.first:
		c.first = false
		if fields := strings.Fields(line); len(fields) > 1 {
			c.status, _ = strconv.Atoi(fields[1])
		}
	case line == "":
		c.endHead()
	default:
		c.header(line)
	}
}

// header takes note of a header that says where the body ends.
func (c *answersOnly) header(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "content-length":
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			c.length = n
		}
	case "transfer-encoding":
		c.chunked = strings.EqualFold(value, "chunked")
	}
}

func (c *answersOnly) endHead() {
	switch {
	case c.status == http.StatusSwitchingProtocols:
		c.part = untilClose
	case c.status >= 100 && c.status < 200:
		c.beginHead()
	case c.status == http.StatusNoContent || c.status == http.StatusNotModified:
		c.endAnswer()
	case c.chunked:
		c.part = chunkSize
	case c.length == 0:
		c.endAnswer()
	case c.length > 0:
		c.part, c.left = wholeBody, c.length
	default:
		c.part = untilClose
	}
}

// endBody ends a body, or a chunk of it.
func (c *answersOnly) endBody() {
	if c.part == chunkBody {
		c.part = chunkSize
		return
	}
	c.endAnswer()
}

func (c *answersOnly) endAnswer() { c.part, c.known = noAnswer, true }
