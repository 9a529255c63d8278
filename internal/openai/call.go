package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/responses"
	"github.com/x/pygent/internal/openai/thought"
)

// Limits of what is read from a server. A stream may be long on the wire,
// since little of each chunk is kept.
const (
	maxPiece      = 17 << 20 // an event, or a plain body: an answer of chatstream's limit, and what surrounds it
	maxStreamBody = 512 << 20
	maxErrorBody  = 256 << 10
	errorBodyTime = 5 * time.Second
)

// lookAhead is how many bytes are read to see what an answer is. What follows is
// read into the buffer of its reader, through this one.
const lookAhead = 512

// call is one attempt.
type call struct {
	client     *Client
	req        *Request
	name       string
	adaptation adaptation
	emit       func(Delta) // nil for a plain call
	emitted    bool
	loops      loops
	splitter   thought.Splitter
	said       string           // how the first event begins
	closing    string           // ends the thoughts within which the answer begins; empty for none
	used       chatstream.Usage // by an answer that failed, as far as the server has said
}

func (c *call) do(ctx context.Context) (*chatstream.Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	body, err := c.client.requestBody(c.req, c.name, c.adaptation, c.emit != nil)
	var unknown *responses.PartError
	if errors.As(err, &unknown) {
		return nil, &Error{Status: http.StatusBadRequest, Message: unknown.Error()} // as the server would say, and adapt understands
	}
	if err != nil {
		return nil, fmt.Errorf("model request: %w", err)
	}
	defer body.close()
	watch := newStallWatch(ctx, c.limits())
	defer watch.stop()
	resp, err := c.roundTrip(watch, body)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if stall := watch.stalled(); stall != nil {
		return nil, c.paid(stall)
	}
	return nil, c.paid(c.explain(err))
}

// roundTrip sends the body as it is, and reads the response itself.
func (c *call) roundTrip(watch *stallWatch, body *requestBody) (*chatstream.Answer, error) {
	res, err := c.client.send(watch.ctx, http.MethodPost, c.path(),
		option.WithRequestBody("application/json", body.open()),
		option.WithMiddleware(body.prepare, c.client.noteAnswer, sendSeldom, refuseErrorStatus, decodeBody))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	// A transport that ignores its context must not hold up the read.
	defer context.AfterFunc(watch.ctx, func() { res.Body.Close() })()
	return c.read(watch, res)
}

// read detects the form of the answer by its content, whatever its header says
// or the request asked for.
func (c *call) read(watch *stallWatch, res *http.Response) (*chatstream.Answer, error) {
	asm := c.assembler()
	if c.closing = c.client.opensInThoughts(c.name); c.closing != "" {
		c.splitter.Inside(c.closing)
	}
	r := bufio.NewReaderSize(watch.reader(res.Body), lookAhead)
	first, err := firstByte(r)
	switch {
	case err == io.EOF:
		err = emptyAnswer(res)
	case err != nil:
	case first == '<':
		err = &Error{
			Status:  res.StatusCode,
			Message: fmt.Sprintf("the answer is an HTML page (asked %s: is that the API of a model server, and may it be used without logging in?%s)", c.address(), c.client.baseURLHint()),
		}
	case first == '{' || first == '[':
		err = c.readPlain(watch, asm, r)
	default:
		head, _ := r.Peek(r.Buffered())
		said := snippet(head)
		err = c.readStream(watch, asm, r, said)
	}
	var answer *chatstream.Answer
	if err == nil {
		answer, err = asm.Finish()
		if errors.Is(err, chatstream.ErrNoChoice) && c.said != "" {
			err = fmt.Errorf("%w: %s", err, c.said)
		}
	}
	if errors.Is(err, chatstream.ErrUnproven) {
		c.client.noteUnproven(c.name)
	}
	if err == nil {
		err = c.end(answer)
	}
	if err == nil {
		err = c.takeThoughts(answer)
	}
	if err != nil {
		c.used = asm.Used()
		return nil, responseError(err, res)
	}
	watch.drain(r)
	dropEmpty(answer)
	return answer, nil
}

func (c *call) readPlain(watch *stallWatch, asm assembler, r io.Reader) error {
	var body bytes.Buffer
	_, err := io.Copy(&body, io.LimitReader(pulse{r, watch.moved}, maxPiece+1))
	if err != nil {
		return err
	}
	if body.Len() > maxPiece {
		return fmt.Errorf("%w: more than %d MiB", chatstream.ErrTooLarge, maxPiece>>20)
	}
	_, err = c.addEvent(asm, body.Bytes()) // several lines are chunks of their own
	if err == nil && asm.Progress() == 0 && !asm.Finished() {
		return fmt.Errorf("%w: %s", chatstream.ErrNoChoice, snippet(body.Bytes()))
	}
	return err
}

