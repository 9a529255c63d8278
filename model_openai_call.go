package pygent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/x/pygent/internal/chatstream"
)

// Limits of what is read from a server. A stream may be long on the wire,
// since little of each chunk is kept.
const (
	maxPlainBody  = 33 << 20 // an answer of chatstream's limit, and what surrounds it
	maxStreamBody = 512 << 20
	maxErrorBody  = 256 << 10
)

// chat makes one call, plain when emit is nil. It repeats the request only to
// leave out what the server refused, and never after it emitted text.
func (m *OpenAIModel) chat(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error) {
	name := cmp.Or(req.Model, m.model)
	var here adaptation // for this call alone
	for {
		c := &openAICall{model: m, req: req, name: name, adaptation: m.known(name).and(here), emit: emit}
		resp, err := c.do(ctx)
		if err == nil || c.emitted {
			return resp, err
		}
		change, ok := c.adapt(err)
		if !ok {
			return nil, err
		}
		if emit != nil {
			emit(Delta{Notice: change.notice})
		}
		here = here.and(change.adaptation)
		if change.lasting {
			m.learn(name, change.adaptation)
		}
	}
}

// openAICall is one attempt.
type openAICall struct {
	model      *OpenAIModel
	req        *ChatRequest
	name       string
	adaptation adaptation
	emit       func(Delta) // nil for a plain call
	emitted    bool
}

func (c *openAICall) do(ctx context.Context) (*ChatResponse, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	body, err := c.model.requestBody(c.req, c.name, c.adaptation, c.emit != nil)
	if err != nil {
		return nil, fmt.Errorf("model request: %w", err)
	}
	watch := newStallWatch(ctx, c.model.firstByte, c.silence())
	defer watch.stop()
	resp, err := c.roundTrip(watch, body)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if stall := watch.stalled(); stall != nil {
		return nil, stall
	}
	return nil, c.explain(err)
}

// roundTrip sends the body as it is, and reads the response itself.
func (c *openAICall) roundTrip(watch *stallWatch, body []byte) (*ChatResponse, error) {
	// The client is made here, for two reasons: NewClient reads OPENAI_* variables
	// on its own, and a client in a field of the model, which programs print,
	// would have the linker keep every method of every service.
	client := openai.Client{Options: c.model.options}
	var res *http.Response
	err := client.Post(watch.ctx, c.path(), nil, &res,
		option.WithRequestBody("application/json", body),
		option.WithMiddleware(refuseErrorStatus))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	// A transport that ignores its context must not hold up the read.
	defer context.AfterFunc(watch.ctx, func() { res.Body.Close() })()
	return c.read(watch, res)
}

// read takes the answer for what it is, whatever its header says or the
// request asked for.
func (c *openAICall) read(watch *stallWatch, res *http.Response) (*ChatResponse, error) {
	asm := c.assembler()
	r := bufio.NewReader(watch.reader(res.Body))
	first, err := firstByte(r)
	switch {
	case err == io.EOF:
		err = &APIError{Status: res.StatusCode, Message: "the answer is empty", Retryable: true}
	case err != nil:
	case first == '<':
		err = &APIError{
			Status:  res.StatusCode,
			Message: "the answer is an HTML page" + c.model.baseURLHint(),
		}
	case first == '{' || first == '[':
		err = c.readPlain(asm, r)
	default:
		err = c.readStream(asm, r)
	}
	var answer *chatstream.Answer
	if err == nil {
		answer, err = asm.Finish()
	}
	if err != nil {
		return nil, responseError(err, res)
	}
	watch.drain(r)
	return newChatResponse(answer)
}

func (c *openAICall) readPlain(asm assembler, r io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(r, maxPlainBody+1))
	if err != nil {
		return err
	}
	if len(body) > maxPlainBody {
		return chatstream.ErrTooLarge
	}
	return c.add(asm, body)
}

func (c *openAICall) readStream(asm assembler, r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxStreamBody}
	// A last event without the blank line that ends it counts as well.
	ended := io.MultiReader(limited, bytes.NewReader([]byte("\n\n")))
	dec := ssestream.NewDecoder(&http.Response{Body: io.NopCloser(ended)})
	for dec.Next() {
		for _, data := range payloads(dec.Event().Data) {
			if bytes.Equal(data, []byte("[DONE]")) {
				return nil
			}
			if err := c.add(asm, data); err != nil {
				return err
			}
			if c.inResponses() && asm.Finished() {
				return nil // nothing follows the end, whenever the connection is closed
			}
		}
	}
	switch err := dec.Err(); {
	case errors.Is(err, bufio.ErrTooLong) || limited.N == 0:
		return chatstream.ErrTooLarge
	case err != nil && !asm.Finished():
		return err
	}
	return nil // Finish judges it
}

