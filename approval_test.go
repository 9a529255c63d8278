package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/pygenttest"
)

// asked collects the names of the tools for which approval was requested.
type asked struct {
	mu    sync.Mutex
	names []string
}

func (a *asked) approve(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = append(a.names, r.Call.Name)
	return pygent.Decision{Allow: true}, nil
}

func TestWhichCallsAreAskedAbout(t *testing.T) {
	t.Parallel()
	tools := pygent.WithTools(
		plainTool("reads", func(t *pygent.Tool) { t.ReadOnly = true }),
		plainTool("writes", nil),
		plainTool("careful", func(t *pygent.Tool) { t.ReadOnly, t.NeedsApproval = true, true }))
	calls := pygenttest.Calls(
		pygenttest.Call("reads", nil), pygenttest.Call("writes", nil), pygenttest.Call("careful", nil), callBash("true"),
		pygenttest.Call("write_file", map[string]any{"path": "a", "content": "b"}),
		pygenttest.Call("download_file", map[string]any{"path": "a"}),
		pygenttest.Call("job_list", nil), pygenttest.Call("list_personas", nil), pygenttest.Call("task_status", nil),
		stop)
	for _, tt := range []struct {
		name string
		opts []pygent.Option
		want []string
	}{
		{"approval alone", nil, []string{"writes", "careful", "bash", "write_file"}},
		{"for some", []pygent.Option{pygent.WithApprovalFor("writes", "reads")}, []string{"reads", "writes", "careful"}},
		{"for all", []pygent.Option{pygent.WithApprovalFor("*")}, []string{"reads", "writes", "careful", "bash", "write_file", "download_file", "job_list", "list_personas", "task_status", "stop"}},
		{"not for bash", []pygent.Option{pygent.WithConfirmBash(false)}, []string{"writes", "careful", "write_file"}},
		{"for some and bash", []pygent.Option{pygent.WithApprovalFor("writes"), pygent.WithConfirmBash(true)}, []string{"writes", "careful", "bash", "write_file"}},
		{"for bash in spite of", []pygent.Option{pygent.WithApprovalFor("bash"), pygent.WithConfirmBash(false)}, []string{"careful", "bash"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a asked
			agent := newAgent(t, pygenttest.NewScriptedModel(calls), append(tt.opts, tools, pygent.WithApproval(a.approve))...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.want, a.names)
		})
	}
}

// TestWhatIsApprovedIsWhatRuns uses arguments that JSON parsers read in
// different ways.
func TestWhatIsApprovedIsWhatRuns(t *testing.T) {
	t.Parallel()
	call := pygent.ToolCall{ID: "a", Name: "bash", Arguments: `{"cmd":"echo shown","cmd":"echo run"}`}
	replies := []pygent.Message{chat.AssistantMessage("", call), chat.AssistantMessage("done")}
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		m := replies[0]
		replies = replies[1:]
		return &pygent.ChatResponse{Message: m}, nil
	})
	var approved string
	agent := newAgent(t, model, pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		approved = r.Call.Arguments
		return pygent.Decision{Allow: true}, nil
	}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.JSONEq(t, `{"cmd":"echo run"}`, approved)
	require.NotContains(t, approved, "shown")
	require.Contains(t, results(agent)[0], "$ echo run\nrun\n")
}

func TestApprovalRulesHoldForTasks(t *testing.T) {
	t.Parallel()
	var a asked
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		reply := pygent.ToolCall{ID: "c", Name: "bash", Arguments: `{"cmd":"true"}`}
		if req.Messages[len(req.Messages)-1].Role == chat.RoleTool {
			reply = pygent.ToolCall{ID: "s", Name: "stop", Arguments: `{}`}
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, ToolCalls: []pygent.ToolCall{reply}}}, nil
	})
	for name, opts := range map[string][]pygent.Option{
		"the agent's": {pygent.WithApproval(a.approve)},
		"the tasks'":  {pygent.TaskApproval(a.approve)},
	} {
		t.Run(name, func(t *testing.T) {
			a.names = nil
			agent := newAgent(t, model, opts...)
			id, err := agent.Tasks().StartTask(t.Context(), "go", agent.Runtime())
			require.NoError(t, err)
			status, err := agent.Tasks().Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, pygent.TaskFinished, status.State)
			a.mu.Lock()
			defer a.mu.Unlock()
			require.Equal(t, []string{"bash"}, a.names)
		})
	}
}

func TestNamesOfNoToolAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opt  pygent.Option
		want string
	}{
		{pygent.WithApprovalFor("bahs"), `tools to be approved: unknown tool "bahs", did you mean bash?`},
		{pygent.WithDisabledTools("bash", "raed_image"), `tools disabled: unknown tool "raed_image", did you mean read_image?`},
		{pygent.WithDisabledTools("nothing_like_it"), `tools disabled: unknown tool "nothing_like_it"; the tools are: bash, `},
	} {
		_, err := pygent.New(pygent.WithRuntime(nowhere{}), pygent.WithModel(pygenttest.NewScriptedModel()), tt.opt)
		require.ErrorIs(t, err, pygent.ErrUnknownTool)
		require.ErrorContains(t, err, tt.want)
	}
	r, err := pygent.NewRegistry(plainTool("mine", nil))
	require.NoError(t, err)
	r.Disable("later")
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithRegistry(r), pygent.WithTools(plainTool("other", nil)),
		pygent.WithApprovalFor("mine", "other", "bash", "*"), pygent.WithDisabledTools("other", "bash", "later"))
	require.Equal(t, []string{"mine"}, toolNames(agent.Tools()))
}

func TestTasksOfAnAgentThatRemovedAToolStart(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(stop), pygent.WithTools(plainTool("mine", nil)), pygent.WithApprovalFor("mine"))
	require.NoError(t, agent.Tools().Remove("mine"))
	id, err := agent.Tasks().StartTask(t.Context(), "go", agent.Runtime())
	require.NoError(t, err)
	status, err := agent.Tasks().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, status.State)
}

func TestBannedCommandsAndApplications(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(
		callBash("echo do not rm -rf"), callBash("ls && /bin/rm -fr x"), callBash("$X"), callBash("which curl"), callBash("if"), stop), stop),
		pygent.WithBannedCommands("rm -rf"), pygent.WithBannedApps("curl"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	got := results(agent)
	require.Contains(t, got[0], "do not rm -rf")
	require.Equal(t, `error: denied: the command "rm -rf" is banned here`, got[1])
	require.Equal(t, `error: denied: some commands are banned here, and it cannot be told what $X runs; write the name of the command out`, got[2])
	require.Equal(t, `error: denied: the application "curl" is banned here`, got[3])
	require.Contains(t, got[4], "does not parse")

	for _, opt := range []pygent.Option{pygent.WithBannedCommands(" "), pygent.WithBannedApps("two words")} {
		_, err := pygent.New(pygent.WithRuntime(nowhere{}), pygent.WithModel(pygenttest.NewScriptedModel()), opt)
		require.ErrorContains(t, err, "want the name of a program")
	}
}

func TestTimeOfAPersonDoesNotCountAgainstTheStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := plainTool("slow", nil)
		slow.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			select {
			case <-time.After(40 * time.Second):
				return &pygent.ToolResult{Content: "done"}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		think := func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			time.Sleep(time.Hour)
			return pygent.Decision{Allow: true}, ctx.Err()
		}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("slow", nil)), pygenttest.Calls(pygenttest.Call("slow", nil), pygenttest.Call("slow", nil))),
			pygent.WithTools(slow), pygent.WithApproval(think))
		begin := time.Now()
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.StepTimeout(time.Minute))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusTimeout, result.Status)
		require.Equal(t, "the step took longer than 1m0s (StepTimeout)", result.Reason)
		require.Equal(t, []string{"done", "done"}, results(agent)[:2])
		require.Equal(t, 2, result.Steps, "40 seconds fit, and twice 40 do not")
		require.Equal(t, 3*time.Hour+100*time.Second, time.Since(begin))
	})
}

func TestTimeOfAPersonCountsAgainstTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			<-ctx.Done()
			return pygent.Decision{}, context.Cause(ctx)
		}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("writes", nil)), pygent.WithTools(plainTool("writes", nil)), pygent.WithApproval(wait))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.StepTimeout(time.Second), pygent.MaxTime(time.Minute))
		require.NoError(t, err)
		require.Equal(t, "the run took longer than 1m0s (MaxTime)", result.Reason)
		require.Equal(t, "not run: the run took too long", results(agent)[0])
	})
}

func TestStepStandsStillWhileATaskAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		think := func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			select {
			case <-time.After(time.Hour):
				return pygent.Decision{Allow: true}, nil
			case <-ctx.Done():
				return pygent.Decision{}, ctx.Err()
			}
		}
		write := plainTool("writes", nil)
		model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			did := func(name string) bool {
				return slices.ContainsFunc(req.Messages, func(m pygent.Message) bool {
					return slices.ContainsFunc(m.ToolCalls, func(c pygent.ToolCall) bool { return c.Name == name })
				})
			}
			next := pygent.ToolCall{ID: "id" + time.Now().String(), Name: "stop", Arguments: "{}"}
			switch task := slices.ContainsFunc(req.Messages, func(m pygent.Message) bool { return m.Content == "the task" }); {
			case task && !did("writes"):
				next.Name = "writes"
			case task:
			case !did("delegate_task"):
				next.Name, next.Arguments = "delegate_task", `{"prompt":"the task"}`
			case !did("task_status"):
				next.Name, next.Arguments = "task_status", `{"wait":600}`
			}
			return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, ToolCalls: []pygent.ToolCall{next}}}, nil
		})
		agent := newAgentOn(t, forkable{}, model, pygent.WithTools(write), pygent.WithApproval(think), pygent.WithApprovalFor("writes"),
			pygent.TaskDefaults(pygent.Limits{MaxTime: 10 * time.Hour, StepTimeout: 5 * time.Minute}))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.StepTimeout(5*time.Minute))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
		tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
		require.NoError(t, err)
		require.NotEqual(t, pygent.TaskFailed, tasks[0].State)
	})
}

// "Always" covers the call as it ran, and nothing near it.
func TestAlwaysCoversTheVeryCommandOnly(t *testing.T) {
	t.Parallel()
	var asked []string
	model := pygenttest.NewScriptedModel(
		callBash("echo 1"), callBash("echo 1"), pygenttest.Call("bash", map[string]any{"cmd": "echo 1", "background": true}),
		callBash("echo old"), callBash("echo new"), callBash("echo old"), stop, stop)
	agent := newAgent(t, model, pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		asked = append(asked, r.Call.Arguments)
		d := pygent.Decision{Allow: true, Session: true}
		if len(asked) == 3 {
			d.Arguments = []byte(`{"cmd":"echo new"}`)
		}
		return d, nil
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, asked, 4)
	require.Contains(t, asked[1], `"background":true`, "in the background it is another one")
	require.Equal(t, `{"cmd":"echo old"}`, asked[2])
	require.Equal(t, `{"cmd":"echo old"}`, asked[3], "the changed arguments were allowed, not these")
}

// What a container writes harms no more than what its commands do, so that where only
// commands are asked about, nobody is asked about a file, even one that git obeys.
func TestFilesOfAContainerAreNoCommands(t *testing.T) {
	t.Parallel()
	var a asked
	rt := runtimeCases()[1].New(t, pygent.WithWorkspace(t.TempDir()))
	write := func(path string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": "x"})
	}
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(write("plain"), write(".git/config"), stop),
		pygent.WithApproval(a.approve), pygent.WithApprovalFor("bash"), pygent.WithConfirmBash(true))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Empty(t, a.names)
	require.Len(t, results(agent), 3)
	require.NotContains(t, strings.Join(results(agent), "\n"), "denied")
}

