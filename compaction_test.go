package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// spill is a tool with a long result.
func spill(bytes int) pygent.Tool {
	return pygent.NewTool("spill", "Print a lot", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (string, error) {
		line := fmt.Sprintf("line of result %d\n", in.N)
		return strings.Repeat(line, bytes/len(line)+1) + fmt.Sprintf("[the whole output is in /tmp/%d]", in.N), nil
	})
}

// worker answers with so many calls of spill, and then stops. Its summaries are
// what the server says to the question for one.
func worker(t testing.TB, steps int, summary ...pygenttest.Reply) *pygenttest.Server {
	var n atomic.Int64
	server := pygenttest.NewServer(t, pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		if i := n.Add(1); int(i) <= steps {
			return pygenttest.TextAndCalls(fmt.Sprint("step ", i), pygenttest.Call("spill", map[string]any{"n": i})).WithReasoning("I think.")
		}
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	})).RepeatLast()
	if len(summary) > 0 {
		server.On("<record>", summary...)
	}
	return server
}

// asksSummary reports whether a request asks for a summary.
func asksSummary(r pygenttest.Request) bool {
	return len(r.Chat.Messages) == 2 && strings.HasPrefix(r.Chat.Messages[1].Text(), "<record>")
}

// compactions returns the events of compactions, and the run's options that collect them.
func compactions() (*[]pygent.Compaction, pygent.Option) {
	var all []pygent.Compaction
	return &all, pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventCompacted {
			all = append(all, *e.Compaction)
		}
	})
}

// requireStablePrefixes checks that each request to go on begins with the one
// before, except after a compaction, and returns how often it did not.
func requireStablePrefixes(t *testing.T, server *pygenttest.Server) (broken int) {
	t.Helper()
	var before []pygent.Message
	for _, r := range server.Requests() {
		require.NoError(t, r.Err)
		if asksSummary(r) {
			require.Empty(t, r.Chat.Tools)
			continue
		}
		now := r.Chat.Messages
		if len(before) > 0 && (len(now) < len(before) || jsonOf(t, now[:len(before)]) != jsonOf(t, before)) {
			broken++
		}
		before = now
	}
	return broken
}

// The other providers are asked without the race detector.
func TestALongRunOfAProviderStaysInItsWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	t.Run("chat", func(t *testing.T) { runLong(t, pygent.OpenAIChat, "") })
	t.Run("responses", func(t *testing.T) { runLong(t, pygent.OpenAIResponses, pygenttest.Ollama) })
}

// runLong works for longer than the window is.
func runLong(t *testing.T, api pygent.OpenAIProtocol, strict pygenttest.Provider) {
	const steps, window = 60, 24_000
	server := worker(t, steps, pygenttest.Text("I did a lot, and all of it is well.")).Strict(strict).Window(window)
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(api)),
		pygent.WithModelName("m"), pygent.WithTools(spill(6_000)), pygent.WithContextWindow(window), collect)
	result, err := agent.RunUntilStop(t.Context(), "do the work", pygent.MaxSteps(steps+5))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.NotEmpty(t, *all)
	refused := 0
	if strict == pygenttest.Mistral || strict == pygenttest.Gemini {
		refused = 2 // by which the adapter learns the form
	}
	if strict == "" {
		require.LessOrEqual(t, requireStablePrefixes(t, server), len(*all)+refused)
	}
	require.Less(t, len(*all), steps/4, "compaction is rare")
	summaries := 0
	for _, c := range *all {
		require.Less(t, c.After, c.Before*7/10, "and large")
		if c.Summary != "" {
			summaries++
			require.True(t, c.ByModel)
			require.Contains(t, c.Summary, "I did a lot, and all of it is well.")
			require.Contains(t, c.String(), "a summary of the model")
		}
	}
	require.NotZero(t, summaries)
	require.Equal(t, 2*steps+4, agent.History().Len(), "the history keeps everything")
	requests := server.Requests()
	last := requests[len(requests)-1].Chat.Messages
	require.Equal(t, pygent.RoleSystem, last[0].Role)
	require.Contains(t, last[1].Text(), "[This conversation became too long.")
	require.Equal(t, "do the work", last[2].Text(), "what the user said last stays, after all that is older")
}

