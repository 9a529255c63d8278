package openai

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Messages are the messages of a conversation, in order. While a request with them is
// sent they must stay the same: each is asked for several times.
type Messages interface {
	Len() int
	At(i int) *Message
}

// requestBody is what is sent as a request: what comes before the messages, the
// messages, and the end. A message is encoded only once in its life, and the body is
// read from where these encodings are kept. So a request takes no more memory for a
// long conversation than for a short one, however often it is sent.
type requestBody struct {
	head     []byte // everything before the first message
	messages Messages
	shape    shape
	bridged  map[string]bool
	size     int

	mu     sync.Mutex // held while somebody reads
	closed bool       // the messages may have changed
}

// requestEnd comes after the last message.
var requestEnd, comma = []byte("]}"), []byte(",")

// requestBody returns the body of a request, whose messages come last. So the body of
// the next step begins with the bytes of this one.
func (c *Client) requestBody(req *Request, name string, a adaptation, stream bool) (*requestBody, error) {
	head, err := c.requestHead(req, name, a, stream)
	if err != nil {
		return nil, err
	}
	messages := req.Messages
	if a.noSystem && !c.inResponses(a) {
		messages = withoutSystem(messages)
	}
	b := &requestBody{head: head, messages: messages, shape: c.shape(name, a), bridged: a.bridged}
	return b, b.measure()
}

// measure sets the size of the body, and encodes each message that was not encoded yet.
func (b *requestBody) measure() error {
	pieces := bodyPieces{body: b}
	for {
		batch, err := pieces.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		for _, piece := range batch {
			b.size += len(piece)
		}
	}
}

// close ends all reading of the body, after which the messages may change. A transport
// may still have been sending it, to a server that had answered before it had read all.
func (b *requestBody) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// open returns the body from its beginning.
func (b *requestBody) open() io.ReadCloser { return &bodyReader{pieces: bodyPieces{body: b}} }

// prepare is a middleware that tells the transport how long the body is, and how to
// get it again for another connection.
func (b *requestBody) prepare(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	req.ContentLength = int64(b.size)
	req.GetBody = func() (io.ReadCloser, error) { return b.open(), nil }
	return next(req)
}

// bodyReader reads a body.
type bodyReader struct {
	pieces bodyPieces
	rest   [][]byte // what was not read of the last pieces
	closed bool     // guarded by the body's mu, as all of it is
}

// errBodyClosed is the error of reading a body whose call is over.
var errBodyClosed = errors.New("the request is not sent any more")

// Read copies the next bytes of the body.
func (r *bodyReader) Read(p []byte) (n int, err error) {
	b := r.pieces.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed || b.closed {
		return 0, errBodyClosed
	}
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.rest, err = r.pieces.next(); err != nil {
				break
			}
		}
		copied := copy(p[n:], r.rest[0])
		n += copied
		if r.rest[0] = r.rest[0][copied:]; len(r.rest[0]) == 0 {
			r.rest = r.rest[1:]
		}
	}
	if n > 0 {
		err = nil // it comes again
	}
	return n, err
}

// Close ends the reading.
func (r *bodyReader) Close() error {
	r.pieces.body.mu.Lock()
	defer r.pieces.body.mu.Unlock()
	r.closed = true
	return nil
}

// bodyPieces are the pieces that a body consists of, one batch after the other.
type bodyPieces struct {
	body  *requestBody
	at    int  // the next message
	begun bool // the head was returned
	comes bool // a comma comes before what is next in the list
	ended bool
	batch [4][]byte
}

// next returns the next pieces, which are valid until the next call. None of them is
// empty. The error is io.EOF at the end.
func (p *bodyPieces) next() ([][]byte, error) {
	for {
		batch, err := p.message()
		if err != nil || len(batch) > 0 {
			return batch, err
		}
	}
}

// message returns the pieces that the next message adds, or the head or the end.
func (p *bodyPieces) message() ([][]byte, error) {
	b, batch := p.body, p.batch[:0]
	switch {
	case p.ended:
		return nil, io.EOF
	case !p.begun:
		p.begun = true
		return append(batch, b.head), nil
	case p.at == b.messages.Len():
		p.ended = true
		return append(batch, requestEnd), nil
	}
	msg := b.messages.At(p.at)
	if p.at > 0 && len(b.bridged) > 0 && msg.role == roleUser && b.bridged[b.messages.At(p.at-1).role] {
		batch = p.add(batch, b.shape.bridge())
	}
	encoded, err := b.shape.encode(msg)
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", p.at, err)
	}
	p.at++
	return p.add(batch, encoded), nil
}

// add adds an element of the list, unless there is nothing to send of it.
func (p *bodyPieces) add(batch [][]byte, element []byte) [][]byte {
	if len(element) == 0 {
		return batch
	}
	if p.comes {
		batch = append(batch, comma)
	}
	p.comes = true
	return append(batch, element)
}
