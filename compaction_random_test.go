package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

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
