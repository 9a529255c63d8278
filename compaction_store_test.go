package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// forgetful is a store that fails to keep the mark of a compaction, once.
type forgetful struct {
	pygenttest.MemoryStore
	failed bool
}

func (f *forgetful) Append(ctx context.Context, entries ...pygent.HistoryEntry) error {
	for _, e := range entries {
		if e.Compaction != nil && !f.failed {
			f.failed = true
			return errors.New("the disk is full")
		}
	}
	return f.MemoryStore.Append(ctx, entries...)
}

// A mark that the store has not is not lost: the next run goes on with the same
// conversation, and so does whoever loads it then.
func TestACompactionThatTheStoreFailsToKeep(t *testing.T) {
	t.Parallel()
	store := &forgetful{}
	history, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	server := worker(t, 12, pygenttest.Text("The work so far is summed up here.")).Window(24_000)
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithHistory(history),
		pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000))
	result, err := agent.RunUntilStop(t.Context(), "do the work")
	require.ErrorContains(t, err, "the disk is full")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.NoError(t, pygenttest.CheckConversation(history.Conversation()))
	result, err = agent.RunUntilStop(t.Context(), "go on")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	again, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, jsonOf(t, history.Conversation()), jsonOf(t, again.Conversation()))
	require.Equal(t, jsonOf(t, history.Messages()), jsonOf(t, again.Messages()))
}

// A run that ends while the model writes the summary leaves no part of a
// compaction, and the next one makes it.
func TestACompactionThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	summaries := 0
	server := worker(t, 60).Window(8_000).On("<record>", pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		if summaries++; summaries == 1 {
			cancel()
		}
		return pygenttest.Text("The work so far is summed up here.")
	})).RepeatLast()
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(2_000)),
		pygent.WithContextWindow(8_000), collect)
	result, err := agent.RunUntilStop(ctx, "do the work", pygent.MaxSteps(70))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, pygent.StatusCancelled, result.Status)
	marks := 0
	for _, e := range agent.History().Entries() {
		if e.Compaction != nil {
			marks++
			require.Empty(t, e.Compaction.Summary)
		}
	}
	require.Len(t, *all, marks)
	result, err = agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(70))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "summed up")
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "go on")
}

// A request that was refused without a number tells its window by its size, which
// is another number of tokens as soon as the server reports some.
func TestAWindowThatARefusalTellsIsCountedAsTheServerCounts(t *testing.T) {
	t.Parallel()
	refused, n := 0, 0
	var windows []int64
	var weights []int
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		weight := len(jsonOf(t, req.Messages))
		if weight > 60_000 {
			refused++
			return nil, &pygent.APIError{Status: 400, Message: "the request is too long", ContextTooLarge: true}
		}
		usage := pygent.Usage{PromptTokens: int64(weight) / 2, CompletionTokens: 1} // twice as many as estimated
		if n++; n == 1 {
			usage = pygent.Usage{} // the first refusal finds an estimate
		}
		if refused == 0 {
			usage = pygent.Usage{}
		}
		weights = append(weights, weight)
		if n > 60 {
			return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: "s", Name: "stop", Arguments: "{}"}), Usage: usage}, nil
		}
		call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
		return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call), Usage: usage}, nil
	})
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(spill(4_000)), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventMessage && e.Message.Role == pygent.RoleAssistant {
			windows = append(windows, e.Context.Window)
		}
	}))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(70))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, 1, refused, "what was learned keeps the conversation below")
	require.InDelta(t, 30_000, windows[len(windows)-1], 4_000, "in the server's tokens")
	require.Greater(t, slices.Max(weights[20:]), 40_000, "and the window is used")
}

func TestWhatToDoAboutAFullWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		window int64
		say    string
		want   string
	}{
		"the prefix alone":       {2_000, "go", "the system message and the tools alone need about "},
		"the last message alone": {9_000, strings.Repeat("a long text ", 6_000), "the user's last message alone needs about 18"},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(pygenttest.ContextTooLarge(int(tt.window)))
			agent := newAgentOn(t, nowhere{}, model, pygent.WithContextWindow(tt.window))
			for range 2 { // again by what the server says, if it was asked
				result, err := agent.RunUntilStop(t.Context(), tt.say)
				require.Error(t, err)
				require.Equal(t, pygent.StatusContextFull, result.Status)
				require.Contains(t, result.Reason, tt.want)
				require.Contains(t, result.Reason, fmt.Sprintf("of a window of %d", tt.window))
			}
		})
	}
}

func TestARefusalThatNamesNoWindowMakesNoneUp(t *testing.T) {
	t.Parallel()
	refusal := pygenttest.Error(&pygent.APIError{Status: 413, Message: "Request Entity Too Large", ContextTooLarge: true})
	for name, tt := range map[string]struct {
		say  string
		opts []pygent.Option
	}{
		"the prefix alone":       {"go", nil},
		"the last message alone": {strings.Repeat("a long text ", 6_000), nil},
		"no compaction":          {strings.Repeat("a long text ", 6_000), []pygent.Option{pygent.WithCompaction(pygent.CompactionPolicy{Disabled: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(refusal).RepeatLast(), append(tt.opts, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventWarning {
					told = append(told, e.Text)
				}
			}))...)
			for range 3 {
				result, err := agent.RunUntilStop(t.Context(), tt.say)
				require.Error(t, err)
				require.Equal(t, pygent.StatusContextFull, result.Status)
				require.NotRegexp(t, `window of \d|window holds \d`, result.Reason)
				require.Contains(t, result.Reason, "tokens of what the server refused as too long")
			}
			require.NotContains(t, strings.Join(told, "\n"), "the model's window has room")
		})
	}
}

func TestCompactSaysWhyNothingIsDoneAndCountsWhatItTakes(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	history, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	usage := pygent.Usage{PromptTokens: 70, CompletionTokens: 7}
	server := worker(t, 8, pygenttest.Text("in short").WithUsage(usage))
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(1_000)), pygent.WithHistory(history))
	_, err = agent.Compact(t.Context())
	require.EqualError(t, err, "nothing of the conversation can be left out: nothing was said yet")
	require.NoError(t, history.Append(pygent.UserMessage("hello"), pygent.AssistantMessage("hello")))
	_, err = agent.Compact(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToCompact)
	require.ErrorContains(t, err, "the last message of the user and the last exchange stay too")
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	done, err := agent.Compact(t.Context())
	require.NoError(t, err)
	require.Equal(t, usage, done.Usage)
	entries, err := store.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, usage, entries[len(entries)-1].Compaction.Usage, "the history tells what no run has counted")
}

// A server that refuses everything as too long must not be asked for ever, however
// small the window is that it names: a window smaller than the tools once was a
// panic.
func TestAServerThatRefusesEverythingAsTooLong(t *testing.T) {
	t.Parallel()
	for _, named := range []int{0, 600, 1_100, 5_000, 1_000_000} {
		t.Run(fmt.Sprint(named), func(t *testing.T) {
			n := 0
			model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				require.NoError(t, pygenttest.CheckConversation(req.Messages))
				if n++; n > 8 {
					message := "too long"
					if named > 0 {
						message = fmt.Sprintf("This model's maximum context length is %d tokens", named)
					}
					return nil, &pygent.APIError{Status: 400, Message: message, ContextTooLarge: true}
				}
				call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
				return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call)}, nil
			})
			agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(spill(6_000)))
			for range 5 {
				before := n
				result, err := agent.RunUntilStop(t.Context(), "go")
				require.Error(t, err)
				require.Equal(t, pygent.StatusContextFull, result.Status)
				require.LessOrEqual(t, n-max(before, 8), 3, "the request, a summary, and the request again")
			}
			result, err := agent.Resume(t.Context())
			require.Error(t, err)
			require.Equal(t, pygent.StatusContextFull, result.Status)
		})
	}
}

