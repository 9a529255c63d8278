package pygent

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/window"
)

// ContextUse says how full the model's context window is.
type ContextUse struct {
	// Used is how many tokens the conversation has, with the last answer: as the
	// provider reported, without the model's reasoning.
	Used      int64 `json:"used"`
	Estimated bool  `json:"estimated,omitempty"` // the provider reported nothing of this, so Used comes from the size of the conversation
	Window    int64 `json:"window,omitempty"`    // see [WithContextWindow]; 0 if it is not known
}

// WithContextWindow says how many tokens the model's context window holds, answer
// included. Default: what the server tells where it does, as vLLM, llama.cpp, LM
// Studio, Ollama and OpenRouter do; what is known of the model by its name; what
// the error of a request says that was too long. If nothing tells it, it is 0: the
// conversation is compacted only after such an error.
//
// Besides [OpenAIModel], any model can tell by a method
// ContextWindow(ctx context.Context, name string) int64. It is called beside the
// run, at most once for a name, and has five seconds.
func WithContextWindow(tokens int64) Option {
	return option(func(o *options) { o.window, o.parentsWindow = tokens, false })
}

// nameModel says what the model is called.
func (o *options) nameModel(name string) {
	if name = pasted.Trim(name); name != o.modelName {
		o.dropParentsWindow()
	}
	o.modelName = name
}

// dropParentsWindow forgets the window that was given for the parent's model, since
// the task has another.
func (o *options) dropParentsWindow() {
	if o.parentsWindow {
		o.window, o.parentsWindow = 0, false
	}
}

func checkWindow(tokens int64) error {
	if tokens < 0 {
		return fmt.Errorf("option WithContextWindow: want a number of tokens, or 0 for the default, and not %d", tokens)
	}
	return nil
}

// windowTeller is a model that may know its window. 0 means that it does not.
type windowTeller interface {
	ContextWindow(ctx context.Context, name string) int64
}

// ContextWindow asks the server how many tokens the context window of a model
// holds; an empty name means the default model. It returns 0 if the server does
// not tell, as OpenAI's own.
func (m *OpenAIModel) ContextWindow(ctx context.Context, name string) int64 {
	return m.client.Window(ctx, name)
}

// memory is what an agent knows about the window of its model, and about the
// tokens of its conversation. The run that goes on is the only one to use it.
type memory struct {
	model   string // that the rest is about, as it is asked for
	gauge   compact.Gauge
	named   int64 // the window that an error named; 0 for none
	tooLong int   // the weight of the lightest request that was refused as too long, if its error named no window; 0 for none
	asked   bool  // the model was asked for its window
	told    *atomic.Int64
	warned  bool // that the server may cut off the beginning
	small   bool // it was warned that the window is small
}

// memoryOf returns what is known about the model that is asked now.
func (a *Agent) memoryOf(model agentModel) *memory {
	m := &a.memory
	if name := model.asked(); m.told == nil || m.model != name {
		*m = memory{model: name, told: new(atomic.Int64), warned: m.warned}
	}
	return m
}

// mostWindow is the largest window that is believed, so that no sum overflows.
const mostWindow = 1e12

// window returns how many tokens the model's window holds; 0 if it is not known.
func (a *Agent) window(answered string) int64 {
	model := a.currentModel()
	m := a.memoryOf(model)
	known := min(cmp.Or(a.opts.window, m.told.Load(), window.Of(m.model), window.Of(answered)), mostWindow)
	if learned := m.learned(); learned > 0 && (known == 0 || learned < known) {
		return learned
	}
	return known
}

// given is a window if somebody told it, and 0 if it only comes from the size of a request
// that was refused.
func (m *memory) given(window int64) int64 {
	if window == m.learned() && window != m.named {
		return 0
	}
	return window
}

// learned is the window by what was refused as too long; 0 if nothing was. A
// request that was refused counts by its weight, since its tokens are another
// number as soon as the server reports some.
func (m *memory) learned() int64 {
	tokens := m.gauge.Tokens(m.tooLong) / 20 * 19
	if m.named > 0 && (tokens == 0 || m.named < tokens) {
		return m.named
	}
	return tokens
}

