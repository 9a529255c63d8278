package pygent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

func TestResumeAnswersWhatWasLeftOpen(t *testing.T) {
	t.Parallel()
	count := pygent.Tool{Name: "count", Idempotent: true, Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "counted"}, nil
	}}
	const lost = "interrupted; it may have taken effect"
	user := chat.UserMessage("go")
	stopCall := recordedCall("s", "stop", `{"summary":"it was done"}`)
	tests := []struct {
		name   string
		record []pygent.Message
		want   []string // the results after resuming
		status pygent.Status
		asked  int
	}{
		{"before the first answer", []pygent.Message{user}, []string{"stopped"}, pygent.StatusStopped, 1},
		{"in a call", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "bash", `{"cmd":"touch no"}`))},
			[]string{lost, "stopped"}, pygent.StatusStopped, 1},
		{"in a call that may be repeated", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "count", ""))},
			[]string{"counted", "stopped"}, pygent.StatusStopped, 1},
		{"in a write", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "write_file", `{"path":"f","content":"x"}`))},
			[]string{"created f with 1 byte (1 line)", "stopped"}, pygent.StatusStopped, 1},
		{"in an addition to a file", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "write_file", `{"path":"f","content":"x","append":"true"}`))},
			[]string{lost, "stopped"}, pygent.StatusStopped, 1},
		{"between calls", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "bash", `{}`), recordedCall("b", "count", ""), recordedCall("c", "bash", `{}`)), chat.ToolMessage("a", "ran")},
			[]string{"ran", "counted", lost, "stopped"}, pygent.StatusStopped, 1},
		{"after all calls", []pygent.Message{user, chat.AssistantMessage("", recordedCall("a", "count", "")), chat.ToolMessage("a", "ran")},
			[]string{"ran", "stopped"}, pygent.StatusStopped, 1},
		{"in stop", []pygent.Message{user, chat.AssistantMessage("", stopCall, recordedCall("a", "bash", `{}`))},
			[]string{"stopped", "not run: an earlier call of the same message ended the run"}, pygent.StatusStopped, 0},
		{"after stop", []pygent.Message{user, chat.AssistantMessage("", stopCall), chat.ToolMessage("s", "stopped")},
			[]string{"stopped"}, pygent.StatusStopped, 0},
		{"after a question", []pygent.Message{user, chat.AssistantMessage("", recordedCall("q", "continue", `{"prompt":"?"}`)), chat.ToolMessage("q", "asked")},
			[]string{"asked"}, pygent.StatusAwaitingUser, 0},
		{"after a reply", []pygent.Message{user, chat.AssistantMessage("Well")}, []string{"stopped"}, pygent.StatusStopped, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(stop)
			agent := newAgent(t, model, pygent.WithTools(count), pygent.WithHistory(chat.NewHistory(tt.record...)))
			result, err := agent.Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.status, result.Status, result.Reason)
			require.Equal(t, tt.want, results(agent))
			require.Len(t, model.Requests(), tt.asked)
			if tt.asked == 0 && tt.status == pygent.StatusStopped {
				require.Equal(t, "it was done", result.Summary)
			}
		})
	}
	_, err := newAgent(t, pygenttest.NewScriptedModel()).Resume(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToResume)
}

// How a call ended is what the history says, whatever the words of its result.
func TestResumeGoesByTheOutcomeOfAStop(t *testing.T) {
	t.Parallel()
	call := chat.AssistantMessage("", recordedCall("s", "stop", `{"summary":"it was done"}`))
	for _, tt := range []struct {
		content string
		outcome pygent.Outcome
		asked   int
	}{
		{"error: none, all is done", pygent.OutcomeOK, 0},
		{"stopped", pygent.OutcomeFailed, 1},
		{"stopped", "", 0},
		{"not stopped: a job runs", "", 1},
	} {
		t.Run(tt.content+" "+string(tt.outcome), func(t *testing.T) {
			store := &pygenttest.MemoryStore{}
			require.NoError(t, store.Append(t.Context(), chat.HistoryEntry{Seq: 1, Message: chat.UserMessage("go")},
				chat.HistoryEntry{Seq: 2, Message: call}, chat.HistoryEntry{Seq: 3, Message: chat.ToolMessage("s", tt.content), Outcome: tt.outcome}))
			history, err := chat.LoadHistory(t.Context(), store)
			require.NoError(t, err)
			model := pygenttest.NewScriptedModel(stop)
			result, err := quick(t, model, pygent.WithHistory(history)).Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Len(t, model.Requests(), tt.asked)
		})
	}
}