// Of a conversation that another agent has compacted, the summary is no word of
// the user.
func TestAConversationThatWasCompactedElsewhere(t *testing.T) {
	t.Parallel()
	server := worker(t, 40, pygenttest.Text("The work so far is summed up here.")).Window(12_000)
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(4_000)), pygent.WithContextWindow(12_000))
	_, err := agent.RunUntilStop(t.Context(), "the first task", pygent.MaxSteps(50))
	require.NoError(t, err)
	given := agent.History().Conversation()
	require.Contains(t, given[1].Text(), "summed up")
	server = worker(t, 8, pygenttest.Text("all of it, in a few words"))
	agent = newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(100)),
		pygent.WithHistory(pygent.NewHistory(given...)))
	done, err := agent.Compact(t.Context())
	require.NoError(t, err)
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "the first task")
	require.NotContains(t, done.Summary, "The user said")
	var record string
	for _, r := range server.Requests() {
		record += r.Chat.Messages[1].Text()
	}
	require.Contains(t, record, `{"role":"summary","text":"[This conversation became too long.`)
	require.NoError(t, pygenttest.CheckConversation(agent.History().Conversation()))
}

// hostileLists are what servers answer that do not tell their windows.
var hostileLists = map[string]http.HandlerFunc{
	"huge": func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat(`{"data":[`, 10_000)); err != nil {
				return
			}
		}
	},
	"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"negative": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"m","max_model_len":-5}]}`)
	},
	"zero": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"m","max_model_len":0}]}`) },
	"endless": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"m","max_model_len":9223372036854775807}]}`)
	},
	"other types": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[[],1,null,{"id":5},{"id":"m","max_model_len":"24000","meta":7}]}`)
	},
	"HTML": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) },
	"refused": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"data":[{"id":"m","max_model_len":600}]}`, http.StatusUnauthorized)
	},
	"redirected": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/v1/models", http.StatusFound) },
	"deep":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":`+strings.Repeat("[", 1_000_000)) },
}

func TestHostileListsOfModelsDisturbNoRun(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hostile answers")
	}
	t.Parallel()
	for name, list := range hostileLists {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/models", list)
			mux.Handle("/", worker(t, 6))
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(serveHTTP(t, mux)+"/v1")), pygent.WithModelName("m"), pygent.WithTools(spill(3_000)))
			result, err := agent.RunUntilStop(t.Context(), strings.Repeat("go ", 6_000))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Zero(t, agent.State().Context.Window)
		})
	}
}

// speaks is a way to speak to a server, of which each has its own rules.
type speaks struct {
	provider pygenttest.Provider
	api      pygent.OpenAIProtocol
	whole    bool // answers are not streamed
}

func (s speaks) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s whole=%v", s.provider, s.api, s.whole))
}

// model returns a model that speaks to a server in this way, and knows nothing of it.
func (s speaks) model(t *testing.T, server *pygenttest.Server) pygent.Model {
	m := newModel(t, pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(s.api))
	if s.whole {
		return pygent.ModelFunc(m.Chat)
	}
	return m
}

func allWays() (all []speaks) {
	for _, whole := range []bool{false, true} {
		for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
			all = append(all, speaks{provider, pygent.OpenAIChat, whole})
		}
		all = append(all, speaks{"", pygent.OpenAIResponses, whole})
	}
	return all
}

// throng is a server on which each answer calls several tools, with images and errors
// among their results.
func throng(t *testing.T, way speaks, steps int) *pygenttest.Server {
	n := 0
	return pygenttest.NewServer(t, pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		if n++; n%steps == 0 {
			return pygenttest.Call("stop", map[string]any{"summary": "done"})
		}
		var calls []pygenttest.Reply
		for i := range 1 + n%3 {
			calls = append(calls, pygenttest.Call("mixed", map[string]any{"n": 10*n + i}))
		}
		return pygenttest.TextAndCalls(strings.Repeat("so ", n%2), calls...).WithReasoning("I think.")
	})).RepeatLast().Strict(way.provider).On("<record>", pygenttest.Text("The work so far is summed up here.")).RepeatLast()
}