func TestOldResultsShrinkFirst(t *testing.T) {
	t.Parallel()
	server := worker(t, 12)
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())),
		pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000), collect)
	_, err := agent.RunUntilStop(t.Context(), "do the work")
	require.NoError(t, err)
	require.Len(t, *all, 1)
	require.Empty(t, (*all)[0].Summary)
	require.Contains(t, (*all)[0].String(), "is left out")
	shown := agent.History().Conversation()
	require.Equal(t, "[left out to save room: 354 lines, 6032 bytes, the call's outcome was ok, it began with \"line of result 1\"; if you need it, look again]\n"+
		"[the whole output is in /tmp/1]", shown[3].Text())
	require.Contains(t, agent.History().Messages()[3].Text(), strings.Repeat("line of result 1\n", 100))
	require.Contains(t, shown[len(shown)-3].Text(), "line of result 12\nline", "the end is whole")
}

// A resumed session sends what the dead one would have sent.
func TestAResumedSessionSendsTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) func() *pygent.History{
		"file": func(t *testing.T) func() *pygent.History {
			path := filepath.Join(t.TempDir(), "h.json")
			return func() *pygent.History { return openHistory(t, path) }
		},
		"store": func(t *testing.T) func() *pygent.History {
			store := &pygenttest.MemoryStore{}
			return func() *pygent.History {
				h, err := pygent.LoadHistory(t.Context(), store)
				require.NoError(t, err)
				return h
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			again := open(t)
			server := worker(t, 70, pygenttest.Text("I did a lot, and all of it is well."))
			history := again()
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithHistory(history),
				pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000))
			_, err := agent.RunUntilStop(t.Context(), "do the work", pygent.MaxSteps(80))
			require.NoError(t, err)
			before := jsonOf(t, history.Conversation())
			require.Less(t, len(before), 80_000)
			require.NoError(t, agent.Close())
			require.NoError(t, history.Close())
			history = again()
			require.Equal(t, before, jsonOf(t, history.Conversation()))
			require.Contains(t, before, "I did a lot, and all of it is well.")
			require.Greater(t, len(jsonOf(t, history.Messages())), 400_000)
			require.NoError(t, history.Close())
		})
	}
}

// The JSON of messages that are not sent any more is dropped, and made anew for a
// file that is written again.
func TestWhatWasCompactedIsWrittenAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	history := openHistory(t, path)
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(worker(t, 70, pygenttest.Text("I did a lot, and all of it is well.")).URL())),
		pygent.WithHistory(history), pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000))
	_, err := agent.RunUntilStop(t.Context(), "do the work", pygent.MaxSteps(80))
	require.NoError(t, err)
	shown := jsonOf(t, history.Conversation()[1:])
	require.NoError(t, history.SetSystem("another one"))
	all := jsonOf(t, history.Messages())
	require.NoError(t, history.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.JSONEq(t, all, string(data))
	history = openHistory(t, path)
	require.Empty(t, history.Repairs())
	require.Equal(t, all, jsonOf(t, history.Messages()))
	require.Equal(t, shown, jsonOf(t, history.Conversation()[1:]))
}

func TestAnOverflowCompactsAndRepeatsOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		overflows int
		status    pygent.Status
	}{"once": {1, pygent.StatusStopped}, "twice": {2, pygent.StatusContextFull}} {
		t.Run(name, func(t *testing.T) {
			script := []pygenttest.Reply{}
			for i := range 6 {
				script = append(script, pygenttest.Call("spill", map[string]any{"n": i}))
			}
			for range tt.overflows {
				script = append(script, pygenttest.ContextTooLarge(16_000))
			}
			server := pygenttest.NewServer(t, append(script, pygenttest.Call("stop", map[string]any{}))...).On("<record>", pygenttest.Text("The work so far is summed up here.")).RepeatLast()
			all, collect := compactions()
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(6_000)), collect)
			result, err := agent.RunUntilStop(t.Context(), "do the work")
			require.Equal(t, tt.status, result.Status)
			require.Len(t, *all, 1)
			if tt.status == pygent.StatusContextFull {
				require.Error(t, err)
				require.Contains(t, result.Reason, "begin a new conversation")
				return
			}
			require.NoError(t, err)
			require.Less(t, (*all)[0].After, int64(9_000), "the error named the window")
		})
	}
}

func TestCompactionCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.ContextTooLarge(16_000))
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithCompaction(pygent.CompactionPolicy{Disabled: true}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.Error(t, err)
	require.Equal(t, pygent.StatusContextFull, result.Status)
	require.Contains(t, result.Reason, "switch compaction on")
	for _, p := range []pygent.CompactionPolicy{{At: 5}, {At: 99}, {To: 90}, {At: 50, To: 48}, {To: -1}} {
		_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), pygent.WithCompaction(p))
		require.ErrorContains(t, err, "WithCompaction")
	}
	_, err = pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), pygent.WithContextWindow(-3))
	require.EqualError(t, err, "option WithContextWindow: want a number of tokens, or 0 for the default, and not -3")
}