// A resumed run tells only of calls that it makes.
func TestResumeOfARunThatHadStoppedHasNoCalls(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pygent.Option{
		"plain":    nil,
		"approved": {pygent.WithApprovalFor("stop"), pygent.WithApproval(waits)},
	} {
		t.Run(name, func(t *testing.T) {
			var events []pygent.EventType
			call := chat.AssistantMessage("", recordedCall("s", "stop", `{"summary":"it was done"}`))
			opts = append(opts, pygent.WithHistory(chat.NewHistory(chat.UserMessage("go"), call, chat.ToolMessage("s", "stopped"))),
				pygent.OnEvent(func(e pygent.Event) { events = append(events, e.Type) }))
			result, err := quick(t, pygenttest.NewScriptedModel(), opts...).Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, "it was done", result.Summary)
			require.Equal(t, []pygent.EventType{pygent.EventRunEnd}, events)
		})
	}
}

func TestResumeTellsThatARunEndedWithAReply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		replies []pygenttest.Reply
		opts    []pygent.RunOption
		asked   int // how often the model is asked again
	}{
		{"the only one", []pygenttest.Reply{pygenttest.Text("Hello.")}, []pygent.RunOption{pygent.WithEndOnReply()}, 0},
		{"the second in a row", []pygenttest.Reply{pygenttest.Text("Hello."), pygenttest.Text("As I said.")}, nil, 0},
		{"after a limit", []pygenttest.Reply{callBash("true"), callBash("false"), pygenttest.Text("Hello.")}, []pygent.RunOption{pygent.MaxSteps(2), pygent.WithEndOnReply()}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(append(tt.replies, stop)...)
			agent := newAgentOn(t, nowhere{}, model)
			_, err := agent.RunUntilStop(t.Context(), "hi", tt.opts...)
			require.NoError(t, err)
			require.Len(t, model.Requests(), len(tt.replies))
			result, err := agent.Resume(t.Context(), tt.opts...)
			require.NoError(t, err)
			require.Len(t, model.Requests(), len(tt.replies)+tt.asked)
			if tt.asked == 0 {
				require.Equal(t, pygent.StatusReplied, result.Status)
				require.Equal(t, "Hello.", result.Summary)
			}
		})
	}
}

func TestResumedCallShowsItsImages(t *testing.T) {
	t.Parallel()
	look := pygent.Tool{Name: "look", Idempotent: true, Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "it follows", Images: []string{"https://example.com/a.png"}}, nil
	}}
	history := chat.NewHistory(chat.UserMessage("go"), chat.AssistantMessage("", recordedCall("a", "look", "")))
	model := pygenttest.NewScriptedModel(stop)
	_, err := newAgentOn(t, nowhere{}, model, pygent.WithTools(look), pygent.WithHistory(history)).Resume(t.Context())
	require.NoError(t, err)
	messages := model.Requests()[0].Messages
	require.True(t, messages[len(messages)-1].HasImages())
}

// The process that is killed delegates a task, notes in a file what it does,
// reports on a pipe that it is in the middle of a call, and hangs.
const (
	killedDir = "PYGENT_TEST_KILLED_RUN"
	killedFD  = 3
)

// runOfTheKilled returns an agent that keeps its conversation and notes in dir.
// It calls hold in the middle of the second call of the second message.
func runOfTheKilled(t *testing.T, dir string, hold func()) *pygent.Agent {
	note := func(name string, idempotent bool, then func()) pygent.Tool {
		return pygent.Tool{Name: name, Idempotent: idempotent, Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			f, err := os.OpenFile(filepath.Join(dir, "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			_, err = f.WriteString(name + "\n")
			then()
			return &pygent.ToolResult{Content: name + " done"}, err
		}}
	}
	quick := func() {}
	model := pygenttest.NewScriptedModel().On("the killed run", pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		answers := 0
		for _, m := range req.Messages {
			if m.Role == chat.RoleAssistant {
				answers++
			}
		}
		return []pygenttest.Reply{
			pygenttest.Calls(pygenttest.Call("once", nil), delegate("Sub")).WithCallIDs("a", "b"),
			pygenttest.Calls(pygenttest.Call("again", nil), pygenttest.Call("hangs", nil), pygenttest.Call("again", nil), delegate("Sub")).WithCallIDs("c", "d", "e", "f"),
			stop, // refused if the task is still running
			stop,
		}[answers]
	})).RepeatLast().On("Sub", stop)
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(filepath.Join(dir, "workspace")))
	require.NoError(t, err)
	return newAgentOn(t, rt, model,
		pygent.WithHistoryFile(filepath.Join(dir, "history.json")),
		pygent.WithTools(note("once", false, quick), note("again", true, quick), note("hangs", false, hold)))
}