// learn takes what the error of a request of a weight says that was too long.
func (m *memory) learn(message string, weight int) {
	named := window.InError(message)
	if named == 0 {
		m.tooLong = min(cmp.Or(m.tooLong, weight), weight)
		return
	}
	m.named, m.tooLong = named, 0
	if m.gauge.Tokens(weight) < named { // so many there were at least
		m.gauge.Report(weight, named)
	}
}

// unlearn forgets what an answer to a request of a weight disproves.
func (m *memory) unlearn(weight int, tokens int64) {
	if weight >= m.tooLong {
		m.tooLong = 0
	}
	if tokens > m.named {
		m.named = 0
	}
}

// room returns how many tokens a request may have, so that there is room for the
// answer; 0 if that is not known.
func (a *Agent) room(answered string) int64 {
	all := a.window(answered)
	if all == 0 {
		return 0
	}
	model := a.currentModel()
	most := all
	if a.opts.window == 0 && a.memory.learned() == 0 && a.memory.told.Load() == 0 {
		most = cmp.Or(min(all, window.Input(model.asked())), all)
	}
	if limited, ok := model.given.(*OpenAIModel); ok {
		// Servers refuse a request whose answer could be longer than the rest.
		return max(min(most, all-int64(limited.client.MaxTokens())), all/4)
	}
	return most
}

// Bounds of asking a model for its window.
const (
	windowWorthAsking = 4_000 // tokens of a conversation from which on the window matters
	windowWithin      = 5 * time.Second
)

// askWindow asks the model for its window, beside the run: nobody waits for the
// answer.
func (r *run) askWindow(tokens int64) {
	a := r.agent
	model := a.currentModel()
	m := a.memoryOf(model)
	teller, ok := model.given.(windowTeller)
	if !ok || m.asked || a.opts.window > 0 || tokens < windowWorthAsking {
		return
	}
	m.asked = true
	told := m.told
	r.asksWindow.Start(r.ctx, time.Millisecond, func(ctx context.Context) (again bool) {
		ctx, cancel := context.WithTimeout(ctx, windowWithin)
		defer cancel()
		tokens, err := guard.Outlive(ctx, func() (int64, error) {
			defer a.enter(&a.calling, "the model's ContextWindow")()
			return teller.ContextWindow(ctx, model.name), nil
		})
		a.logPanic("the model's ContextWindow", err)
		if err == nil && tokens > 0 {
			told.Store(tokens)
			a.log.Debug("context window", "agent", a.id, "model", model.asked(), "tokens", tokens)
		}
		return false
	})
}

// contextUse returns how full the window is after an answer.
func (r *run) contextUse(resp *ChatResponse) ContextUse {
	a := r.agent
	use := ContextUse{Used: resp.Usage.Total() - resp.Usage.ReasoningTokens, Window: a.window(resp.Model)}
	if resp.Usage.PromptTokens == 0 {
		use.Used, use.Estimated = a.memoryOf(a.currentModel()).gauge.Tokens(a.requestWeight(r.specs)), true
	}
	return use
}

// counted takes what the server says about the tokens of a request of a weight.
func (r *run) counted(weight int, u Usage) {
	m := r.agent.memoryOf(r.agent.currentModel())
	m.unlearn(weight, u.PromptTokens)
	expected := m.gauge.Tokens(weight)
	if m.gauge.Report(weight, u.PromptTokens) && !m.warned {
		m.warned = true
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: fmt.Sprintf(
			"the server counted %d tokens in a request of about %d: it may cut off the beginning of the conversation without saying so (Ollama does: raise OLLAMA_CONTEXT_LENGTH, or num_ctx of the model, and tell the window by WithContextWindow or context_window)",
			u.PromptTokens, expected)})
	}
}

// requestWeight is what a request weighs, for counting tokens.
func (a *Agent) requestWeight(specs []ToolSpec) int { return a.history.weight() + toolsWeight(specs) }

func toolsWeight(specs []ToolSpec) int {
	weight := 0
	for i := range specs {
		weight += len(specs[i].Name) + len(specs[i].Description) + len(specs[i].Parameters)
	}
	return weight
}

// weight returns the weight of what a model is sent, for counting tokens.
func (h *History) weight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.legal.weight
}

// bytes returns the size of what a model is sent, in bytes of JSON.
func (h *History) bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.legal.size
}