// Neither a conversation that becomes too long nor a server that says so has one that is
// switched off done all the same.
func TestACompactionThatIsSwitchedOffNeverHappens(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]int64{"the window is known": 24_000, "the server says so": 0} {
		t.Run(name, func(t *testing.T) {
			server := worker(t, 60, pygenttest.Text("A summary of all that was done so far.")).Window(24_000)
			all, collect := compactions()
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(6_000)),
				pygent.WithContextWindow(window), pygent.WithCompaction(pygent.CompactionPolicy{Disabled: true}), collect)
			result, err := agent.RunUntilStop(t.Context(), "do the work", pygent.MaxSteps(70))
			require.ErrorContains(t, err, "switch compaction on", "what can be done is in the error, which every front end shows")
			require.Equal(t, pygent.StatusContextFull, result.Status)
			require.Contains(t, result.Reason, "switch compaction on")
			require.Empty(t, *all)
			require.False(t, slices.ContainsFunc(server.Requests(), asksSummary))
		})
	}
}

func TestAWindowThatHoldsNothingEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithContextWindow(500))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "the model's window holds 500")
	require.Equal(t, pygent.StatusContextFull, result.Status)
	require.Contains(t, result.Reason, "for the system message and the tools")
	require.Contains(t, result.Reason, "context_window")
	require.Empty(t, model.Requests())
}

func TestASmallWindowIsWarnedOf(t *testing.T) {
	t.Parallel()
	warned := 0
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(callBash("true"), callBash("false"), stop), pygent.WithContextWindow(2_000), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning && strings.Contains(e.Text, "little is left to work with") {
			warned++
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, 1, warned)
}

// One result can be larger than what a small window has room for.
func TestTheLastResultIsCutIfNothingElseHelps(t *testing.T) {
	t.Parallel()
	server := worker(t, 3, pygenttest.Text("The work so far is summed up here.")).Window(9_000)
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(30_000)),
		pygent.WithContextWindow(9_000), collect)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.NotEmpty(t, *all)
	require.NotZero(t, (*all)[0].Cut)
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "bytes left out")
	require.Zero(t, requireRefusals(server))
}

func requireRefusals(server *pygenttest.Server) (n int) {
	for _, r := range server.Requests() {
		if r.Err != nil {
			n++
		}
	}
	return n
}

func TestAFailedSummaryIsReplacedByAList(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for name, reply := range map[string]pygenttest.Reply{
		"error": pygenttest.Status(http.StatusBadRequest, "invalid", "no"), "empty": pygenttest.Text(" "), "too long": pygenttest.ContextTooLarge(5000),
		"cut off": pygenttest.Text("The first half").WithFinish("max_tokens"), "filtered": pygenttest.Text("The first half").WithFinish("SAFETY"),
	} {
		t.Run(name, func(t *testing.T) {
			server := worker(t, 60, reply).Window(24_000)
			all, collect := compactions()
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(6_000)),
				pygent.WithContextWindow(24_000), collect)
			result, err := agent.RunUntilStop(t.Context(), "do the work", pygent.MaxSteps(70))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			var last pygent.Compaction
			for _, c := range *all {
				if c.Summary != "" {
					last = c
				}
			}
			require.False(t, last.ByModel)
			require.Contains(t, last.Summary, "- spill {")
			require.Contains(t, last.Summary, "step ")
		})
	}
}

func TestServersThatCountNothingOrWrong(t *testing.T) {
	t.Parallel()
	for name, usage := range map[string]pygent.Usage{"nothing": {}, "far too much": {PromptTokens: 1e9}, "far too little": {PromptTokens: 3}} {
		t.Run(name, func(t *testing.T) {
			var n int
			var warned int
			model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				if strings.HasPrefix(req.Messages[1].Text(), "<record>") {
					return &pygent.ChatResponse{Message: pygent.AssistantMessage("The work so far is summed up here."), Usage: usage}, nil
				}
				require.Less(t, len(jsonOf(t, req.Messages)), 24_000*4)
				if n++; n > 40 {
					return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: "s", Name: "stop", Arguments: "{}"}), Usage: usage}, nil
				}
				call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
				return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call), Usage: usage}, nil
			})
			agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventWarning && strings.Contains(e.Text, "may cut off the beginning") {
					warned++
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(50))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Equal(t, name == "far too little", warned == 1)
		})
	}
}

