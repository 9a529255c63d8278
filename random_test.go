// These tests let agents work at random, also while they are disturbed and compacted, and
// require a legal conversation and proper events each time.

package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// TestRandomPrograms runs agents with random options, models and tools, to which
// other goroutines do whatever the API allows at random moments. Afterwards the
// history, the events and the state have to agree with each other.
// PYGENT_TEST_PROGRAMS is how many, and PYGENT_TEST_SEED the first.
func TestRandomPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("does many things at random")
	}
	t.Parallel()
	n, seed := 15, uint64(1)
	if s := os.Getenv("PYGENT_TEST_PROGRAMS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("PYGENT_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	for i := range n {
		seed := seed + uint64(i)
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { newProgram(t, seed, dir).run() })
		})
		if !ok {
			return
		}
	}
}

// program is one agent with everything that is done to it.
type program struct {
	t     *testing.T
	agent *pygent.Agent
	path  string
	store *pygenttest.MemoryStore

	mu       sync.Mutex
	rand     *rand.Rand
	problems []string
	events   []pygent.Event
	said     map[string]string // texts by id
	unsaid   map[string]bool
	failing  bool
	last     []pygent.Message
	subs     [][]pygent.Event
}

func (p *program) n(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n)
}

func (p *program) one(in int) bool { return p.n(in) == 0 }

func (p *program) wrong(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// nap waits for a random time, mostly none.
func (p *program) nap() {
	switch p.n(4) {
	case 0:
		runtime.Gosched()
	case 1:
		time.Sleep(time.Duration(p.n(50)) * time.Millisecond)
	}
}

// text returns a random text, some of which are hard to keep.
func (p *program) text() string {
	texts := []string{"hello", "", " ", "\x00", "a\xffb\xc3\x28", "ünï©ødé \u2028 \U0001F600", "line\nline", "[/end]</tool>", `{"a":1}`,
		strings.Repeat("long ", p.n(2000)), "\xed\xa0\x80", "\x1b[2J", "error: denied: no"}
	return texts[p.n(len(texts))]
}

var calledNames = []string{"look", "look2", "change", "media", "stop", "continue", "ask", "slow", "panics", "nosuch", "", "bad name!", "value", "stops", "approve", "bash", "read_file", "delegate_task", "nested"}

func (p *program) args() string {
	all := []string{`{}`, `{"text":"x"}`, `{"text":"` + strconv.Itoa(p.n(3)) + `"}`, `{"text":5}`, `{`, ``, `null`, `[]`, `{"text":"x","text":"y"}`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}",
		`{"question":"what?","prompt":"what?"}`, `{"summary":"done"}`, `{"cmd":"true"}`, `{"path":"a"}`, `{"prompt":"do it","persona":""}`}
	return all[p.n(len(all))]
}

// answer is what the model says.
func (p *program) answer(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	p.checkRequest(ctx, req)
	p.nap()
	if p.one(25) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	switch p.n(40) {
	case 0:
		return nil, errors.New("model is broken")
	case 1, 2, 3:
		emit(pygent.Delta{Text: "half"})
		return nil, &pygent.APIError{Status: 500, Message: "oops", Retryable: true}
	case 4:
		panic("model panics")
	case 5:
		return nil, nil
	}
	var m pygent.Message
	m.Content = p.text()
	for range []int{0, 1, 1, 1, 2, 3, 12}[p.n(7)] {
		id := []string{"", "same", "call_1", "c\xff", fmt.Sprint("id", p.n(1000)), fmt.Sprint("id", p.n(1000)), fmt.Sprint("id", p.n(1000))}[p.n(7)]
		name := calledNames[p.n(len(calledNames))]
		if p.one(2) {
			name = []string{"look", "look2"}[p.n(2)]
		}
		m.ToolCalls = append(m.ToolCalls, pygent.ToolCall{ID: id, Name: name, Arguments: p.args()})
	}
	if p.one(10) {
		m.Role = chat.RoleUser
	}
	for range p.n(4) {
		d := pygent.Delta{Text: p.text(), Reasoning: p.text()}
		if p.one(4) {
			d.Withdrawn = true
		}
		if p.one(3) {
			d.Call = &chat.CallDelta{Index: p.n(3), ID: "x", Tool: "look", Bytes: p.n(100)}
		}
		emit(d)
		p.nap()
	}
	u := pygent.Usage{PromptTokens: int64(p.n(100)), CompletionTokens: int64(p.n(100))}
	finish := []chat.FinishReason{chat.FinishStop, chat.FinishToolCalls, chat.FinishLength, chat.FinishFilter, "", "odd"}[p.n(6)]
	if p.one(2) {
		finish = chat.FinishStop
	}
	return &pygent.ChatResponse{Message: m, FinishReason: finish, Usage: u}, nil
}