// "Always" never covers a file that git obeys, also where a container writes it.
func TestAlwaysNeverCoversWhatGitObeys(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases()[:2] {
		t.Run(kind.Name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755))
			paths := []string{"plain", ".git/config", "sub/.git/hooks/post-checkout", ".GIT/info"}
			if kind.Name == "local" {
				require.NoError(t, os.Symlink(".git", filepath.Join(dir, "link")))
				paths = append(paths, "link/config")
			}
			var replies []pygenttest.Reply
			for _, path := range paths {
				for range 2 {
					replies = append(replies, pygenttest.Call("write_file", map[string]any{"path": path, "content": path}))
				}
			}
			asked, obeyed := map[string][]string{}, map[string]bool{}
			agent := newAgentOn(t, kind.New(t, pygent.WithWorkspace(dir)), pygenttest.NewScriptedModel(append(replies, stop)...),
				pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
					path := r.Changes[0].Path
					asked[path] = append(asked[path], r.Session)
					obeyed[path] = r.Why == approval.WritesGit
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(20))
			require.NoError(t, err)
			want := map[string][]string{"plain": {"all writes to this file"}}
			for _, path := range paths[1:] {
				want[path] = []string{"", ""}
			}
			require.Equal(t, want, asked)
			for _, path := range paths {
				require.Equal(t, path != "plain", obeyed[path], "%s: people are told", path)
			}
		})
	}
}

// deciding returns options of an agent whose bash calls are decided by f.
func deciding(f func(pygent.ApprovalRequest) pygent.Decision) []pygent.Option {
	return []pygent.Option{pygent.WithApprovalFor("bash"), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		return f(r), nil
	})}
}

func TestApprovalIsToldWhatItDecidesAbout(t *testing.T) {
	t.Parallel()
	var got pygent.ApprovalRequest
	var info pygent.CallInfo
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Well."), callBash("echo hi"), stop), pygent.WithID("lead"), pygent.WithApprovalFor("bash"),
		pygent.WithApproval(func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			got = r
			info, _ = pygent.CallFrom(ctx)
			return pygent.Decision{Allow: true}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "bash", got.Call.Name)
	require.JSONEq(t, `{"cmd":"echo hi"}`, got.Call.Arguments)
	require.Equal(t, "lead", got.Agent)
	require.Empty(t, got.Task)
	require.Equal(t, 2, got.Step)
	require.Equal(t, "local", got.Runtime.Kind)
	require.Equal(t, "bash", got.Tool.Name)
	require.Contains(t, got.Tool.Description, "Run a shell command")
	require.Equal(t, "calls of bash need approval here", got.Why)
	require.Equal(t, "this exact command", got.Session)
	require.Equal(t, pygent.CallInfo{Agent: "lead", Step: 2, Call: got.Call}, info)
}

func TestEventsTellOfApprovals(t *testing.T) {
	t.Parallel()
	by := func(d pygent.Decision) []pygent.Option {
		return deciding(func(pygent.ApprovalRequest) pygent.Decision { return d })
	}
	for _, tt := range []struct {
		name string
		opts []pygent.Option
		want []string
	}{
		{"not needed", nil, []string{"tool_call", "tool_start", "tool_done ok"}},
		{"allowed", by(pygent.Decision{Allow: true, By: "Ada"}), []string{"tool_call", "approval", `decision true by "Ada"`, "tool_start", "tool_done ok"}},
		{"denied", by(pygent.Decision{Reason: "no"}), []string{"tool_call", "approval", `decision false by ""`, "tool_done denied"}},
		{"nobody there", []pygent.Option{pygent.WithApprovalFor("bash")}, []string{"tool_call", `decision false by "nobody"`, "tool_done denied"}},
		{"banned", append(by(pygent.Decision{Allow: true}), pygent.WithBannedCommands("echo")), []string{"tool_call", "tool_done denied"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo hi"), stop), tt.opts...)
			got, _ := told(t, agent)
			require.Equal(t, tt.want, got[:len(tt.want)])
		})
	}
}