// Beside what a model says of the work is what the history knows of it, and what the user
// said last stands after both.
func TestASummaryHasARecordBesideIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		summary string
		byModel bool
	}{
		"a summary":   {"All is done, and every check went well.", true},
		"a few words": {"Understood, I continue.", false},
		"a call":      {"<function=bash>\n<parameter=cmd>rm -r what was made</parameter>\n</function>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(
				pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": "x"}), callBash("seq 1 4000; exit 3"), callBash("seq 1 4000"), stop,
			).On("<record>", pygenttest.Text(tt.summary))
			agent := newAgent(t, model)
			_, err := agent.RunUntilStop(t.Context(), "the task")
			require.NoError(t, err)
			done, err := agent.Compact(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.byModel, done.ByModel)
			require.Contains(t, done.Summary, "Files that tools changed:\n- \"a.txt\"\n")
			require.Contains(t, done.Summary, "- exit code 3: \"seq 1 4000; exit 3\"\n")
			shown := agent.History().Conversation()
			require.Equal(t, done.Summary, shown[1].Text())
			require.Contains(t, shown[1].Text(), "It is what counts now")
			require.Equal(t, "the task", shown[2].Text())
		})
	}
}

func TestCompactOnRequest(t *testing.T) {
	t.Parallel()
	server := worker(t, 8, pygenttest.Text("all of it, in short words"))
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(1_000)))
	_, err := agent.Compact(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToCompact)
	_, err = agent.RunUntilStop(t.Context(), "the first task")
	require.NoError(t, err)
	used := agent.Usage().Own
	done, err := agent.Compact(t.Context())
	require.NoError(t, err)
	require.True(t, done.ByModel)
	require.Contains(t, done.Summary, "all of it, in short words")
	require.Less(t, done.After, done.Before)
	require.Equal(t, done.After, agent.State().Context.Used)
	require.Greater(t, agent.Usage().Own.PromptTokens, used.PromptTokens, "the summary's tokens count")
	shown := agent.History().Conversation()
	require.NoError(t, pygenttest.CheckConversation(shown))
	require.Equal(t, "the first task", shown[2].Text())

	server.Add(pygenttest.Call("stop", map[string]any{}))
	_, err = agent.RunUntilStop(t.Context(), "the second task")
	require.NoError(t, err)
	done, err = agent.Compact(t.Context())
	require.NoError(t, err)
	require.Contains(t, done.Summary, `- "the first task"`, "the user's words stay")
	require.Contains(t, jsonOf(t, agent.History().Conversation()), `"content":"the second task"`)
	require.NoError(t, agent.Close())
	_, err = agent.Compact(t.Context())
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestCompactDoesNotDisturbARun(t *testing.T) {
	t.Parallel()
	history := pygent.NewHistory(pygent.UserMessage("go"), pygent.AssistantMessage("", pygent.ToolCall{ID: "c", Name: "bash", Arguments: "{}"}))
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), pygent.WithHistory(history))
	require.NoError(t, err)
	defer agent.Close()
	_, err = agent.Compact(t.Context())
	require.ErrorContains(t, err, "resume the run first")

	var inside error
	busy := pygent.NewTool("busy", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		a, _ := ctx.Value(agentKey{}).(*pygent.Agent)
		_, inside = a.Compact(context.Background())
		return "", nil
	})
	agent = newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("busy", map[string]any{}), stop), pygent.WithTools(busy))
	_, err = agent.RunUntilStop(context.WithValue(t.Context(), agentKey{}, agent), "go")
	require.NoError(t, err)
	require.ErrorIs(t, inside, pygent.ErrAgentBusy)
}

type agentKey struct{}

func TestStateTellsOfCompactionOnRequest(t *testing.T) {
	t.Parallel()
	var during []pygent.Activity
	var agent *pygent.Agent
	server := worker(t, 8, pygenttest.Text("in short"))
	agent = newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(1_000)), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventCompacting {
			during = append(during, agent.State().Activity)
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	_, err = agent.Compact(t.Context())
	require.NoError(t, err)
	require.Equal(t, []pygent.Activity{pygent.ActivityModel}, during)
	require.Equal(t, pygent.ActivityIdle, agent.State().Activity)
}