func (p *program) checkRequest(ctx context.Context, req *pygent.ChatRequest) {
	if err := pygenttest.CheckConversation(req.Messages); err != nil {
		p.wrong("request is not legal: %v", err)
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role == chat.RoleAssistant {
		p.wrong("the last message is the assistant's")
	}
	for i, m := range req.Messages {
		if _, err := json.Marshal(m); err != nil {
			p.wrong("message %d has no JSON: %v", i, err)
		}
		if i > 0 && m.Role == chat.RoleSystem {
			p.wrong("system message at %d", i)
		}
	}
	info, ok := pygent.CallFrom(ctx)
	if !ok || info.Call.Name != "" {
		p.wrong("the model does not get whom it serves: %v", info)
	}
	if info.Task != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	was := withoutSystem(p.last)
	now := withoutSystem(req.Messages)
	p.last = slices.Clone(req.Messages)
	if len(now) < len(was) {
		p.problems = append(p.problems, fmt.Sprintf("the conversation shrank from %d to %d", len(was), len(now)))
		return
	}
	for i := range was {
		if !sameMessage(was[i], now[i]) {
			p.problems = append(p.problems, fmt.Sprintf("message %d changed from %v to %v", i, was[i], now[i]))
			return
		}
	}
}

func withoutSystem(ms []pygent.Message) []pygent.Message {
	if len(ms) > 0 && ms[0].Role == chat.RoleSystem {
		return ms[1:]
	}
	return ms
}

func sameMessage(a, b pygent.Message) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func (p *program) tools() []pygent.Tool {
	type in struct {
		Text string `json:"text,omitempty"`
	}
	do := func(ctx context.Context, in in) (*pygent.ToolResult, error) {
		info, ok := pygent.CallFrom(ctx)
		if !ok || info.Call.Name == "" {
			p.wrong("a tool is not told whom it serves")
		}
		for range p.n(3) {
			pygent.Progress(ctx, pygent.ProgressInfo{Text: p.text(), Current: 1, Total: 2})
		}
		p.nap()
		switch p.n(12) {
		case 0:
			return nil, errors.New(p.text())
		case 1:
			return nil, nil
		case 2:
			if p.agent != nil {
				p.disturb()
			}
		}
		return &pygent.ToolResult{Content: p.text(), Display: p.text()}, nil
	}
	tool := func(name string, f func(ctx context.Context, in in) (*pygent.ToolResult, error), set ...func(*pygent.Tool)) pygent.Tool {
		return pygent.NewTool(name, "d", func(ctx context.Context, _ pygent.Runtime, in in) (*pygent.ToolResult, error) { return f(ctx, in) }, set...)
	}
	readOnly := func(t *pygent.Tool) { t.ReadOnly = true }
	return []pygent.Tool{
		tool("look", do, readOnly),
		tool("look2", do, readOnly, func(t *pygent.Tool) {
			t.Describe = func(json.RawMessage) pygent.CallDescription {
				if p.one(5) {
					panic("describe")
				}
				return pygent.CallDescription{Title: p.text(), Paths: []string{p.text()}}
			}
		}),
		tool("change", do),
		tool("approve", do, func(t *pygent.Tool) { t.NeedsApproval = true }),
		tool("media", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "img", Images: []string{"data:image/png;base64,iVBORw0KGgo=", "https://example.com/x.png", "bad"}[:p.n(4)]}, nil
		}, readOnly),
		tool("ask", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			q := pygent.Question{Prompt: p.text()}
			if p.one(2) {
				q.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
			}
			if p.one(6) {
				q.Schema = json.RawMessage(`{"type":`)
			}
			a, err := pygent.Ask(ctx, q)
			return &pygent.ToolResult{Content: a.Text + string(a.Values)}, err
		}, readOnly),
		tool("slow", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			if p.one(2) {
				<-ctx.Done()
			} else {
				time.Sleep(time.Duration(p.n(4000)) * time.Millisecond)
			}
			return &pygent.ToolResult{Content: "slept"}, ctx.Err()
		}, readOnly),
		tool("panics", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			if p.one(2) {
				runtime.Goexit()
			}
			panic(p.text())
		}, readOnly),
		tool("value", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "v", Value: json.RawMessage(p.args()), Locations: []pygent.Location{{Path: p.text()}}}, nil
		}),
		tool("stops", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "v", End: []pygent.Status{pygent.StatusStopped, pygent.StatusAwaitingUser, "other"}[p.n(3)], Summary: p.text()}, nil
		}, readOnly),
		tool("nested", func(ctx context.Context, in in) (*pygent.ToolResult, error) {
			_, err := p.agent.RunUntilStop(ctx, "inner")
			if !errors.Is(err, pygent.ErrAgentBusy) && !errors.Is(err, pygent.ErrAgentClosed) {
				p.wrong("a nested run: %v", err)
			}
			return &pygent.ToolResult{Content: "v"}, nil
		}),
	}
}