func TestKilledRun(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // only TestRunKilledInTheMiddleIsResumed runs this, in a separate process
	}
	pipe := os.NewFile(killedFD, "ready")
	agent := runOfTheKilled(t, dir, func() {
		all, err := pipe.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		require.NoError(t, err, all)
		select {} // wait to be killed
	})
	_, _ = agent.RunUntilStop(t.Context(), "the killed run")
}

func TestRunKilledInTheMiddleIsResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	killed := exec.Command(os.Args[0], "-test.run=^TestKilledRun$")
	killed.Env = append(os.Environ(), killedDir+"="+dir)
	killed.ExtraFiles = []*os.File{w}
	require.NoError(t, killed.Start())
	require.NoError(t, w.Close())
	_, err = bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err, "it ended before it was killed")
	require.NoError(t, killed.Process.Kill())
	require.ErrorContains(t, killed.Wait(), "killed")

	agent := runOfTheKilled(t, dir, func() { t.Error("a tool that is not idempotent ran again") })
	before, err := os.ReadFile(filepath.Join(dir, "notes"))
	require.NoError(t, err)
	require.Equal(t, "once\nagain\nhangs\n", string(before))
	result, err := agent.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
	after, err := os.ReadFile(filepath.Join(dir, "notes"))
	require.NoError(t, err)
	require.Equal(t, "once\nagain\nhangs\nagain\n", string(after))
	got := results(agent)
	require.GreaterOrEqual(t, len(got), 7)
	require.Equal(t, "once done", got[0])
	require.Equal(t, []string{"again done", "interrupted; it may have taken effect", "again done"}, got[2:5])
	require.Regexp(t, "^started task", got[5])
	require.NotEqual(t, got[1], got[5], "another call, another task")
	require.Equal(t, "stopped", got[len(got)-1])
}

func TestResumedDelegationFindsItsTask(t *testing.T) {
	t.Parallel()
	m, err := pygent.NewTaskManager()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	model := pygenttest.NewScriptedModel(delegate("Sub"), stop).On("Sub", stop)
	parent := func(opts ...pygent.Option) *pygent.Agent {
		return newAgent(t, model, append(opts, pygent.WithID("parent"), pygent.WithTaskManager(m))...)
	}
	first := parent()
	_, err = first.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
	require.NoError(t, err)
	id := startedTask(first.History().Messages())
	waitTask(t, m, id)

	record := first.History().Messages()
	second := parent(pygent.WithHistory(chat.NewHistory(record[:len(record)-1]...)))
	_, err = second.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, id, startedTask(second.History().Messages()))
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 1, all[0].Runs)
}

func TestResumedCallsShowNoMoreThanOthers(t *testing.T) {
	t.Parallel()
	look := pygent.Tool{Name: "look", Description: "Looks", ReadOnly: true, Idempotent: true,
		Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "here", Images: []string{"data:image/png;base64," + strings.Repeat("A", 5<<20)}}, nil
		}}
	calls := pygent.Message{Role: chat.RoleAssistant, ToolCalls: []pygent.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}, {ID: "b", Name: "look", Arguments: "{}"}}}
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(look), pygent.WithHistory(chat.NewHistory(chat.UserMessage("go"), calls)))
	_, err := agent.Resume(t.Context())
	require.NoError(t, err)
	sent := model.Requests()[0].Messages
	require.Len(t, sent[len(sent)-1].Parts, 2, "a text and one image")
	require.Contains(t, sent[len(sent)-2].Content, "too large to be shown beside the others")
}

// Who resumes knows what runs again.
func TestResumeNamesWhatRunsAgain(t *testing.T) {
	t.Parallel()
	open := chat.NewHistory(chat.UserMessage("go"), chat.AssistantMessage("",
		recordedCall("a", "write_file", `{"path":"notes.txt","content":"x"}`), recordedCall("b", "bash", `{"cmd":"make deploy"}`)))
	agent := newAgent(t, pygenttest.NewScriptedModel(stop), pygent.WithHistory(open))
	const again = "/resume repeats these interrupted calls: write notes.txt"
	require.Equal(t, []string{again}, agent.FaceSession().Notices)
	result, err := agent.RunCommand(t.Context(), "/resume", nil)
	require.NoError(t, err)
	require.True(t, result.Resume)
	require.Equal(t, again+"\n", result.Output)
	_, err = agent.Resume(t.Context())
	require.NoError(t, err)
	require.Empty(t, agent.FaceSession().Notices)
	result, err = agent.RunCommand(t.Context(), "/resume", nil)
	require.NoError(t, err)
	require.Empty(t, result.Output)
}