func mixed(bytes int) pygent.Tool {
	return pygent.NewTool("mixed", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (*pygent.ToolResult, error) {
		switch in.N % 7 {
		case 3:
			return nil, errors.New(strings.Repeat("it failed ", 30))
		case 5:
			return &pygent.ToolResult{Content: "see", Images: []string{onePixel}}, nil
		}
		return &pygent.ToolResult{Content: strings.Repeat(fmt.Sprintf("line of %d\n", in.N), bytes/12)}, nil
	})
}

// accepted returns the bodies of requests to go on that a server accepted.
func accepted(requests []pygenttest.Request) (bodies []string) {
	for _, r := range requests {
		if r.Err == nil && !asksSummary(r) {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

// A session that is resumed in another process sends what the first one would have
// sent, byte for byte, however often it was compacted before, and a strict server
// accepts it.
func TestResumedSessionsSendTheSameRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for _, way := range allWays() {
		t.Run(way.String(), func(t *testing.T) {
			server := throng(t, way, 8)
			agentOf := func(entries ...pygent.HistoryEntry) *pygent.Agent {
				store := &pygenttest.MemoryStore{}
				require.NoError(t, store.Append(t.Context(), entries...))
				history, err := pygent.LoadHistory(t.Context(), store)
				require.NoError(t, err)
				return newAgentOn(t, nowhere{}, way.model(t, server), pygent.WithModelName("m"), pygent.WithHistory(history),
					pygent.WithTools(mixed(1_500)), pygent.WithContextWindow(7_600))
			}
			next := func(a *pygent.Agent) string {
				before := len(server.Requests())
				_, err := a.RunUntilStop(t.Context(), "next", pygent.MaxSteps(1))
				require.NoError(t, err)
				sent := accepted(server.Requests()[before:])
				require.NotEmpty(t, sent)
				return sent[0]
			}
			agent := agentOf()
			for i, seen := 0, -1; seen < 2; i++ {
				require.Less(t, i, 12)
				_, err := agent.RunUntilStop(t.Context(), fmt.Sprint("task ", i))
				require.NoError(t, err)
				if now := summaries(agent.History()); now > seen {
					seen = now
					resumed := agentOf(agent.History().Entries()...)
					require.Equal(t, next(agent), next(resumed), "after %d summaries", seen)
				}
			}
			requireAccepted(t, way, server)
		})
	}
}

// requireAccepted requires that a server refused nothing, but for what an adapter
// learns its rules by.
func requireAccepted(t *testing.T, way speaks, server *pygenttest.Server) {
	t.Helper()
	refused := map[string]int{}
	for _, r := range server.Requests() {
		if r.Err != nil {
			refused[r.Err.Error()]++
		}
	}
	if way.provider == pygenttest.Gemini || way.provider == pygenttest.Mistral {
		for what, n := range refused {
			require.LessOrEqual(t, n, 4, "%s: once an adapter", what)
		}
		return
	}
	require.Empty(t, refused)
}

// summaries counts the summaries in a history.
func summaries(h *pygent.History) (n int) {
	for _, e := range h.Entries() {
		if e.Compaction != nil && e.Compaction.Summary != "" {
			n++
		}
	}
	return n
}

// The call that crosses the limit is the last, also if it is the one that sums up.
func TestASummaryThatSpendsTheRestIsTheLastCall(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]pygent.RunOption{"tokens": pygent.MaxTokens(5_000), "money": pygent.MaxCost(5)} {
		t.Run(name, func(t *testing.T) {
			usage := pygent.Usage{PromptTokens: 5_000}
			server := worker(t, 40, pygenttest.Text("The work so far is summed up here.").WithUsage(usage).WithModel("m"))
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(2_000)),
				pygent.WithContextWindow(8_000), pygent.WithModelName("m"), pygent.WithPrices(dollars))
			history := agent.History()
			for i := range 30 {
				call := pygent.ToolCall{ID: fmt.Sprint("c", i), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, i)}
				require.NoError(t, history.Append(pygent.UserMessage(strings.Repeat("words ", 200)), pygent.AssistantMessage("", call),
					pygent.ToolMessage(call.ID, "ok")))
			}
			result, err := agent.RunUntilStop(t.Context(), "go", limit)
			require.NoError(t, err)
			require.Equal(t, pygent.StatusBudget, result.Status, result.Reason)
			require.Equal(t, 1, len(server.Requests()))
			require.Equal(t, 1, summaries(history), "it is not lost")
			require.NoError(t, pygenttest.CheckConversation(history.Conversation()))
		})
	}
}

