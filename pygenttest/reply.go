package pygenttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// Reply is one answer of a script for a [ScriptedModel] or a [Server]: a message
// of the model, an error, or what a broken server sends. Make it with [Text],
// [Call], [Status] and the like. Its methods return changed copies, so a reply
// may be kept and used many times. The zero Reply is an empty message.
type Reply struct {
	message pygent.Message // its calls have no ids, unless the test chose them
	finish  chat.FinishReason
	model   string // the one that answers; empty for none
	usage   *pygent.Usage
	cost    *float64
	quirks  []Quirk

	decide func(*pygent.ChatRequest) Reply
	answer func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error)
	err    error // what the call returns
	bad    error // a mistake in the script itself

	fault  *fault
	header http.Header
	first  pause // before the first byte
	chunk  pause // before each piece except the first
}

// Text is a message of plain text, without tool calls.
func Text(text string) Reply { return Reply{message: chat.AssistantMessage(text)} }

// Call is a message that calls one tool. The arguments are encoded as JSON,
// except a string, which is sent as it is, so that arguments can be invalid. Nil
// stands for no arguments, "{}". The call gets a unique id when the reply is
// given: "call_1", "call_2" and so on through the script.
func Call(tool string, args any) Reply {
	call := pygent.ToolCall{Name: tool, Arguments: "{}"}
	r := Reply{}
	switch args := args.(type) {
	case nil:
	case string:
		call.Arguments = args
	default:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // as models write
		if err := enc.Encode(args); err != nil {
			r.bad = fmt.Errorf("encode the arguments of %s: %w", tool, err)
		}
		call.Arguments = strings.TrimSuffix(b.String(), "\n")
	}
	r.message = chat.AssistantMessage("", call)
	return r
}

// Calls is one message with all the tool calls of the given replies, in order.
func Calls(calls ...Reply) Reply { return TextAndCalls("", calls...) }

// TextAndCalls is a message with text and the tool calls of the given replies.
func TextAndCalls(text string, calls ...Reply) Reply {
	r := Text(text)
	for _, c := range calls {
		r.message.ToolCalls = append(r.message.ToolCalls, c.message.ToolCalls...)
		r.bad = errors.Join(r.bad, c.bad)
	}
	return r
}

// Message is exactly the message m, with its call ids and extra fields. Calls
// without an id get one.
func Message(m pygent.Message) Reply { return Reply{message: m} }

// Func is a reply that f makes when its turn comes. A response without a finish
// reason gets the one that fits. A [Server] treats an error of f like that of
// [Error].
func Func(f func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error)) Reply {
	return Reply{answer: f}
}

// Decide is a reply that f chooses by the request. With RepeatLast it makes a
// server or a model out of one function:
//
//	pygenttest.NewServer(t, pygenttest.Decide(answer)).RepeatLast()
//
// Apply modifiers such as WithDelay to the reply that f returns. On the reply of
// Decide they do nothing.
func Decide(f func(*pygent.ChatRequest) Reply) Reply { return Reply{decide: f} }

// WithUsage reports u as the tokens used. Without it a [Server] reports a rough
// estimate and a [ScriptedModel] nothing. A zero u reports nothing.
func (r Reply) WithUsage(u pygent.Usage) Reply {
	r.usage = &u
	return r
}

// WithCost reports what the answer costs, as OpenRouter does, together with the
// usage.
func (r Reply) WithCost(amount float64) Reply {
	r.cost = &amount
	return r
}

// WithModel names the model that answers, as tests of prices or of a fallback
// need it. Without it a [Server] names the model that was asked for and a
// [ScriptedModel] none.
func (r Reply) WithModel(name string) Reply {
	r.model = name
	return r
}

// WithFinish sets why the message ends. The default is "tool_calls" for a
// message that calls tools and "stop" for others.
func (r Reply) WithFinish(reason chat.FinishReason) Reply {
	r.finish = reason
	return r
}

// WithReasoning adds the model's visible reasoning, streamed before the text
// and kept in the message's extra field "reasoning_content".
func (r Reply) WithReasoning(text string) Reply { return r.WithExtra(reasoningField, text) }