// Marks come from files and stores: whatever they say, the conversation is legal.
func TestNoMarkMakesAConversationIllegal(t *testing.T) {
	if testing.Short() {
		t.Skip("tries many conversations")
	}
	t.Parallel()
	record := []pygent.HistoryEntry{{Message: pygent.SystemMessage("s")}, {Message: pygent.UserMessage("go")}}
	for i := range 3 {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		record = append(record,
			pygent.HistoryEntry{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: a, Name: "x", Arguments: "{}"}, pygent.ToolCall{ID: b, Name: "x", Arguments: "{}"})},
			pygent.HistoryEntry{Message: pygent.ToolMessage(a, strings.Repeat("x", 1000))}, pygent.HistoryEntry{Message: pygent.ToolMessage(b, "y")})
	}
	for at := range record {
		for keep := -1; keep <= len(record)+1; keep++ {
			for _, mark := range []pygent.Compaction{{Keep: keep}, {Keep: keep, Summary: "s", Pinned: keep + 2, Cut: 1}, {Keep: keep, Summary: "s", Pinned: -7}} {
				entries := append(append([]pygent.HistoryEntry{}, record[:at+1]...), pygent.HistoryEntry{Compaction: &mark})
				entries = append(entries, record[at+1:]...)
				store := &pygenttest.MemoryStore{}
				for i := range entries {
					entries[i].Seq = int64(i)
				}
				require.NoError(t, store.Append(t.Context(), entries...))
				h, err := pygent.LoadHistory(t.Context(), store)
				require.NoError(t, err)
				require.NoError(t, legal(h.Conversation()), "%d %+v", at, mark)
				require.Equal(t, len(record), h.Len())
			}
		}
	}
}

func TestWindowsAreAskedOfTheServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := worker(t, 40, pygenttest.Text("The work so far is summed up here.")).Window(24_000)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"id": "m", "max_model_len": 24_000}}})
	})
	mux.Handle("/", server)
	url := serveHTTP(t, mux)
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(url+"/v1")), pygent.WithModelName("m"), pygent.WithTools(spill(6_000)), collect)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(50))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.NotEmpty(t, *all)
	require.Equal(t, int64(1), asked.Load())
	require.Equal(t, int64(24_000), agent.State().Context.Window)
	require.Zero(t, requireRefusals(server))
}

func serveHTTP(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnEndlessWindowIsNeverFull(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(callBash("true"), stop), pygent.WithContextWindow(math.MaxInt64))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

// The window that an agent is given is that of its own model.
func TestATaskWithAnotherModelHasAnotherWindow(t *testing.T) {
	t.Parallel()
	child := func() pygenttest.Reply {
		n := 0
		return pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			if n++; n > 12 {
				return stop
			}
			return pygenttest.Call("spill", map[string]any{"n": n})
		})
	}
	other := func() pygent.Option {
		return pygent.WithModel(pygenttest.NewScriptedModel(child()).RepeatLast())
	}
	for name, tt := range map[string]struct {
		opts     []pygent.Option
		compacts bool
	}{
		"the same model":                {nil, true},
		"the same name":                 {[]pygent.Option{pygent.WithModelName("m")}, true},
		"another name":                  {[]pygent.Option{pygent.WithModelName("gpt-5")}, false},
		"another model":                 {[]pygent.Option{other()}, false},
		"another with a window":         {[]pygent.Option{pygent.WithContextWindow(9000), other()}, true},
		"another, and the window after": {[]pygent.Option{other(), pygent.WithContextWindow(9000)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(follow(always(delegate("Read much")), wait, always(stop))).RepeatLast().
				On("Read much", child()).RepeatLast()
			all, collect := compactions()
			agent := newAgent(t, model, pygent.WithTools(spill(3000)), pygent.WithModelName("m"),
				pygent.WithContextWindow(9000), pygent.TaskAgents(tt.opts...), collect)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.TaskFinished, byPrompt(t, agent)["Read much"].State)
			require.Equal(t, tt.compacts, len(*all) > 0)
		})
	}
}

// Who delegates cannot begin a conversation, but another task.
func TestATaskWhosePromptIsTooLongSaysWhatToDo(t *testing.T) {
	t.Parallel()
	prompt := "Read " + strings.Repeat("long words ", 3000)
	model := pygenttest.NewScriptedModel(follow(always(delegate(prompt)), wait, always(stop))).RepeatLast()
	agent := newAgent(t, model, pygent.TaskAgents(pygent.WithContextWindow(6000)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	task := byPrompt(t, agent)[prompt]
	require.Equal(t, pygent.TaskFailed, task.State)
	require.Contains(t, task.String(), "start another task with a shorter prompt, which names files instead of quoting them")
	require.NotContains(t, task.String(), "conversation with")
}