func TestApprovalMayChangeTheArguments(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo mine"), stop), deciding(func(pygent.ApprovalRequest) pygent.Decision {
		return pygent.Decision{Allow: true, Arguments: json.RawMessage(` {"cmd":"echo yours"}`)}
	})...)
	var started string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		switch e.Type {
		case pygent.EventDecision:
			require.JSONEq(t, `{"cmd":"echo yours"}`, string(e.Decision.Arguments))
		case pygent.EventToolStart:
			if e.Call.Name == "bash" {
				started = e.Call.Arguments
			}
		}
	}
	require.JSONEq(t, `{"cmd":"echo yours"}`, started)
	require.Equal(t, "$ echo yours\nyours\n\n[the user changed the arguments of this call; it ran with {\"cmd\":\"echo yours\"}]", results(agent)[0])
}

func TestChangedArgumentsAreCheckedLikeTheModels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ arguments, want string }{
		"no JSON":        {`{"cmd":`, "the arguments are not a JSON object"},
		"no object":      {`[1]`, "the arguments are not a JSON object"},
		"more than one":  {`{"cmd":"ls"} {}`, "text after the JSON object"},
		"a wrong field":  {`{"command":"ls"}`, "do not fit"},
		"a wrong type":   {`{"cmd":7}`, "do not fit"},
		"a banned one":   {`{"cmd":"rm -rf /"}`, `"rm" is banned here`},
		"bytes":          {"\xff\xfe", "the arguments are not a JSON object"},
		"the same again": {`{"cmd":"echo mine"}`, ""},
		"white space":    {" \n", ""},
		"a name twice":   {`{"cmd":"echo mine","cmd":"rm x"}`, `"rm" is banned here`},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(deciding(func(pygent.ApprovalRequest) pygent.Decision {
				return pygent.Decision{Allow: true, Session: true, Arguments: json.RawMessage(tt.arguments)}
			}), pygent.WithBannedCommands("rm"))
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo mine"), stop), opts...)
			for e, err := range agent.Events(t.Context(), "go") {
				require.NoError(t, err)
				_, err = json.Marshal(e)
				require.NoError(t, err)
			}
			if tt.want == "" {
				require.Equal(t, "$ echo mine\nmine\n", results(agent)[0])
				return
			}
			require.Contains(t, results(agent)[0], "error: denied: the arguments from the approval are invalid: ")
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}

func TestDecisionForTheSessionIsNarrow(t *testing.T) {
	t.Parallel()
	write := func(path string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": "x"})
	}
	deploy := func(to string) pygenttest.Reply { return pygenttest.Call("deploy", map[string]any{"to": to}) }
	for _, tt := range []struct {
		name  string
		calls []pygenttest.Reply
		asked int
	}{
		{"the same command", []pygenttest.Reply{callBash("echo a"), callBash("echo a")}, 1},
		{"another command", []pygenttest.Reply{callBash("echo a"), callBash("echo a; rm -rf /tmp/x")}, 2},
		{"another directory", []pygenttest.Reply{callBash("ls"), pygenttest.Call("bash", map[string]any{"cmd": "ls", "cwd": "/"})}, 2},
		{"the same file", []pygenttest.Reply{write("a"), write("./a")}, 1},
		{"another file", []pygenttest.Reply{write("a"), write("b")}, 2},
		{"the same tool", []pygenttest.Reply{deploy("x"), deploy("y")}, 1},
		{"another tool", []pygenttest.Reply{deploy("x"), write("x")}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			agent := newAgent(t, pygenttest.NewScriptedModel(append(tt.calls, stop)...),
				pygent.WithTools(plainTool("deploy", func(t *pygent.Tool) {
					t.Parameters = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`)
				})),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			words, _ := told(t, agent)
			require.Equal(t, tt.asked, asked)
			require.Equal(t, tt.asked == 1, slices.Contains(words, `decision true by "rule"`))
		})
	}
}

func TestDenialForTheSessionIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo a"), callBash("echo a"), stop), deciding(func(pygent.ApprovalRequest) pygent.Decision {
		asked++
		return pygent.Decision{Session: true}
	})...)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, 2, asked)
}

// TestToolsUnderBuiltinNamesAreCoveredCallByCall has a program's own tools with
// other arguments than the built-in ones, and with the same.
func TestToolsUnderBuiltinNamesAreCoveredCallByCall(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][2]map[string]any{
		"bash":                   {{"what": "a"}, {"what": "b"}},
		"bash of a command":      {{"cmd": "x", "what": "a"}, {"cmd": "x", "what": "b"}},
		"bash alike":             {{"cmd": "x", "timeout": 1}, {"cmd": "x", "timeout": 2}},
		"write_file":             {{"what": "a"}, {"what": "b"}},
		"write_file with a path": {{"path": "p", "what": "a"}, {"path": "p", "what": "b"}},
		"write_file alike":       {{"path": "p", "content": "a"}, {"path": "p", "content": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			name, _, _ := strings.Cut(name, " ")
			own := plainTool(name, func(t *pygent.Tool) {
				t.Parameters = json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"},"cmd":{"type":"string"},
					"timeout":{"type":"integer"},"path":{"type":"string"},"content":{"type":"string"}}}`)
			})
			a, b := pygenttest.Call(name, calls[0]), pygenttest.Call(name, calls[1])
			agent := newAgent(t, pygenttest.NewScriptedModel(a, b, b, stop), pygent.WithTools(own),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, 2, asked)
		})
	}
}