// disturb does something to the agent.
func (p *program) disturb() {
	a := p.agent
	switch p.n(14) {
	case 0, 1, 2, 3:
		text := fmt.Sprintf("said %d %s", p.n(1<<30), p.text())
		id, err := a.Say(chat.UserMessage(text))
		if err == nil {
			p.mu.Lock()
			p.said[id] = string([]rune(text))
			p.mu.Unlock()
		}
	case 4:
		p.mu.Lock()
		var ids []string
		for id := range p.said {
			ids = append(ids, id)
		}
		p.mu.Unlock()
		slices.Sort(ids)
		if len(ids) > 0 {
			id := ids[p.n(len(ids))]
			if a.Unsay(id) {
				p.mu.Lock()
				if p.unsaid[id] {
					p.problems = append(p.problems, "unsaid twice")
				}
				p.unsaid[id] = true
				p.mu.Unlock()
			}
		}
	case 5:
		_ = a.SetModel(nil, fmt.Sprint("model", p.n(3)))
	case 6:
		a.SetPersona(pygent.Persona{Name: "P", Description: p.text()})
	case 7:
		a.SetApproval(p.approval())
	case 8:
		a.Tools().Disable(calledNames[p.n(len(calledNames))])
	case 9:
		_ = a.Tools().Enable(calledNames[p.n(len(calledNames))])
	case 10:
		s := a.State()
		if s.Since.IsZero() {
			p.wrong("no since")
		}
		if _, err := json.Marshal(s); err != nil {
			p.wrong("state: %v", err)
		}
	case 11:
		_ = a.History().SetInfo(chat.HistoryInfo{Title: p.text()})
	case 12:
		_ = a.History().Conversation()
		_ = a.Usage()
	case 13:
		if err := a.History().Append(chat.UserMessage("appended")); err == nil {
			p.mu.Lock()
			p.last = nil
			p.mu.Unlock()
		}
	}
}

func (p *program) approval() pygent.ApprovalFunc {
	if p.one(4) {
		return nil
	}
	return func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		p.nap()
		d := pygent.Decision{Allow: !p.one(3), Session: p.one(8), By: "x"}
		if p.one(6) {
			d.Arguments = json.RawMessage(p.args())
		}
		switch p.n(20) {
		case 0:
			<-ctx.Done()
			return d, ctx.Err()
		case 1:
			panic("approval")
		case 2:
			return d, errors.New("no")
		}
		return d, nil
	}
}