func (c *openAICall) add(asm assembler, data []byte) error {
	d, err := asm.Add(data)
	if err == nil && c.emit != nil && d != (chatstream.Delta{}) {
		c.emitted = true
		c.emit(Delta{Text: d.Text, Reasoning: d.Reasoning})
	}
	return err
}

// takenID keeps ids from being given twice in a conversation: providers that
// look, refuse it.
func (c *openAICall) takenID(id string) bool {
	for _, msg := range c.req.Messages {
		for _, call := range msg.ToolCalls {
			if call.ID == id {
				return true
			}
		}
	}
	return false
}

// payloads splits the data of an event that holds several, as servers send
// them that end an event by a single newline.
func payloads(data []byte) [][]byte {
	data = bytes.TrimSpace(data)
	if !bytes.ContainsRune(data, '\n') || json.Valid(data) {
		if len(data) == 0 {
			return nil
		}
		return [][]byte{data}
	}
	var out [][]byte
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// firstByte returns the first byte that is not white space, without taking it.
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
	return 0, chatstream.ErrTooLarge
}

func newChatResponse(a *chatstream.Answer) (*ChatResponse, error) {
	msg := Message{Role: RoleAssistant, Content: a.Content, Extra: a.Extra}
	for _, raw := range a.Parts {
		var p Part
		if err := json.Unmarshal(raw, &p); err != nil {
			p = Part{raw: raw} // of a shape unknown here: kept as it is
		}
		msg.Parts = append(msg.Parts, p)
	}
	for _, call := range a.ToolCalls {
		dropEmpty(call.Extra)
		msg.ToolCalls = append(msg.ToolCalls, ToolCall(call))
	}
	if name, ok := msg.Extra["name"]; ok && json.Unmarshal(name, &msg.Name) == nil {
		delete(msg.Extra, "name")
	}
	delete(msg.Extra, "tool_call_id") // not of an assistant
	dropEmpty(msg.Extra)
	// The JSON is not kept with the message: whoever gets it may change it in
	// place, which only a copy's JSON would show.
	if _, err := msg.marshal(); err != nil {
		return nil, err
	}
	return &ChatResponse{
		Message:      msg,
		FinishReason: FinishReason(a.FinishReason),
		Usage: Usage{
			PromptTokens:     a.Usage.Prompt,
			CompletionTokens: a.Usage.Completion,
			CachedTokens:     a.Usage.Cached,
			ReasoningTokens:  a.Usage.Reasoning,
		},
		Model: a.Model,
		ID:    a.ID,
	}, nil
}

// stallWatch cancels a call that has stopped moving.
type stallWatch struct {
	ctx            context.Context
	cancel         context.CancelCauseFunc
	timer          *time.Timer // nil while neither limit is on
	first, between time.Duration
	started        bool // a byte has come
}

func newStallWatch(ctx context.Context, first, between time.Duration) *stallWatch {
	w := &stallWatch{first: first, between: between}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if first > 0 {
		w.arm(first, fmt.Sprintf("no answer came within %s", first))
	}
	return w
}

func (w *stallWatch) arm(limit time.Duration, message string) {
	w.timer = time.AfterFunc(limit, func() {
		w.cancel(&APIError{Message: message, Retryable: true})
	})
}

func (w *stallWatch) disarm() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

func (w *stallWatch) stop() {
	w.disarm()
	w.cancel(nil)
}

// stalled returns the error of a call that was cancelled by the watch.
func (w *stallWatch) stalled() error {
	var stall *APIError
	if errors.As(context.Cause(w.ctx), &stall) {
		return stall
	}
	return nil
}

// reader watches r while it is being read, so that the time a reader spends on
// what it got is no stall.
func (w *stallWatch) reader(r io.Reader) io.Reader { return &watchedReader{w, r} }

// drain reads what little may follow a complete answer, so that the connection
// can be used again, but does not wait for it.
func (w *stallWatch) drain(r io.Reader) {
	const moment, enough = 50 * time.Millisecond, 4 << 10
	w.between = moment
	_, _ = io.CopyN(io.Discard, r, enough) // the answer is complete whatever comes
}

type watchedReader struct {
	watch *stallWatch
	r     io.Reader
}

// Read passes on what comes while the watch allows for it.
func (r *watchedReader) Read(p []byte) (int, error) {
	w := r.watch
	if w.started && w.between > 0 {
		w.arm(w.between, fmt.Sprintf("nothing came for %s in the middle of the answer", w.between))
	}
	n, err := r.r.Read(p)
	if n > 0 {
		w.started = true
	}
	if w.started {
		w.disarm()
	}
	return n, err
}