func TestDecisionForTheSessionHoldsForTasks(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(callBash("echo same")), always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", callBash("echo same"), callBash("echo other"), stop)
	var mu sync.Mutex
	var asked []string
	agent := newAgent(t, model, deciding(func(r pygent.ApprovalRequest) pygent.Decision {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, fmt.Sprintf("%t %s", r.Task != "" && r.AsksManager, r.Call.Arguments))
		return pygent.Decision{Allow: true, Session: true}
	})...)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{`false {"cmd":"echo same"}`, `true {"cmd":"echo other"}`}, asked)
}

func TestCancelWhileAskedIsACancelOfTheRun(t *testing.T) {
	t.Parallel()
	for round := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var result pygent.ToolResult
		allow := round%2 == 0
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(callBash("echo hi")), pygent.WithApprovalFor("bash"),
			pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventToolDone {
					result = *e.Output
				}
			}),
			pygent.WithApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
				go cancel()
				if round%3 == 0 {
					<-ctx.Done()
				}
				return pygent.Decision{Allow: allow, Reason: "the dialog was closed"}, ctx.Err()
			}))
		_, err := agent.RunUntilStop(ctx, "go")
		if round%3 == 0 {
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, pygent.OutcomeInterrupted, result.Outcome)
			require.Equal(t, "not run: context canceled", results(agent)[0])
		}
		if result.Outcome == pygent.OutcomeInterrupted || result.Outcome == pygent.OutcomeNotRun {
			require.NotContains(t, results(agent)[0], "denied")
		}
		cancel()
	}
}

func TestCancelOfATaskThatIsAskedAbout(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("true")), pygent.TaskAgents(pygent.WithApprovalFor("bash")),
		pygent.TaskApproval(func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			info, ok := pygent.CallFrom(ctx)
			if !ok || info.Task != r.Task || info.Call.Name != "bash" {
				return pygent.Decision{}, errors.New("the context is not that of the call")
			}
			close(asked)
			<-ctx.Done()
			return pygent.Decision{Reason: "too late"}, nil
		}))
	id := startTask(t, m, "go", localRuntime(t))
	<-asked
	require.NoError(t, m.Cancel(t.Context(), id))
	require.Equal(t, pygent.TaskCancelled, waitTask(t, m, id).State)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, "not run: ")
	require.NotContains(t, messages[3].Content, "denied")
}