func newProgram(t *testing.T, seed uint64, dir string) *program {
	p := &program{t: t, rand: rand.New(rand.NewPCG(seed, 7)), said: map[string]string{}, unsaid: map[string]bool{}}
	opts := []pygent.Option{
		pygent.WithModel(pygent.StreamFunc(p.answer)), pygent.WithRuntime(emptyRuntime{}),
		pygent.WithTools(p.tools()...), pygent.OnEvent(p.handle), pygent.MaxSteps(1 + p.n(30)),
		pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 1 + p.n(3), BaseDelay: time.Millisecond}),
	}
	maybe := func(opt pygent.Option) {
		if p.one(2) {
			opts = append(opts, opt)
		}
	}
	maybe(pygent.WithApproval(p.approval()))
	maybe(pygent.WithApprovalFor("change", "look"))
	maybe(pygent.StepTimeout(time.Duration(1+p.n(3000)) * time.Millisecond))
	maybe(pygent.MaxTime(time.Duration(1+p.n(30000)) * time.Millisecond))
	maybe(pygent.MaxToolCalls(1 + p.n(20)))
	maybe(pygent.MaxTokens(int64(100 + p.n(3000))))
	maybe(pygent.MaxReplies(1 + p.n(4)))
	maybe(pygent.WithPrices(map[string]pygent.Price{"model1": {}}))
	maybe(pygent.WithToolMiddleware(p.middleware))
	maybe(pygent.WithToolSource("src", p.source))
	maybe(pygent.WithAsk(func(ctx context.Context, r pygent.AskRequest) (pygent.Answer, error) {
		p.nap()
		if p.one(5) {
			return pygent.Answer{}, errors.New("away")
		}
		return pygent.Answer{Text: p.text(), Values: json.RawMessage(p.args())}, nil
	}))
	switch p.n(3) {
	case 0:
		p.path = filepath.Join(dir, "h.json")
		opts = append(opts, pygent.WithHistoryFile(p.path))
	case 1:
		p.store = &pygenttest.MemoryStore{}
		if p.one(2) {
			p.failing = true
			fail := func(ctx context.Context, method string) error {
				switch p.n(60) {
				case 0:
					return errors.New("the disk is full")
				case 1:
					panic("store")
				}
				return nil
			}
			p.store.Before, p.store.After = fail, fail
		}
		var h *pygent.History
		for h == nil {
			h, _ = chat.LoadHistory(context.Background(), p.store)
		}
		opts = append(opts, pygent.WithHistory(h))
	}
	var err error
	p.agent, err = pygent.New(opts...)
	require.NoError(t, err)
	return p
}

// emptyRuntime has nothing and fails at everything.
type emptyRuntime struct{}

func (emptyRuntime) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{Output: "out"}, nil
}

func (emptyRuntime) ReadFile(context.Context, string) ([]byte, error) { return nil, os.ErrNotExist }

func (emptyRuntime) WriteFile(context.Context, string, []byte) error {
	return errors.New("no room")
}

func (emptyRuntime) UploadFile(context.Context, string, string) error { return errors.New("no") }

func (emptyRuntime) ExportFile(context.Context, string, string) error { return errors.New("no") }

func (emptyRuntime) Cleanup() error { return nil }

func (p *program) middleware(next pygent.ToolHandler) pygent.ToolHandler {
	return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
		switch p.n(30) {
		case 0:
			return nil, nil
		case 1:
			return nil, errors.New("swallowed")
		case 2:
			_, _ = next(ctx, rt, call)
		case 3:
			call.Arguments = `{"text":"other"}`
		case 4:
			call.ID = "other"
		case 5:
			return next(context.Background(), rt, call)
		case 6:
			return next(ctx, nil, call)
		case 7:
			panic("middleware")
		}
		return next(ctx, rt, call)
	}
}

func (p *program) source(ctx context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
	if p.one(10) {
		return nil, errors.New("no server")
	}
	give := func() error {
		return set(pygent.NewTool("late"+strconv.Itoa(p.n(2)), "d", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "late", nil }))
	}
	if err := give(); err != nil && ctx.Err() == nil {
		p.wrong("set: %v", err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(1+p.n(100)) * time.Millisecond):
				_ = give()
			}
		}
	})
	return closeFunc(func() error { close(done); wg.Wait(); return nil }), nil
}

func (p *program) handle(e pygent.Event) {
	data, err := json.Marshal(e)
	if err != nil {
		p.wrong("event %s has no JSON: %v", e.Type, err)
	} else {
		var back pygent.Event
		if err := json.Unmarshal(data, &back); err != nil {
			p.wrong("event %s does not decode: %v", e.Type, err)
		} else if again, _ := json.Marshal(back); string(again) != strings.ReplaceAll(string(data), `\ufffd`, "\uFFFD") {
			p.wrong("event %s changes in JSON:\n%s\n%s", e.Type, data, again)
		}
	}
	p.mu.Lock()
	p.events = append(p.events, e)
	p.mu.Unlock()
	if p.agent != nil && p.one(60) {
		p.disturb()
	}
}