// eventError returns the error that an event of that name holds.
func eventError(data []byte) error {
	if inner := memberOf(data, "error"); json.Valid(data) && len(inner) > 0 && string(inner) != "null" {
		data = inner
	}
	return chatstream.NewServerError(bytes.TrimSpace(data))
}

// isWords reports whether what came instead of events are words, and not comments.
func isWords(said string) bool {
	return said != "" && said[0] != ':' && !strings.HasPrefix(said, "event:") && !strings.HasPrefix(said, "id:")
}

// readStream reads events. What comes instead of any, as the plain words of a proxy, is
// the error; said is how it begins.
func (c *call) readStream(watch *stallWatch, asm assembler, r io.Reader, said string) error {
	bounded := newBoundedStream(r)
	none := true
	events := NewEventReader(bounded, maxPiece)
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, ErrEventTooLarge):
			return fmt.Errorf("%w: an event of more than %d MiB", chatstream.ErrTooLarge, maxPiece>>20)
		case err == io.EOF && none && asm.Progress() == 0 && isWords(said):
			return fmt.Errorf("%w: %s", chatstream.ErrNoChoice, said)
		case err == io.EOF || err != nil && asm.Finished():
			return nil // Finish judges it
		case err != nil:
			return err
		}
		none = false
		if events.Name() == "error" {
			if asm.Finished() && !asm.OwesCalls() {
				return nil // the answer is whole, whatever comes after it
			}
			return eventError(event)
		}
		before, whole := asm.Progress(), asm.Finished() && !asm.OwesCalls()
		if done, err := c.addEvent(asm, event); done || err != nil {
			if whole && err != nil {
				return nil // as above
			}
			return err
		}
		if asm.Progress() > before {
			bounded.moved()
			watch.moved()
		}
		watch.finished(asm.Finished() && !asm.OwesCalls())
	}
}

// addEvent processes the data of an event. It may contain several chunks, since
// some servers end an event by a single newline.
func (c *call) addEvent(asm assembler, event []byte) (done bool, err error) {
	event = bytes.TrimSpace(event)
	if bytes.IndexByte(event, '\n') < 0 || json.Valid(event) {
		return c.addChunk(asm, event)
	}
	for data := range bytes.Lines(event) {
		if done, err := c.addChunk(asm, bytes.TrimSpace(data)); done || err != nil {
			return true, err
		}
	}
	return false, nil
}

func (c *call) addChunk(asm assembler, data []byte) (done bool, err error) {
	switch {
	case len(data) == 0:
		return false, nil
	case bytes.Equal(data, []byte("[DONE]")):
		asm.Done()
		return true, nil
	}
	if c.said == "" {
		c.said = snippet(data[:min(len(data), 2*snippetSize)])
	}
	if jsonobj.BeginsArray(data) && json.Valid(data) { // Google writes errors as a list of one, and proxies of its own API all of a stream
		for chunk := range jsonobj.Elements(data) {
			if err := c.add(asm, chunk); err != nil {
				return true, err
			}
		}
	} else if err := c.add(asm, data); err != nil {
		return true, err
	}
	return c.inResponses() && asm.Finished(), nil // nothing follows the end there, whenever the connection is closed
}

func (c *call) add(asm assembler, data []byte) error {
	d, err := asm.Add(data)
	if err == nil && !asm.Finished() { // a whole answer is what it is
		err = c.loops.add(&d)
	}
	if err == nil && c.emit != nil && d.Text != "" && !c.inResponses() {
		text, thoughts := c.splitter.Add(d.Text)
		d.Text, d.Reasoning = text, d.Reasoning+thoughts
	}
	if err == nil && c.emit != nil && (d.Text != "" || d.Reasoning != "" || d.Call != (chatstream.CallDelta{})) {
		c.emitted = c.emitted || d.Text != "" || d.Reasoning != ""
		c.emit(Delta{Text: d.Text, Reasoning: d.Reasoning, Call: d.Call})
	}
	return err
}

// takenID keeps ids from being used twice in a conversation. Providers that
// check this refuse it.
func (c *call) takenID(id string) bool {
	for i := range c.req.Messages.Len() {
		for _, call := range c.req.Messages.At(i).calls {
			if call.id == id {
				return true
			}
		}
	}
	return false
}

// firstByte returns the first byte that is not white space, without consuming
// it.
func firstByte(r *bufio.Reader) (byte, error) {
	for n := 0; n < maxErrorBody; n++ {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // and a byte order mark
		default:
			return b, r.UnreadByte()
		}
	}
	return 0, fmt.Errorf("%w: it begins with %d KiB of white space", chatstream.ErrTooLarge, maxErrorBody>>10)
}

// dropEmpty removes empty fields from an answer.
func dropEmpty(a *chatstream.Answer) {
	maps.DeleteFunc(a.Extra, isEmptyField)
	for _, c := range a.ToolCalls {
		maps.DeleteFunc(c.Extra, isEmptyField)
	}
}
