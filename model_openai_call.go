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
	"slices"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/x/pygent/internal/chatstream"
	"github.com/x/pygent/internal/sse"
)

// Limits of what is read from a server. A stream may be long on the wire,
// since little of each chunk is kept.
const (
	maxPiece      = 17 << 20 // an event, or a plain body: an answer of chatstream's limit, and what surrounds it
	maxStreamBody = 512 << 20
	maxErrorBody  = 256 << 10
	errorBodyTime = 5 * time.Second
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
		option.WithMiddleware(sendSeldom, refuseErrorStatus, decodeBody))
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
		err = emptyAnswer(res)
	case err != nil:
	case first == '<':
		err = &APIError{
			Status:  res.StatusCode,
			Message: "the answer is an HTML page" + c.model.baseURLHint(),
		}
	case first == '{' || first == '[':
		err = c.readPlain(watch, asm, r)
	default:
		err = c.readStream(watch, asm, r)
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

func (c *openAICall) readPlain(watch *stallWatch, asm assembler, r io.Reader) error {
	var body bytes.Buffer
	_, err := io.Copy(&body, io.LimitReader(pulse{r, watch.moved}, maxPiece+1))
	if err != nil {
		return err
	}
	if body.Len() > maxPiece {
		return fmt.Errorf("%w: more than %d MiB", chatstream.ErrTooLarge, maxPiece>>20)
	}
	return c.add(asm, body.Bytes())
}

func (c *openAICall) readStream(watch *stallWatch, asm assembler, r io.Reader) error {
	bounded := newBoundedStream(r)
	events := sse.NewReader(bounded, maxPiece)
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return fmt.Errorf("%w: an event of more than %d MiB", chatstream.ErrTooLarge, maxPiece>>20)
		case err == io.EOF || err != nil && asm.Finished():
			return nil // Finish judges it
		case err != nil:
			return err
		}
		before := asm.Progress()
		if done, err := c.addEvent(asm, event); done || err != nil {
			return err
		}
		if asm.Progress() > before {
			bounded.moved()
			watch.moved()
		}
	}
}

// addEvent takes the data of an event, which may be several pieces: some servers
// end an event by a single newline.
func (c *openAICall) addEvent(asm assembler, event []byte) (done bool, err error) {
	event = bytes.TrimSpace(event)
	pieces := bytes.Lines(event)
	if bytes.IndexByte(event, '\n') < 0 || json.Valid(event) {
		pieces = slices.Values([][]byte{event})
	}
	for data := range pieces {
		if data = bytes.TrimSpace(data); len(data) == 0 {
			continue
		}
		if bytes.Equal(data, []byte("[DONE]")) {
			return true, nil
		}
		if err := c.add(asm, data); err != nil {
			return true, err
		}
		if c.inResponses() && asm.Finished() {
			return true, nil // nothing follows the end, whenever the connection is closed
		}
	}
	return false, nil
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
	return 0, fmt.Errorf("%w: it begins with %d KiB of white space", chatstream.ErrTooLarge, maxErrorBody>>10)
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