func (p *program) run() {
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	var others sync.WaitGroup
	over := make(chan struct{})
	for range p.n(3) {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(p.n(200)) * time.Millisecond):
					p.disturb()
				}
			}
		})
	}
	for range p.n(3) {
		after := int64(0)
		if p.one(2) {
			after = p.agent.State().Seq
		}
		others.Go(func() { p.subscribe(after) })
	}
	for range 1 + p.n(4) {
		p.oneRun(ctx)
		if !p.failing {
			p.checkIdle()
		}
	}
	if p.one(3) {
		others.Go(func() { _ = p.agent.Close() })
		p.oneRun(ctx)
	}
	close(over)
	err := p.agent.Close()
	if err != nil && !p.failing {
		p.wrong("close: %v", err)
	}
	others.Wait()
	p.check()
	if len(p.problems) > 0 {
		p.t.Fatalf("%d problems:\n%s", len(p.problems), strings.Join(p.problems[:min(5, len(p.problems))], "\n"))
	}
}

func (p *program) subscribe(after int64) {
	var got []pygent.Event
	last := after
	for e, err := range p.agent.Subscribe(context.Background(), after) {
		if err != nil {
			if !errors.Is(err, pygent.ErrEventsGone) {
				p.wrong("subscribe: %v", err)
			}
			return
		}
		if e.Seq <= last {
			p.wrong("subscribe: %d after %d", e.Seq, last)
		}
		last = e.Seq
		got = append(got, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs = append(p.subs, got)
}

func (p *program) oneRun(ctx context.Context) {
	limit := 20000
	if p.one(4) {
		limit = 1000
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.n(limit))*time.Millisecond)
	defer cancel()
	text := fmt.Sprintf("prompt %d %s", p.n(1<<30), p.text())
	var result *pygent.Result
	var err error
	switch p.n(6) {
	case 0:
		result, err = p.agent.Step(ctx, text)
	case 1:
		for e, iterErr := range p.agent.Events(ctx, text) {
			err = iterErr
			if e.Result != nil {
				result = e.Result
			}
			if p.one(100) {
				return
			}
		}
		if result == nil && err == nil {
			p.wrong("events: no end")
		}
	case 2:
		result, err = p.agent.Resume(ctx)
	default:
		result, err = p.agent.RunUntilStop(ctx, text)
	}
	if result != nil && result.Status == "" {
		p.wrong("no status")
	}
	if result == nil && err == nil {
		p.wrong("neither")
	}
}

func (p *program) checkIdle() {
	s := p.agent.State()
	if s.Activity != pygent.ActivityIdle {
		p.wrong("idle state is %v", s)
	}
}

func (p *program) check() {
	var own []pygent.Event
	last := int64(0)
	for _, e := range p.events {
		if e.Seq <= last {
			p.wrong("event %d after %d", e.Seq, last)
		}
		last = e.Seq
		if e.Task == "" {
			own = append(own, e)
		}
	}
	p.checkCalls(own)
	p.checkSubscribers()
	p.checkSaid(own)
	entries := p.agent.History().Entries()
	if err := pygenttest.CheckConversation(p.agent.History().Conversation()); len(entries) > 0 && len(p.agent.History().Conversation()) > 0 && err != nil {
		p.wrong("conversation: %v", err)
	}
	for i := 1; i < len(entries); i++ {
		if entries[i].Seq != entries[i-1].Seq+1 && i > 1 {
			p.wrong("entry %d has number %d after %d", i, entries[i].Seq, entries[i-1].Seq)
		}
	}
	switch {
	case p.path != "":
		h, err := chat.ReadHistory(p.path)
		if err != nil {
			p.wrong("read: %v", err)
			break
		}
		p.same(entries, h.Entries())
	case p.store != nil && !p.failing:
		p.same(entries, p.store.Entries())
	}
	var used pygent.Usage
	for _, e := range own {
		if e.Result != nil {
			used = used.Add(e.Result.Usage)
		}
	}
	if got := p.agent.Usage().Own; got != used {
		p.wrong("the runs used %v, and the agent %v", used, got)
	}
}

func (p *program) same(want, got []chat.HistoryEntry) {
	if len(want) != len(got) {
		p.wrong("the store has %d entries, the history %d", len(got), len(want))
		return
	}
	for i := range want {
		a, _ := json.Marshal(want[i])
		b, _ := json.Marshal(got[i])
		if strings.ReplaceAll(string(a), `\ufffd`, "\uFFFD") != string(b) {
			p.wrong("entry %d is stored differently:\n%.300s\n%.300s", i, a, b)
			return
		}
	}
}

func (p *program) checkSubscribers() {
	for _, got := range p.subs {
		want := map[int64]pygent.Event{}
		first := int64(0)
		if len(got) > 0 {
			first = got[0].Seq
		}
		for _, e := range p.events {
			if !delta(e) && e.Seq >= first {
				want[e.Seq] = e
			}
		}
		for _, e := range got {
			if delta(e) {
				continue
			}
			if w, ok := want[e.Seq]; !ok || w.Type != e.Type {
				p.wrong("a subscriber has event %d %s and the handler not", e.Seq, e.Type)
			}
			delete(want, e.Seq)
		}
		for seq, e := range want {
			p.wrong("a subscriber lacks event %d %s", seq, e.Type)
		}
	}
}

func delta(e pygent.Event) bool {
	switch e.Type {
	case pygent.EventText, pygent.EventReasoning, pygent.EventCallDelta, pygent.EventProgress, pygent.EventOutput:
		return true
	}
	return false
}

func (p *program) checkCalls(events []pygent.Event) {
	open := map[string]string{}  // announced and not done
	waiting := map[string]bool{} // of the last message, without a result
	n := -1
	for _, e := range events {
		id := ""
		if e.Call != nil {
			id = e.Call.ID
		}
		if e.Messages > 0 && e.Type != pygent.EventModelStart {
			if e.Messages <= n {
				p.wrong("event %d %s: messages %d after %d", e.Seq, e.Type, e.Messages, n)
			}
			n = e.Messages
		}
		switch e.Type {
		case pygent.EventMessage:
			if len(waiting) > 0 && !p.failing {
				p.wrong("calls without a result at the next message: %v", waiting)
			}
			clear(waiting)
			for _, c := range e.Message.ToolCalls {
				if waiting[c.ID] {
					p.wrong("two calls with the id %q", c.ID)
				}
				waiting[c.ID] = true
			}
		case pygent.EventToolCall:
			if _, ok := open[id]; ok {
				p.wrong("call %q announced twice", id)
			}
			if e.Tool == nil {
				p.wrong("tool_call without tool")
			}
			open[id] = "call"
		case pygent.EventApproval, pygent.EventDecision, pygent.EventToolStart, pygent.EventProgress, pygent.EventOutput, pygent.EventQuestion, pygent.EventAnswer:
			if open[id] == "" {
				p.wrong("%s of the call %q, which is not announced or over", e.Type, id)
			}
		case pygent.EventToolDone:
			if open[id] == "" {
				p.wrong("tool_done of the call %q, which is not announced", id)
			}
			delete(open, id)
			if !waiting[id] && !p.failing {
				p.wrong("a second result of %q", id)
			}
			delete(waiting, id)
			p.checkOutput(e)
		case pygent.EventToolSkipped:
			if open[id] != "" {
				p.wrong("tool_skipped of the call %q, which was announced", id)
			}
			if !waiting[id] && !p.failing {
				p.wrong("a second result of %q", id)
			}
			delete(waiting, id)
			p.checkOutput(e)
		case pygent.EventRunEnd:
			if len(open) > 0 && !p.failing {
				p.wrong("open calls at the end of the run: %v", open)
			}
			clear(open)
			if p.failing {
				clear(waiting)
			}
			if len(waiting) > 0 {
				p.wrong("unanswered calls at the end of the run: %v", waiting)
			}
		}
	}
}

func (p *program) checkOutput(e pygent.Event) {
	if e.Output == nil || e.Output.Outcome == "" {
		p.wrong("%s without outcome", e.Type)
	}
}

func (p *program) checkSaid(events []pygent.Event) {
	heard := map[string]int{}
	for _, e := range events {
		if e.Type == pygent.EventUser && e.ID != "" {
			heard[e.ID]++
		}
	}
	waits := map[string]int{}
	for _, s := range p.agent.State().Unheard {
		waits[s.ID]++
	}
	texts := map[string]int{}
	for _, m := range p.agent.History().Messages() {
		if m.Role == chat.RoleUser {
			texts[string([]rune(m.Text()))]++
		}
	}
	for id, text := range p.said {
		in := heard[id] + waits[id]
		if p.unsaid[id] {
			in++
		}
		if in != 1 {
			p.wrong("%s was heard %d times, waits %d times, unsaid %v", id, heard[id], waits[id], p.unsaid[id])
		}
		if texts[text] != heard[id] {
			p.wrong("%s: heard %d, and in the history %d (%q)", id, heard[id], texts[text], text)
		}
	}
}

// onePixel is an image.
const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

// A squeezed is a random conversation in a small window of a strict server.
type squeezed struct {
	t        *testing.T
	rand     *rand.Rand
	mu       sync.Mutex // guards what follows
	agent    *pygent.Agent
	cancel   context.CancelFunc
	said     string // what the user said last
	n        int
	marks    int      // compactions so far
	before   []string // the messages of the request before
	seen     int      // compactions at the request before
	problems []string
}

func (s *squeezed) wrong(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// answer checks a request, and answers somehow.
func (s *squeezed) answer(req *pygent.ChatRequest) pygenttest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.IntN(40) == 0 && s.cancel != nil {
		s.cancel()
	}
	if err := pygenttest.CheckConversation(req.Messages); err != nil {
		s.wrong("the request is not legal: %v", err)
	}
	if len(req.Messages) == 2 && strings.HasPrefix(req.Messages[1].Text(), "<record>") {
		return s.summary()
	}
	s.check(req)
	s.n++
	switch s.rand.IntN(12) {
	case 0:
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	case 1:
		return pygenttest.Text("") // empty
	case 2:
		return pygenttest.Text(strings.Repeat("I say ", s.rand.IntN(400)))
	case 3:
		_, _ = s.agent.Say(chat.UserMessage(fmt.Sprintf("and %d", s.n)))
		s.said = fmt.Sprintf("and %d", s.n)
	}
	var calls []pygenttest.Reply
	for i := range 1 + s.rand.IntN(3) {
		calls = append(calls, pygenttest.Call("spill", map[string]any{"n": s.n*10 + i, "pad": strings.Repeat("é", s.rand.IntN(900))}))
	}
	reply := pygenttest.TextAndCalls(strings.Repeat("so ", s.rand.IntN(50)), calls...)
	if s.rand.IntN(2) == 0 {
		reply = reply.WithReasoning("I think")
	}
	return reply
}

func (s *squeezed) summary() pygenttest.Reply {
	switch s.rand.IntN(6) {
	case 0:
		return pygenttest.Text("")
	case 1:
		return pygenttest.Status(400, "bad", "no")
	case 2:
		return pygenttest.Text(strings.Repeat("a giant summary <tool_call>{\"name\":\"spill\",\"arguments\":{\"n\":666}}</tool_call> ", 5_000))
	case 3:
		return pygenttest.Call("spill", map[string]any{"n": 666})
	}
	return pygenttest.Text("The work so far is summed up here.")
}

// check checks what has to be in each request.
func (s *squeezed) check(req *pygent.ChatRequest) {
	if req.Messages[0].Role != chat.RoleSystem {
		s.wrong("no system message")
	}
	now := make([]string, len(req.Messages))
	for i, m := range req.Messages {
		now[i] = jsonOf(s.t, m)
	}
	if s.marks == s.seen && len(s.before) > 0 {
		if len(now) < len(s.before) {
			s.wrong("the conversation shrank without a compaction")
		} else if !slices.Equal(now[:len(s.before)], s.before) {
			s.wrong("the prefix changed without a compaction")
		}
	}
	found := false
	for _, m := range req.Messages {
		found = found || m.Role == chat.RoleUser && strings.Contains(m.Text(), "task ")
	}
	if !found {
		s.wrong("nothing of the user in %s", now)
	}
	s.before, s.seen = now, s.marks
}

func (s *squeezed) tool(_ context.Context, _ pygent.Runtime, in struct {
	N   int    `json:"n"`
	Pad string `json:"pad,omitempty"`
}) (*pygent.ToolResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.N == 666 {
		s.wrong("a call was run out of a summary")
	}
	if s.rand.IntN(30) == 0 && s.cancel != nil {
		s.cancel()
	}
	switch s.rand.IntN(8) {
	case 0:
		return nil, errors.New(strings.Repeat("it failed ", s.rand.IntN(300)))
	case 1:
		return &pygent.ToolResult{Content: "see", Images: []string{onePixel}}, nil
	case 2:
		return &pygent.ToolResult{Content: ""}, nil
	}
	return &pygent.ToolResult{Content: strings.Repeat(fmt.Sprintf("line \"%d\"\t\x01\n", in.N), s.rand.IntN(1000))}, nil
}

// The other seeds are played without the race detector, which takes five times as long.
func TestConversationsStayLegalWhateverIsCompacted(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for _, seed := range []uint64{4, 6} { // one of each protocol
		t.Run(fmt.Sprint(seed), func(t *testing.T) { squeeze(t, seed) })
	}
}

// squeeze has a random conversation.
func squeeze(t *testing.T, seed uint64) {
	providers := []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama}
	random := rand.New(rand.NewPCG(seed, 7))
	s := &squeezed{t: t, rand: random}
	provider, api := providers[random.IntN(4)], openai.Chat
	if (provider == "" || provider == pygenttest.Ollama) && random.IntN(2) == 0 {
		api = openai.Responses
	}
	window := []int{5_000, 8_000, 16_000, 32_000}[random.IntN(4)]
	server := pygenttest.NewServer(t, pygenttest.Decide(s.answer)).RepeatLast().Strict(provider)
	if random.IntN(2) == 0 {
		server.Window(window)
	}
	opts := []pygent.Option{pygent.WithModelName("m"), pygent.WithTools(pygent.NewTool("spill", "Print a lot", s.tool)),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventCompacted {
				s.mu.Lock()
				s.marks++
				s.mu.Unlock()
			}
		})}
	if random.IntN(4) > 0 {
		opts = append(opts, pygent.WithContextWindow(int64(window)))
	}
	store := &pygenttest.MemoryStore{}
	history, err := chat.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	s.agent = newAgentOn(t, nowhere{}, testkit.NewModel(t, openai.BaseURL(server.URL()), openai.API(api)), append(opts, pygent.WithHistory(history))...)
	for i := range 8 {
		s.oneRun(i)
	}
	for _, r := range server.Requests() {
		if r.Err != nil && !strings.Contains(r.Err.Error(), "maximum context") && !strings.Contains(r.Err.Error(), "exceeds the context window") && provider != pygenttest.Gemini && provider != pygenttest.Mistral {
			t.Errorf("refused: %v", r.Err)
		}
	}
	require.Empty(t, s.problems)
	again, err := chat.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, jsonOf(t, history.Conversation()), jsonOf(t, again.Conversation()))
	t.Logf("%s %s %d: %d requests, %d compactions", provider, api, window, len(server.Requests()), s.marks)
}

func (s *squeezed) oneRun(i int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.mu.Lock()
	s.cancel, s.said = cancel, fmt.Sprintf("task %d", i)
	s.before = nil // an interrupted run may have added results
	say, compacts, resumes := s.said, s.rand.IntN(3) == 0, s.rand.IntN(4) == 0
	s.mu.Unlock()
	if compacts {
		if _, err := s.agent.Compact(ctx); err != nil && !errors.Is(err, pygent.ErrNothingToCompact) {
			s.t.Log("compact:", err)
		}
	}
	var result *pygent.Result
	var err error
	if resumes && s.agent.History().Len() > 0 {
		result, err = s.agent.Resume(ctx, pygent.MaxSteps(25))
	} else {
		result, err = s.agent.RunUntilStop(ctx, say, pygent.MaxSteps(25))
	}
	s.t.Logf("run %d: %v %s %v", i, result.Status, result.Reason, err)
	if err := pygenttest.CheckConversation(s.agent.History().Conversation()); s.agent.History().Len() > 0 && err != nil {
		s.t.Error(err)
	}
}