// TestTasksAndTheirParentAskAtOnce has two tasks ask while the agent itself
// asks.
func TestTasksAndTheirParentAskAtOnce(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(delegate("One")), always(delegate("Two")), always(callBash("echo lead")),
		always(pygenttest.Call("task_status", map[string]any{"wait": 60})), always(pygenttest.Call("task_status", map[string]any{"wait": 60})), always(stop))).RepeatLast().
		On("One", callBash("echo one"), stop).On("Two", callBash("echo two"), stop)
	var mu sync.Mutex
	var asked []string
	atOnce := make(chan struct{})
	agent := newAgent(t, model, deciding(func(r pygent.ApprovalRequest) pygent.Decision {
		mu.Lock()
		asked = append(asked, r.Call.Arguments)
		n := len(asked)
		mu.Unlock()
		if n == 2 {
			close(atOnce) // the agent and a task
		}
		<-atOnce
		return pygent.Decision{Allow: true, Arguments: json.RawMessage(strings.Replace(r.Call.Arguments, "echo ", "echo it is ", 1))}
	})...)
	var outputs []string
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventToolDone && e.Call.Name == "bash" {
			mu.Lock()
			defer mu.Unlock()
			outputs = append(outputs, strings.SplitN(e.Output.Content, "\n", 3)[1])
		}
	}))
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Len(t, asked, 3)
	require.Subset(t, []string{"it is lead", "it is one", "it is two"}, outputs)
	require.Contains(t, outputs, "it is lead")
}

func TestTaskWithAnApprovalOfItsOwnAsksNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own, others int
		m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo hi"), stop),
			pygent.TaskAgents(deciding(func(r pygent.ApprovalRequest) pygent.Decision {
				own++
				time.Sleep(time.Minute) // others would be asked meanwhile
				return pygent.Decision{Allow: !r.AsksManager}
			})...),
			pygent.TaskApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
				others++
				return pygent.Decision{}, nil
			}))
		status, err := m.Wait(t.Context(), startTask(t, m, "go", hollow{}))
		require.NoError(t, err)
		require.Equal(t, pygent.TaskFinished, status.State)
		require.Equal(t, 1, own)
		require.Zero(t, others)
		require.NoError(t, m.Close())
	})
}

// What an approval tells of its progress comes before the call's result, also
// when the call is denied, or gets other arguments.
func TestProgressOfAnApprovalEndsWithTheCall(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]pygent.Decision{
		"allowed": {Allow: true},
		"changed": {Allow: true, Arguments: json.RawMessage(`{"to":"b"}`)},
		"denied":  {Reason: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				deploy := plainTool("deploy", func(t *pygent.Tool) {
					t.Parameters = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`)
				})
				agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("deploy", map[string]any{"to": "a"}), stop), pygent.WithTools(deploy),
					pygent.WithApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
						pygent.Progress(ctx, pygent.ProgressInfo{Text: "first"})
						pygent.Progress(ctx, pygent.ProgressInfo{Text: "last"}) // waits for a tenth of a second
						go func() {
							time.Sleep(time.Hour)
							pygent.Progress(ctx, pygent.ProgressInfo{Text: "late"})
						}()
						return d, nil
					}),
					pygent.OnEvent(func(e pygent.Event) {
						switch {
						case e.Type == pygent.EventProgress:
							told = append(told, e.Progress.Text)
						case e.Type == pygent.EventToolDone && e.Call.Name == "deploy":
							told = append(told, "done")
						}
					}))
				_, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				time.Sleep(2 * time.Hour)
				require.Equal(t, "done", told[len(told)-1])
				require.Equal(t, "last", told[len(told)-2])
			})
		})
	}
}

// A decision for the session about a tool of the program's own under a built-in
// name covers the very same call only.
func TestASessionDecisionCoversNoOtherArguments(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][2]map[string]any{
		"bash":       {{"cmd": "deploy", "host": "staging"}, {"cmd": "deploy", "host": "production"}},
		"write_file": {{"path": "a", "content": "x", "host": "staging"}, {"path": "a", "content": "x", "host": "production"}},
	} {
		var asked []string
		approve := func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			asked = append(asked, r.Call.Arguments)
			return pygent.Decision{Allow: true, Session: true}, nil
		}
		own := pygent.Tool{Name: name, Description: "Elsewhere",
			Run:        func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return nil, nil },
			Parameters: json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"},"path":{"type":"string"},"content":{"type":"string"},"host":{"type":"string"}}}`)}
		model := pygenttest.NewScriptedModel(pygenttest.Call(name, calls[0]), pygenttest.Call(name, calls[1]), pygenttest.Call(name, calls[1]), stop)
		agent := quick(t, model, pygent.WithTools(own), pygent.WithApproval(approve))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Len(t, asked, 2, name)
	}
}