// A summary that takes longer than a step may must not keep the conversation from
// ever going on.
func TestASummaryThatTakesTooLongIsReplacedByAList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			if strings.HasPrefix(req.Messages[1].Text(), "<record>") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if n++; n > 60 {
				return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: "s", Name: "stop", Arguments: "{}"})}, nil
			}
			call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
			return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call)}, nil
		})
		agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(spill(2_000)), pygent.WithContextWindow(8_000), pygent.StepTimeout(time.Minute))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(70))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
		require.NotZero(t, summaries(agent.History()))
	})
}

// A store that hangs while it is given the mark of a compaction costs its time
// limit and the run, and no mark, whether it stored it or not.
func TestACompactionWhoseStoreHangs(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored=%v", stored), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowToMark{stored: stored, free: make(chan struct{})}
				history, err := pygent.LoadHistory(t.Context(), store)
				require.NoError(t, err)
				n := 0
				model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
					require.NoError(t, pygenttest.CheckConversation(req.Messages))
					if n++; n%20 == 0 {
						return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: fmt.Sprint("s", n), Name: "stop", Arguments: "{}"})}, nil
					}
					call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
					return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call)}, nil
				})
				agent := newAgentOn(t, nowhere{}, model, pygent.WithHistory(history), pygent.WithTools(spill(2_000)), pygent.WithContextWindow(8_000))
				began := time.Now()
				result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(30))
				require.Error(t, err)
				require.Equal(t, pygent.StatusFailed, result.Status)
				require.Less(t, time.Since(began), time.Minute)
				_, err = agent.RunUntilStop(t.Context(), "while it hangs")
				require.Error(t, err)
				require.Less(t, time.Since(began), time.Minute)
				close(store.free)
				result, err = agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(30))
				require.NoError(t, err)
				require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
				again, err := pygent.LoadHistory(t.Context(), &store.MemoryStore)
				require.NoError(t, err)
				require.Equal(t, jsonOf(t, history.Entries()), jsonOf(t, again.Entries()))
				require.Equal(t, jsonOf(t, history.Conversation()), jsonOf(t, again.Conversation()))
			})
		})
	}
}

// slowToMark is a store that hangs at the first mark of a compaction until it is free.
type slowToMark struct {
	pygenttest.MemoryStore
	stored bool // it has the mark nevertheless
	hung   atomic.Bool
	free   chan struct{}
}

func (s *slowToMark) Append(ctx context.Context, entries ...pygent.HistoryEntry) error {
	marks := slices.ContainsFunc(entries, func(e pygent.HistoryEntry) bool { return e.Compaction != nil })
	if !marks || s.hung.Swap(true) {
		return s.MemoryStore.Append(ctx, entries...)
	}
	<-s.free
	if s.stored {
		return s.MemoryStore.Append(context.WithoutCancel(ctx), entries...)
	}
	return errors.New("it hung")
}