// WithExtra adds a field to the message that the chat format does not define. The
// value is encoded as JSON. A stream has a string in pieces and anything else
// whole.
func (r Reply) WithExtra(name string, value any) Reply {
	b, err := json.Marshal(value)
	if err != nil {
		r.bad = errors.Join(r.bad, fmt.Errorf("encode the field %s: %w", name, err))
		return r
	}
	extra := maps.Clone(r.message.Extra)
	if extra == nil {
		extra = make(map[string]json.RawMessage)
	}
	extra[name] = b
	r.message.Extra = extra
	return r
}

// WithCallIDs sets the ids of the message's tool calls in order. Calls for which
// ids has none, or an empty one, get an id from the script.
func (r Reply) WithCallIDs(ids ...string) Reply {
	r.message.ToolCalls = slices.Clone(r.message.ToolCalls)
	for i := range min(len(ids), len(r.message.ToolCalls)) {
		r.message.ToolCalls[i].ID = ids[i]
	}
	return r
}

// WithQuirks makes the reply wrong in the given ways.
func (r Reply) WithQuirks(quirks ...Quirk) Reply {
	r.quirks = slices.Concat(r.quirks, quirks)
	return r
}

// WithDelay waits for d before the first byte, or until the caller gives up.
func (r Reply) WithDelay(d time.Duration) Reply {
	r.first.delay = d
	return r
}

// WithGate holds the reply back, before its first byte, until a value can be
// received from gate or gate is closed. With a nil gate the server hangs until
// the caller gives up or the server is closed.
func (r Reply) WithGate(gate <-chan struct{}) Reply {
	r.first.gate, r.first.gated = gate, true
	return r
}

// WithChunkDelay waits for d before each piece of a stream except the first.
func (r Reply) WithChunkDelay(d time.Duration) Reply {
	r.chunk.delay = d
	return r
}

// WithChunkGate holds back each piece of a stream except the first until a value
// can be received from gate or gate is closed. A nil gate stalls the stream after
// its first piece. A [Server] sends the role that opens a stream together with
// the first piece, and counts the finish reason and the usage as pieces.
func (r Reply) WithChunkGate(gate <-chan struct{}) Reply {
	r.chunk.gate, r.chunk.gated = gate, true
	return r
}

// respond makes the response to one request. newID returns ids for calls.
func (r Reply) respond(ctx context.Context, req *pygent.ChatRequest, newID func() string) (*pygent.ChatResponse, error) {
	if r.err != nil {
		return nil, r.err
	}
	resp := &pygent.ChatResponse{Message: r.message, FinishReason: r.finish}
	if r.answer != nil {
		var err error
		if resp, err = r.answer(ctx, req); err != nil {
			return nil, err
		}
		if resp == nil {
			return nil, errors.New("pygenttest: the Func of a reply returned no response")
		}
	}
	out := *resp
	out.Model = cmp.Or(r.model, out.Model)
	if r.usage != nil {
		out.Usage = *r.usage
	}
	if r.cost != nil {
		out.Cost = r.cost
	}
	if out.Message.Role == "" {
		out.Message.Role = chat.RoleAssistant
	}
	out.Message.ToolCalls = slices.Clone(out.Message.ToolCalls)
	for i := range out.Message.ToolCalls {
		if call := &out.Message.ToolCalls[i]; call.ID == "" {
			call.ID = newID()
		}
	}
	for _, q := range r.quirks {
		q.spoil(&out)
	}
	if out.FinishReason == "" {
		out.FinishReason = chat.FinishStop
		if len(out.Message.ToolCalls) > 0 {
			out.FinishReason = chat.FinishToolCalls
		}
	}
	return &out, nil
}

// pause is a wait that ends early if the caller gives up.
type pause struct {
	delay time.Duration
	gate  <-chan struct{}
	gated bool
}

func (p pause) wait(ctx context.Context) error {
	if p.delay > 0 {
		timer := time.NewTimer(p.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.gated {
		select {
		case <-p.gate:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

const (
	reasoningField = "reasoning_content"
	// pieceRunes is how many characters a piece of a stream has.
	pieceRunes = 8
	// maxPieces is about how many pieces a text has at most, so that long texts
	// stay fast.
	maxPieces = 512
)

// pieces cuts s into pieces, between runes. An empty s has none.
func pieces(s string) []string {
	size := max(pieceRunes, len(s)/maxPieces)
	var out []string
	for s != "" {
		n := 0
		end := strings.IndexFunc(s, func(rune) bool { n++; return n > size })
		if end < 0 {
			end = len(s)
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}