// historiesIn are the ways to open a history again, by what keeps it.
func historiesIn() map[string]func(t *testing.T) func() *pygent.History {
	return map[string]func(t *testing.T) func() *pygent.History{
		"file": func(t *testing.T) func() *pygent.History {
			path := filepath.Join(t.TempDir(), "h.json")
			return func() *pygent.History { return testkit.OpenHistory(t, path) }
		},
		"store": func(t *testing.T) func() *pygent.History {
			store := &pygenttest.MemoryStore{}
			return func() *pygent.History {
				h, err := chat.LoadHistory(t.Context(), store)
				require.NoError(t, err)
				return h
			}
		},
	}
}

// A resumed session sends what the dead one would have sent.
func TestAResumedSessionSendsTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for name, open := range historiesIn() {
		t.Run(name, func(t *testing.T) {
			again := open(t)
			server := worker(t, 70, pygenttest.Text("I did a lot, and all of it is well."))
			history := again()
			agent := newAgentOn(t, nowhere{}, testkit.NewModel(t, openai.BaseURL(server.URL())), pygent.WithHistory(history),
				pygent.WithTools(testkit.Spill(6_000)), pygent.WithContextWindow(24_000))
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

// What the provider counted is stored, so that a session that is resumed compacts before the
// same message as one that was never closed.
func TestAResumedSessionCompactsBeforeTheSameMessage(t *testing.T) {
	t.Parallel()
	unbroken := turnsWithCompaction(t, false, historiesIn()["store"](t))
	require.Greater(t, len(unbroken), 1)
	for name, open := range historiesIn() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, unbroken, turnsWithCompaction(t, true, open(t)))
		})
	}
}

// turnsWithCompaction plays a conversation with a server that counts a token for two bytes. It
// returns the turns that begin with a compaction.
func turnsWithCompaction(t *testing.T, resumed bool, open func() *pygent.History) (turns []int) {
	model := pygenttest.NewScriptedModel(pygenttest.Decide(func(r *pygent.ChatRequest) pygenttest.Reply {
		return pygenttest.TextAndCalls(strings.Repeat("word ", 500), pygenttest.Call("stop", map[string]any{"summary": "done"})).
			WithUsage(pygent.Usage{PromptTokens: int64(len(jsonOf(t, r)) / 2), CompletionTokens: 1})
	})).RepeatLast()
	all, collect := compactions()
	begin := func() *pygent.Agent {
		return newAgentOn(t, nowhere{}, model, pygent.WithModelName("m"), pygent.WithHistory(open()), pygent.WithContextWindow(24_000), collect)
	}
	agent := begin()
	for turn := range 30 {
		before := len(*all)
		_, err := agent.RunUntilStop(t.Context(), fmt.Sprint("task ", turn))
		require.NoError(t, err)
		if len(*all) > before {
			turns = append(turns, turn)
		}
		if resumed {
			require.NoError(t, agent.Close())
			require.NoError(t, agent.History().Close())
			agent = begin()
		}
	}
	return turns
}

// speaks is a way to speak to a server, of which each has its own rules.
type speaks struct {
	provider pygenttest.Provider
	api      openai.Protocol
	whole    bool // answers are not streamed
}

func (s speaks) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s whole=%v", s.provider, s.api, s.whole))
}

// model returns a model that speaks to a server in this way, and knows nothing of it.
func (s speaks) model(t *testing.T, server *pygenttest.Server) pygent.Model {
	m := testkit.NewModel(t, openai.BaseURL(server.URL()), openai.API(s.api))
	if s.whole {
		return pygent.ModelFunc(m.Chat)
	}
	return m
}

func allWays() (all []speaks) {
	for _, whole := range []bool{false, true} {
		for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
			all = append(all, speaks{provider, openai.Chat, whole})
		}
		all = append(all, speaks{"", openai.Responses, whole})
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
			agentOf := func(entries ...chat.HistoryEntry) *pygent.Agent {
				store := &pygenttest.MemoryStore{}
				require.NoError(t, store.Append(t.Context(), entries...))
				history, err := chat.LoadHistory(t.Context(), store)
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