// isolates panics when it is asked whether it isolates.
type isolates struct{ noRuntime }

func (isolates) Isolated() bool { panic("unknown") }

func TestARuntimeWhoseIsolationPanics(t *testing.T) {
	t.Parallel()
	require.NotPanics(t, func() {
		agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "a", "content": "b"}), stop), pygent.WithRuntime(isolates{}))
		_, _ = agent.RunUntilStop(t.Context(), "go")
	})
}

// A decision for the session does not cover another tool that gets the name of
// the one that was decided about.
func TestASessionDecisionCoversNoOtherTool(t *testing.T) {
	t.Parallel()
	describes := func(text string) func(*pygent.Tool) {
		return func(t *pygent.Tool) { t.Description = text }
	}
	for name, change := range map[string]func(*pygent.Tool){
		"the same":    describes("Deploys to staging."),
		"description": describes("Deploys to production."),
		"kind":        func(t *pygent.Tool) { t.Description, t.Kind = "Deploys to staging.", pygent.ToolRun },
		"reads only":  func(t *pygent.Tool) { t.Description, t.ReadOnly, t.NeedsApproval = "Deploys to staging.", true, true },
		"parameters": func(t *pygent.Tool) {
			t.Description, t.Parameters = "Deploys to staging.", json.RawMessage(`{"type":"object","properties":{"host":{"type":"string"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil), stop),
				pygent.WithTools(plainTool("deploy", describes("Deploys to staging."))),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.NoError(t, agent.Tools().Add(plainTool("deploy", change)))
			_, err = agent.RunUntilStop(t.Context(), "again")
			require.NoError(t, err)
			want := 2
			if name == "the same" {
				want = 1
			}
			require.Equal(t, want, asked)
		})
	}
}

// A tool under a built-in name that takes the same arguments does something
// else, and gets no decision for the built-in one.
func TestADecisionForABuiltinToolCoversNoOther(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{"bash": {"cmd": "ls"}, "write_file": {"path": "a", "content": "b"}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call(name, args), pygenttest.Call(name, args), stop, pygenttest.Call(name, args), stop),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, 1, asked)
			var same pygent.Tool
			for _, tool := range agent.Tools().Tools() {
				if tool.Name == name {
					same = tool
				}
			}
			other := plainTool(name, func(t *pygent.Tool) { t.Description, t.Parameters = "Elsewhere.", same.Parameters })
			require.NoError(t, agent.Tools().Add(other))
			_, err = agent.RunUntilStop(t.Context(), "again")
			require.NoError(t, err)
			require.Equal(t, 2, asked)
		})
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	no := errors.New("the line is dead")
	decide := func(d pygent.Decision, err error) pygent.Option {
		return pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return d, err })
	}
	tests := []struct {
		name string
		opts []pygent.Option
		want string
	}{
		{"nobody to ask", nil, "needs approval, and nobody is here"},
		{"allowed", []pygent.Option{decide(pygent.Decision{Allow: true}, nil)}, "hi"},
		{"denied", []pygent.Option{decide(pygent.Decision{}, nil)}, "denied by the user"},
		{"denied with a reason", []pygent.Option{decide(pygent.Decision{Reason: "too risky"}, nil)}, "denied: too risky"},
		{"an error is no", []pygent.Option{decide(pygent.Decision{Allow: true}, no)}, "the line is dead"},
		{"a panic is no", []pygent.Option{pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { panic("x") })}, "denied"},
		{"banned in spite of approval", []pygent.Option{decide(pygent.Decision{Allow: true}, nil), pygent.WithBannedCommands("echo")}, `"echo" is banned`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("true\necho hi"), stop), append(tt.opts, pygent.WithApprovalFor("bash"))...)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}
