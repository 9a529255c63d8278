package pygent_test

import (
	"context"
	"encoding/json"
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

func plainTool(name string, change func(*pygent.Tool)) pygent.Tool {
	t := pygent.Tool{Name: name, Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: name}, nil
	}}
	if change != nil {
		change(&t)
	}
	return t
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
	replies := []pygent.Message{pygent.AssistantMessage("", call), pygent.AssistantMessage("done")}
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
		if req.Messages[len(req.Messages)-1].Role == pygent.RoleTool {
			reply = pygent.ToolCall{ID: "s", Name: "stop", Arguments: `{}`}
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: pygent.RoleAssistant, ToolCalls: []pygent.ToolCall{reply}}}, nil
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
			return &pygent.ChatResponse{Message: pygent.Message{Role: pygent.RoleAssistant, ToolCalls: []pygent.ToolCall{next}}}, nil
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

// forkable is a runtime that makes runtimes for tasks.
type forkable struct{ nowhere }

func (forkable) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return nowhere{}, nil }

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
					obeyed[path] = strings.Contains(r.Why, "git obeys")
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(20))
			require.NoError(t, err)
			want := map[string][]string{"plain": {"writes to this file"}}
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
