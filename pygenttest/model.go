package pygenttest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/openai/chatstream"
)

// ScriptedModel is a [pygent.StreamingModel] that gives the replies of a script,
// one for each request, and records the requests. It uses no network. It is safe
// for concurrent use. Agents that share one get the replies in the order of
// their requests, unless [ScriptedModel.On] gives them scripts of their own.
type ScriptedModel struct {
	script   script
	requests recorder[pygent.ChatRequest]
}

var _ pygent.StreamingModel = (*ScriptedModel)(nil)

// NewScriptedModel returns a model that gives the replies in order, and then
// fails with [ErrScriptEnded].
func NewScriptedModel(replies ...Reply) *ScriptedModel {
	m := &ScriptedModel{}
	m.script.add(replies)
	return m
}

// Add appends replies to the script.
func (m *ScriptedModel) Add(replies ...Reply) *ScriptedModel {
	m.script.add(replies)
	return m
}

// On gives conversations whose system message or first user message contains
// text a script of their own, so that one model can serve an agent and those
// that it delegates to. Each such conversation, identified by its first user
// message, gets the replies from the first on. If several texts match, the one
// given first counts. A conversation that matches none uses the model's own
// script.
func (m *ScriptedModel) On(text string, replies ...Reply) *ScriptedModel {
	m.script.route(text, replies)
	return m
}

// Loop makes every script of the model start again after its last reply.
func (m *ScriptedModel) Loop() *ScriptedModel {
	m.script.setLoop()
	return m
}

// RepeatLast makes the model repeat the last reply of a script that has ended.
func (m *ScriptedModel) RepeatLast() *ScriptedModel {
	m.script.setRepeat()
	return m
}

// Remaining returns how many replies were not given yet, without those of
// [ScriptedModel.On].
func (m *ScriptedModel) Remaining() int { return m.script.remaining() }

// Requests returns the requests received so far, in order. They share their
// messages with the agent: do not modify them.
func (m *ScriptedModel) Requests() []pygent.ChatRequest { return m.requests.all() }

// WaitRequests waits until n requests were received in all, or returns an error
// when ctx ends. A request is received before its reply is given or delayed.
func (m *ScriptedModel) WaitRequests(ctx context.Context, n int) error {
	return m.requests.wait(ctx, n)
}

// Chat gives the next reply.
func (m *ScriptedModel) Chat(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	return m.chat(ctx, req, nil)
}

// ChatStream gives the next reply, its reasoning and text in small pieces, and tells
// of its calls.
func (m *ScriptedModel) ChatStream(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	return m.chat(ctx, req, emit)
}

func (m *ScriptedModel) chat(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	if req == nil {
		return nil, errors.New("the request is nil")
	}
	m.requests.add(*req)
	r, err := m.script.take(req)
	if err != nil {
		return nil, err
	}
	if err := r.first.wait(ctx); err != nil {
		return nil, err
	}
	if r.fault != nil && r.fault.raw {
		return nil, errors.New("pygenttest: a reply of raw bytes needs a Server")
	}
	resp, err := r.respond(ctx, req, m.script.callID)
	if err != nil {
		return nil, err
	}
	if emit != nil {
		if err := r.emit(ctx, resp.Message, emit); err != nil {
			return nil, err
		}
	}
	if r.fault != nil && r.fault.breaks {
		return nil, r.fault.breakError()
	}
	return resp, nil
}

// emit streams the message, as far as the reply's fault lets it.
func (r Reply) emit(ctx context.Context, m pygent.Message, emit func(pygent.Delta)) error {
	ds := deltas(m)
	if r.fault != nil && r.fault.breaks {
		ds = ds[:min(max(0, r.fault.after), len(ds))]
	}
	for i, d := range ds {
		if i > 0 {
			if err := r.chunk.wait(ctx); err != nil {
				return err
			}
		}
		emit(d)
	}
	return nil
}

func deltas(m pygent.Message) []pygent.Delta {
	var out []pygent.Delta
	var reasoning string
	if raw, ok := m.Extra[reasoningField]; ok && json.Unmarshal(raw, &reasoning) == nil {
		for _, s := range pieces(reasoning) {
			out = append(out, pygent.Delta{Reasoning: s})
		}
	}
	for _, s := range pieces(m.Text()) {
		out = append(out, pygent.Delta{Text: s})
	}
	for i, c := range m.ToolCalls {
		out = append(out, callDeltas(i, c)...)
	}
	return out
}

// callDeltas tells of a call when it begins and when it is complete, as servers
// do.
func callDeltas(index int, c pygent.ToolCall) []pygent.Delta {
	var progress chatstream.CallProgress
	begun := chat.CallDelta(progress.Delta(index, c.ID, c.Name))
	progress.Add(c.Arguments)
	written := chat.CallDelta(progress.Delta(index, c.ID, c.Name))
	return []pygent.Delta{{Call: &begun}, {Call: &written}}
}
