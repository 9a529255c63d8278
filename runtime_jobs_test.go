package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

func TestJobsRunInTheBackground(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		jobs := r.(pygent.JobRunner)
		job, err := jobs.StartJob(t.Context(), "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended; exit 3", pygent.BashEnv("X=y"))
		require.NoError(t, err)
		require.True(t, job.Running)
		require.Equal(t, -1, job.ExitCode)
		first, err := jobs.JobOutput(t.Context(), job.ID, 0, 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, "begun\n", first.Text)
		list, err := jobs.Jobs(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		text, job := testkit.Collect(t, jobs, job.ID)
		require.Equal(t, "begun\nended\n", text)
		require.Equal(t, 3, job.ExitCode)
		_, err = jobs.JobOutput(t.Context(), "nope", 0, 0)
		require.ErrorIs(t, err, pygent.ErrUnknownJob)
	})
}

func TestKilledJobsLeaveNothing(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		jobs := r.(pygent.JobRunner)
		job, err := jobs.StartJob(t.Context(), "trap '' TERM; (trap '' TERM; while :; do echo x >>alive; sleep 0.05; done) & echo up; wait")
		require.NoError(t, err)
		_, err = jobs.JobOutput(t.Context(), job.ID, 0, 10*time.Second)
		require.NoError(t, err)
		job, err = jobs.KillJob(t.Context(), job.ID)
		require.NoError(t, err)
		require.False(t, job.Running)
		require.Zero(t, job.Processes)
		before := bash(t, r, "cat alive 2>/dev/null").Output
		require.Equal(t, before, bash(t, r, "sleep 0.2; cat alive 2>/dev/null").Output)
	})
}

func TestModelsRunJobs(t *testing.T) {
	t.Parallel()
	call := func(tool string, args map[string]any) pygenttest.Reply { return pygenttest.Call(tool, args) }
	agent := newAgent(t, pygenttest.NewScriptedModel(
		call("bash", map[string]any{"cmd": "echo up; sleep 600", "background": true}),
		call("job_output", map[string]any{"id": "job 1", "until": "up", "wait": 10}),
		call("job_list", nil),
		call("job_kill", map[string]any{"id": "1"}),
		call("job_output", map[string]any{"id": "9"}),
		stop))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	got := results(agent)
	require.Contains(t, got[0], "started job 1 in the background")
	require.Contains(t, got[1], "up\n[job 1 (echo up; sleep 600): running")
	require.Contains(t, got[1], "; the text was printed]")
	require.Contains(t, got[2], "job 1 (echo up; sleep 600): running")
	require.Contains(t, got[3], "killed by job_kill after ")
	require.Contains(t, got[4], "no such job: \"9\"; the jobs are: 1")
	for _, m := range agent.History().Messages() {
		require.NotContains(t, m.Content, "[job 1 (echo up; sleep 600): killed", "the model has seen the end")
	}
}

func TestWholeOutputStaysReadable(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", pygent.BashMaxOutput(1000))
		require.True(t, res.Truncated)
		require.NotEmpty(t, res.FullPath)
		require.Contains(t, res.String(), res.FullPath)
		require.Equal(t, "line 12345\n", bash(t, r, "sed -n 12346p "+res.FullPath).Output)
		require.Empty(t, bash(t, r, "ls -A").Output, "the file is outside the workspace")
	})
}

func TestServersAreReachable(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, r pygent.Runtime) {
		require.NoError(t, r.WriteFile(t.Context(), "index.html", []byte("served from inside")))
		_, err := r.(pygent.JobRunner).StartJob(t.Context(), "python3 -m http.server 8765 --bind 127.0.0.1")
		require.NoError(t, err)
		require.Zero(t, bash(t, r, "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8765))' 2>/dev/null; do sleep 0.05; done", pygent.BashTimeout(20*time.Second)).ExitCode)
	}
	get := func(t *testing.T, client *http.Client, url string) string {
		resp, err := client.Get(url)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	testEngine(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithPublish(address+":8765"))
	serve(t, r)
	dialed := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return r.(pygent.Dialer).Dial(ctx, 8765)
	}}}
	require.Equal(t, "served from inside", get(t, dialed, "http://inside/"))
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Equal(t, "served from inside", get(t, plain, "http://"+address+"/"))
	_, err = r.(pygent.Dialer).Dial(t.Context(), 9)
	require.ErrorContains(t, err, "9")
	require.NoError(t, r.Cleanup())
	_, err = net.Dial("tcp", address)
	require.Error(t, err)
}

func TestBadPortsAreErrors(t *testing.T) {
	t.Parallel()
	for _, ports := range []string{"", "0", "70000", "web", "80:", ":80:80:80"} {
		_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithPublish(ports))
		require.ErrorContains(t, err, "8080", ports)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = pygent.NewLocalRuntime(t.Context(), pygent.WithPublish(taken.Addr().String()+":1"))
	require.ErrorContains(t, err, "publish port 1")
}

// jobEvents collects what the events of an agent say of its jobs.
type jobEvents struct {
	mu    sync.Mutex
	told  []string
	ended chan struct{} // closed when no job runs any more
}

func (j *jobEvents) hear(e pygent.Event) {
	if e.Type != pygent.EventJobs {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var words []string
	running := false
	for _, job := range e.Jobs {
		words = append(words, fmt.Sprintf("%s %t", job.ID, job.Running))
		running = running || job.Running
	}
	j.told = append(j.told, strings.Join(words, ", "))
	if !running && j.ended != nil {
		close(j.ended)
		j.ended = nil
	}
}

func (j *jobEvents) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.told)
}

func TestEventsTellOfJobs(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		var heard jobEvents
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(callBash("true"), background("sleep 600"), callBash("true"),
			callBash("sleep 601 >/dev/null 2>&1 &"), pygenttest.Call("job_kill", map[string]any{"id": "2"}), pygenttest.Call("job_kill", map[string]any{"id": "1"}), stop),
			pygent.LendRuntime(r), pygent.OnEvent(heard.hear))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, []string{"1 true", "1 true, 2 true", "1 true, 2 false", "1 false, 2 false"}, heard.list())
		require.Len(t, agent.State().Jobs, 2)
	})
}

func TestEventsTellOfJobsThatEndByThemselves(t *testing.T) {
	t.Parallel()
	const untilGo = "while [ ! -e go ]; do sleep 0.02; done"
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		ended := make(chan struct{})
		heard := jobEvents{ended: ended}
		goAhead := plainTool("go_ahead", func(t *pygent.Tool) {
			t.Run = func(ctx context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				err := rt.WriteFile(ctx, "go", nil)
				select {
				case <-ended: // while the call goes on
				case <-ctx.Done():
				}
				return nil, err
			}
		})
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(background(untilGo), pygenttest.Call("go_ahead", nil), callBash("rm go"), background(untilGo), pygenttest.Text("Later."), pygenttest.Text("Done.")),
			pygent.LendRuntime(r), pygent.WithTools(goAhead), pygent.OnEvent(heard.hear))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, []string{"1 true", "1 false", "1 false, 2 true"}, heard.list())

		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		testkit.Collect(t, r.(pygent.JobRunner), "2")
		_, err = agent.RunUntilStop(t.Context(), "and now?", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, "1 false, 2 false", heard.list()[3], "the next run tells of what ended before it")
	})
}

// hasJobs is a caller's own runtime with background commands.
type hasJobs struct {
	hollow
	jobs func() ([]pygent.Job, error)
}

func (hasJobs) StartJob(context.Context, string, ...pygent.BashOption) (pygent.Job, error) {
	return pygent.Job{ID: "a", Running: true}, nil
}

func (h hasJobs) Jobs(context.Context) ([]pygent.Job, error) { return h.jobs() }

func (hasJobs) JobOutput(context.Context, string, int64, time.Duration) (pygent.JobOutput, error) {
	return pygent.JobOutput{}, nil
}

func (hasJobs) KillJob(context.Context, string) (pygent.Job, error) { return pygent.Job{}, nil }

func TestJobsOfARuntimeOfTheCallersOwn(t *testing.T) {
	t.Parallel()
	var heard jobEvents
	agent := newAgentOn(t, hollow{}, pygenttest.NewScriptedModel(callBash("true"), stop), pygent.OnEvent(heard.hear))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Empty(t, heard.list(), "a runtime without jobs")

	asked := 0
	var closed error
	list := []pygent.Job{{ID: "a", Running: true, ExitCode: -1}}
	rt := hasJobs{jobs: func() ([]pygent.Job, error) {
		asked++
		closed = agent.Close()
		switch asked {
		case 1:
			return list, nil
		case 2:
			return nil, errors.New("not now")
		}
		panic("oh no")
	}}
	agent = newAgentOn(t, rt, pygenttest.NewScriptedModel(pygenttest.Text("Hello."), callBash("true"), callBash("true"), pygenttest.Text("Done.")), pygent.OnEvent(heard.hear))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Zero(t, asked, "no command has run")
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, []string{"a true"}, heard.list())
	require.ErrorIs(t, closed, pygent.ErrInCallback)
	require.Equal(t, list, agent.State().Jobs)
}

// A runtime that ignores its context holds up one call, and not each.
func TestARuntimeThatDoesNotTellItsJobsIsAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		goOn := make(chan struct{})
		rt := hasJobs{jobs: func() ([]pygent.Job, error) {
			asked.Add(1)
			<-goOn
			return []pygent.Job{{ID: "a", Running: true}}, nil
		}}
		var heard jobEvents
		agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(callBash("1"), callBash("2"), callBash("3"), stop, callBash("4"), stop).RepeatLast(), pygent.OnEvent(heard.hear))
		began := time.Now()
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.EqualValues(t, 1, asked.Load())
		require.Less(t, time.Since(began), 10*time.Second)
		close(goOn)
		synctest.Wait()
		_, err = agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, []string{"a true"}, heard.list(), "it has answered, and is asked again")
	})
}

func TestJobsAreKnownBetweenRuns(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		var heard jobEvents
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(background("while [ ! -e go ]; do sleep 0.02; done; echo gone; exit 3"), pygenttest.Text("It runs.")),
			pygent.LendRuntime(r), pygent.OnEvent(heard.hear))
		jobs, err := agent.Jobs(t.Context())
		require.NoError(t, err)
		require.Empty(t, jobs)
		_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		told := agent.State()
		require.True(t, told.Jobs[0].Running)
		require.False(t, told.JobsAt.IsZero())

		jobs, err = agent.Jobs(t.Context())
		require.NoError(t, err)
		require.True(t, jobs[0].Running)
		require.Greater(t, jobs[0].Duration, told.Jobs[0].Duration)
		now := agent.State()
		require.Equal(t, jobs, now.Jobs, "also where there is nothing to tell")
		require.True(t, now.JobsAt.After(told.JobsAt))
		require.Equal(t, []string{"1 true"}, heard.list())

		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		testkit.Collect(t, r.(pygent.JobRunner), "1")
		jobs, err = agent.Jobs(t.Context())
		require.NoError(t, err)
		require.False(t, jobs[0].Running)
		require.Equal(t, 3, jobs[0].ExitCode)
		require.EqualValues(t, len("gone\n"), jobs[0].Printed)
		require.Equal(t, jobs, agent.State().Jobs)
		require.NoError(t, agent.Close())
		require.Equal(t, []string{"1 true", "1 false"}, heard.list(), "listeners are told as well")
	})
}

func TestJobsAreKnownWithoutListeners(t *testing.T) {
	t.Parallel()
	running := []pygent.Job{{ID: "a", Running: true, ExitCode: -1}}
	agent := newAgentOn(t, hasJobs{jobs: func() ([]pygent.Job, error) { return running, nil }}, pygenttest.NewScriptedModel(callBash("true"), stop).RepeatLast())
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Zero(t, agent.State().JobsAt, "nobody has asked")
	jobs, err := agent.Jobs(t.Context())
	require.NoError(t, err)
	require.Equal(t, running, jobs)
	var none context.Context
	_, err = agent.Jobs(none)
	require.Error(t, err)
}

func TestASilentRuntimeLeavesWhatWasKnownOfItsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running := []pygent.Job{{ID: "a", Running: true, ExitCode: -1}}
		goOn := make(chan struct{})
		silent := false
		agent := newAgentOn(t, hasJobs{jobs: func() ([]pygent.Job, error) {
			if silent {
				<-goOn
			}
			return running, nil
		}}, pygenttest.NewScriptedModel(callBash("true"), stop).RepeatLast())
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		_, err = agent.Jobs(t.Context())
		require.NoError(t, err)
		known := agent.State()
		silent = true
		_, err = agent.Jobs(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "list the commands in the background: ")
		require.Equal(t, known, agent.State())
		close(goOn)
		synctest.Wait()
		_, err = agent.Jobs(t.Context())
		require.NoError(t, err)
	})
}

// heeding is a runtime with a job that tells nothing once nobody waits for it.
type heeding struct{ hasJobs }

func (heeding) Jobs(ctx context.Context) ([]pygent.Job, error) {
	return []pygent.Job{{ID: "a", Running: true}}, ctx.Err()
}

func TestTheNextRunTellsOfJobsOfACallThatWasTheLast(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var heard jobEvents
	agent := newAgentOn(t, heeding{}, pygenttest.NewScriptedModel(background("serve"), pygenttest.Text("Hello.")).RepeatLast(), pygent.OnEvent(func(e pygent.Event) {
		heard.hear(e)
		if e.Type == pygent.EventToolDone {
			cancel() // before anybody could ask
		}
	}))
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	_, err = agent.RunUntilStop(t.Context(), "and now?", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, []string{"a true"}, heard.list())
}

func TestCommandsGoOnAsJobs(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		const cmd = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended; exit 3"
		res := bash(t, r, cmd, pygent.BashTimeout(soon), pygent.BashGoesOn())
		require.Equal(t, "begun\n", res.Output)
		require.True(t, res.GoesOn)
		require.False(t, res.TimedOut)
		require.Equal(t, -1, res.ExitCode)
		require.EqualValues(t, 6, res.Printed)
		require.Contains(t, res.String(), "it goes on as job "+res.Job)
		jobs := r.(pygent.JobRunner)
		list, err := jobs.Jobs(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.True(t, list[0].Running)
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		text, job := testkit.Collect(t, jobs, res.Job)
		require.Equal(t, "begun\nended\n", text)
		require.Equal(t, 3, job.ExitCode)
		out, err := jobs.JobOutput(t.Context(), res.Job, res.Printed, 0)
		require.NoError(t, err)
		require.Equal(t, "ended\n", out.Text, "what is new begins where the result ended")

		quick := bash(t, r, "echo quick", pygent.BashTimeout(time.Minute), pygent.BashGoesOn())
		require.False(t, quick.GoesOn)
		require.Empty(t, quick.Job)
	})
}

func TestProgressDoesNotPushLinesOutOfTheOutput(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, `echo first; awk 'BEGIN { for (i = 0; i < 200000; i++) printf "\r%d of 200000", i; print "" }'; echo last`)
		require.Equal(t, "first\n199999 of 200000\nlast\n", strings.ReplaceAll(res.Output, "\r", ""))
		require.False(t, res.Truncated)
	})
}

func TestModelsAreToldOnceOfTheEndOfAJob(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		waited := plainTool("await", func(tool *pygent.Tool) {
			tool.Run = func(_ context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				testkit.Collect(t, r.(pygent.JobRunner), "1")
				return nil, nil
			}
		})
		m := pygenttest.NewScriptedModel(background("echo one; echo two; exit 4"), pygenttest.Call("await", nil), pygenttest.Text("It failed."), pygenttest.Text("Still."))
		agent := newAgentOn(t, r, m, pygent.LendRuntime(r), pygent.WithTools(waited))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		_, err = agent.RunUntilStop(t.Context(), "and?", pygent.WithEndOnReply())
		require.NoError(t, err)
		told := 0
		for _, msg := range agent.History().Messages() {
			if msg.Role == chat.RoleUser && strings.Contains(msg.Content, "[job 1 (") {
				told++
				require.Regexp(t, `^\[job 1 \(echo one; echo two; exit 4\): ended with exit code 4 after .*\] its last lines:\n  one\n  two$`, msg.Content)
			}
		}
		require.Equal(t, 1, told)
	})
}

func TestAnOffsetPastTheEndOfAJobsOutputPassesNothingOver(t *testing.T) {
	t.Parallel()
	out := func(args map[string]any) pygenttest.Reply {
		args["id"] = "1"
		return pygenttest.Call("job_output", args)
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(
		background("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"),
		out(map[string]any{"until": "one"}), out(map[string]any{"offset": 1 << 40}), callBash("echo >go"),
		out(map[string]any{"wait": 60}), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	got := results(agent)
	require.Regexp(t, `^\(no new output\)\n\[job 1 `, got[2])
	require.Regexp(t, `^two\n\[job 1 .*: ended with exit code 0`, got[4])
}

func TestAWaitForAJobThatEndsWithTheStepSaysSo(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(
		background("while :; do sleep 0.02; done"),
		pygenttest.Call("job_output", map[string]any{"id": "1", "wait": 600}), stop, stop), pygent.StepTimeout(3*time.Second))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[1], "; the time for this step is over, so the wait ended early]")
}

func TestJobOutputShowsWhatIsNew(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		out := func(args map[string]any) pygenttest.Reply {
			args["id"] = "1"
			return pygenttest.Call("job_output", args)
		}
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(
			background("echo one; echo two; while [ ! -e go ]; do sleep 0.02; done; printf '10%%\\r20%%\\nthree\\n'; exit 2"),
			out(map[string]any{"until": "two"}), out(map[string]any{}), out(map[string]any{"tail": 1}), callBash("echo >go"),
			out(map[string]any{"wait": 60}), out(map[string]any{"offset": 4}), stop), pygent.LendRuntime(r))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		got := results(agent)
		require.Regexp(t, `^one\ntwo\n\[job 1 \(.*\): running .*; the text was printed\]$`, got[1])
		require.Regexp(t, `^\(no new output\)\n\[job 1 `, got[2])
		require.Regexp(t, `^two\n\[job 1 `, got[3])
		require.Regexp(t, `^20%\nthree\n\[job 1 .*: ended with exit code 2 after .*\]$`, got[5])
		require.Regexp(t, `^two\n20%\nthree\n\[job 1 `, got[6])
	})
}

func TestJobOutputDoesNotDivideEscapeSequences(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		out := func(args map[string]any) pygenttest.Reply {
			args["id"] = "1"
			return pygenttest.Call("job_output", args)
		}
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(
			background(`printf 'begun \033[3'; while [ ! -e go ]; do sleep 0.02; done; printf '1mis\033[0m \033[32mready\033[0m now\n'`),
			out(map[string]any{"until": "begun"}), out(map[string]any{}), callBash("echo >go"),
			out(map[string]any{"until": "is ready now"}), pygenttest.Text("It is ready.")), pygent.LendRuntime(r))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		got := results(agent)
		require.Regexp(t, `^begun \n\[job 1 \(.*\): running .*; the text was printed\]$`, got[1])
		require.Regexp(t, `^\(no new output\)\n\[job 1 `, got[2])
		require.Regexp(t, `^is ready now\n\[job 1 .*; the text was printed\]$`, got[4])

		res := bash(t, r, `rm go; printf 'a\033[3'; while [ ! -e go ]; do sleep 0.02; done; printf '1mb\033[0m\n'`, pygent.BashTimeout(soon), pygent.BashGoesOn())
		require.True(t, res.GoesOn)
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		text, _ := testkit.Collect(t, r.(pygent.JobRunner), res.Job)
		require.Equal(t, "a\x1b[31mb\x1b[0m\n", text, "nothing is lost")
	})
}

// floods is a runtime with a job that prints much, and ends soon.
type floods struct {
	hasJobs
	size int
	ends time.Time
}

func (f *floods) JobOutput(_ context.Context, _ string, offset int64, wait time.Duration) (pygent.JobOutput, error) {
	if until := time.Until(f.ends); until > 0 {
		time.Sleep(min(wait, until))
	}
	job := pygent.Job{ID: "a", Running: time.Now().Before(f.ends)}
	if !job.Running {
		job.Printed = int64(f.size)
	}
	n := min(max(job.Printed-offset, 0), 32<<10)
	text := strings.Repeat("x", int(n))
	if n > 0 && offset+n == job.Printed {
		text = text[:n-4] + "end\n"
	}
	return pygent.JobOutput{Text: text, Next: offset + n, Job: job}, nil
}

func TestAJobsEndIsToldAtOnceWhateverItPrinted(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]string{"its end": "", "a text": "end\n", "a text that does not come": "no"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				rt := &floods{size: 64 << 20, ends: began.Add(10 * time.Second)}
				rt.jobs = func() ([]pygent.Job, error) { return nil, nil }
				args := map[string]any{"id": "a", "wait": 600}
				if until != "" {
					args["until"] = until
				}
				agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(pygenttest.Call("job_output", args), stop))
				_, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				require.Less(t, time.Since(began), 12*time.Second)
				shown := results(agent)[0]
				require.Less(t, len(shown), 70<<10)
				require.Contains(t, shown, "end\n[job a")
				require.Contains(t, shown, fmt.Sprintf("%s bytes before this are not shown", "67,043,328"))
			})
		})
	}
}

// A job of a container that died is told as lost, and a later one does not get its id.
func TestJobsOfAContainerThatWasReplacedAreLost(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	model := pygenttest.NewScriptedModel(background("echo one; sleep 1000\necho two"), pygenttest.Text("It runs."),
		background("echo two; sleep 1000"), pygenttest.Call("job_output", map[string]any{"id": "1"}),
		pygenttest.Call("job_output", map[string]any{"id": "2", "until": "two"}), pygenttest.Text("I see."), pygenttest.Text("Hello."))
	agent := newAgentOn(t, r, model, pygent.LendRuntime(r))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, dir)[0].ID, "KILL"))
	require.Eventually(t, func() bool { return len(containersOf(t, engine, dir)) == 0 }, 30*time.Second, time.Millisecond)
	for range 2 {
		_, err = agent.RunUntilStop(t.Context(), "and?", pygent.WithEndOnReply())
		require.NoError(t, err)
	}
	got := results(agent)
	require.Contains(t, got[1], "started job 2 ")
	require.Contains(t, got[2], "no such job: job 1 (echo one; sleep 1000) is lost, with the container")
	require.Regexp(t, `^two\n\[job 2 .*; the text was printed\]$`, got[3])
	told := noticesOfJobs(agent)
	require.Equal(t, []string{"[job 1 (echo one; sleep 1000) is lost, with the container or process that it ran in; if it is still needed, start it again with bash and background]"}, told)
	jobs, err := r.(pygent.JobRunner).Jobs(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, "2", jobs[0].ID)
}

// A job that ends while nobody runs is told by the next run.
func TestTheNextRunTellsOfAJobThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		model := pygenttest.NewScriptedModel(background("while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"),
			pygenttest.Text("It runs."), pygenttest.Text("It failed.")).RepeatLast()
		agent := newAgentOn(t, r, model, pygent.LendRuntime(r), pygent.WithIO(strings.NewReader("and?\nand now?\n"), io.Discard))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Empty(t, noticesOfJobs(agent))
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		testkit.Collect(t, r.(pygent.JobRunner), "1")
		require.NoError(t, agent.RunInteractive(t.Context()))
		told := noticesOfJobs(agent)
		require.Len(t, told, 1)
		require.Contains(t, told[0], "ended with exit code 3 after ")
		require.Contains(t, told[0], "its last lines:\n  done")
	})
}

// noticesOfJobs returns what a model was told of the ends of jobs.
func noticesOfJobs(agent *pygent.Agent) (told []string) {
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleUser && strings.HasPrefix(m.Content, "[job ") {
			told = append(told, m.Content)
		}
	}
	return told
}

// resumed returns an agent that goes on with a conversation.
func resumed(t *testing.T, r pygent.Runtime, h *pygent.History, replies ...pygenttest.Reply) *pygent.Agent {
	t.Helper()
	return newAgentOn(t, r, pygenttest.NewScriptedModel(replies...).RepeatLast(), pygent.LendRuntime(r), pygent.WithHistory(h))
}

func goOn(t *testing.T, agent *pygent.Agent) {
	t.Helper()
	_, err := agent.RunUntilStop(t.Context(), "go on", pygent.WithEndOnReply())
	require.NoError(t, err)
}

func TestAResumedModelIsToldWhatBecameOfItsJobs(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		file := filepath.Join(t.TempDir(), "history.json")
		open := func() *pygent.History {
			h, err := chat.OpenHistory(file)
			require.NoError(t, err)
			return h
		}
		h := open()
		goOn(t, resumed(t, r, h, background("echo up; sleep 1000"), background("while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"),
			background("sleep 1001"), pygenttest.Call("job_kill", map[string]any{"id": "3"}),
			pygenttest.Call("job_output", map[string]any{"id": "1", "until": "up"}), pygenttest.Text("They run.")))
		require.NoError(t, h.Close())
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		testkit.Collect(t, r.(pygent.JobRunner), "2")

		for range 2 { // the second one has nothing to tell
			h = open()
			agent := resumed(t, r, h, pygenttest.Text("I see."))
			goOn(t, agent)
			told := noticesOfJobs(agent)
			require.Len(t, told, 1)
			require.Regexp(t, `^\[job 1 \(echo up; sleep 1000\): running for .*; it is still running, although the run that started it is over\]
\[job 2 \(.*\): ended with exit code 3 after .*\] its last lines:
  done$`, told[0])
			require.NoError(t, h.Close())
		}

		h = open()
		defer h.Close()
		other, err := pygent.NewLocalRuntime(t.Context())
		require.NoError(t, err)
		defer other.Cleanup()
		agent := resumed(t, other, h, pygenttest.Call("job_output", map[string]any{"id": "1"}), background("echo new"), pygenttest.Text("I see."))
		goOn(t, agent)
		agent = resumed(t, other, h, pygenttest.Text("I see."))
		goOn(t, agent)
		told := noticesOfJobs(agent)
		require.Equal(t, "[job 1 (echo up; sleep 1000) is lost, with the container or process that it ran in; if it is still needed, start it again with bash and background]", told[1])
		got := results(agent)
		require.Contains(t, got[len(got)-2], "no such job: job 1 (echo up; sleep 1000) is lost, with")
		require.Contains(t, got[len(got)-1], "started job 4 ", "no id means two jobs")
	})
}

func TestAResumedModelHearsOfJobsWhoseCallsWereSummedUp(t *testing.T) {
	t.Parallel()
	r, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	defer r.Cleanup()
	file := filepath.Join(t.TempDir(), "history.json")
	h, err := chat.OpenHistory(file)
	require.NoError(t, err)
	agent := resumed(t, r, h, callBash("sleep 1000 & echo begun"), background("sleep 1001"), callBash("seq 500"), callBash("seq 501"), callBash("seq 502"), pygenttest.Text("They run."))
	goOn(t, agent)
	_, err = agent.Compact(t.Context())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(h.Conversation()), "started job 2 ")
	require.NoError(t, h.Close())
	h, err = chat.OpenHistory(file)
	require.NoError(t, err)
	defer h.Close()
	agent = resumed(t, r, h, pygenttest.Text("I see."))
	goOn(t, agent)
	told := noticesOfJobs(agent)
	require.Len(t, told, 1)
	require.Regexp(t, `^\[job 1 \(sleep 1000 & echo begun\): running .*\]\n\[job 2 \(sleep 1001\): running .*\]$`, told[0])
}

func TestAResumedModelIsToldOfJobsOfACallersOwnRuntime(t *testing.T) {
	t.Parallel()
	running, asked := true, 0
	rt := hasJobs{jobs: func() ([]pygent.Job, error) {
		if asked++; asked == 3 {
			return nil, errors.New("not now")
		}
		return []pygent.Job{{ID: "a", Running: running, Command: "serve"}}, nil
	}}
	h := chat.NewHistory()
	goOn(t, resumed(t, rt, h, background("serve\nmore"), pygenttest.Text("It runs.")))
	agent := resumed(t, rt, h, callBash("true"), pygenttest.Text("I see."))
	goOn(t, agent)
	require.Len(t, noticesOfJobs(agent), 1)
	require.Contains(t, noticesOfJobs(agent)[0], "[job a (serve): running for 0s")
	running = false
	agent = resumed(t, rt, h, pygenttest.Text("I see."))
	goOn(t, agent)
	require.Contains(t, noticesOfJobs(agent)[1], "[job a (serve): ended with exit code 0 ")
}

func TestTwoReadsOfAJobInOneAnswerShowItsOutputOnce(t *testing.T) {
	t.Parallel()
	out := func(args map[string]any) pygenttest.Reply {
		args["id"] = "1"
		return pygenttest.Call("job_output", args)
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(background("echo one; sleep 1000"),
		pygenttest.Calls(out(map[string]any{"until": "one"}), out(map[string]any{}), out(map[string]any{"tail": 1})),
		pygenttest.Call("job_kill", map[string]any{"id": "1"}), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	got := results(agent)
	require.Regexp(t, `^one\n\[job 1 .*; the text was printed\]$`, got[1])
	require.Regexp(t, `^\(no new output\)\n\[job 1 `, got[2])
	require.Regexp(t, `^one\n\[job 1 `, got[3])
}

// forgets is a runtime with many jobs that have ended, of which it lists the last.
type forgets struct {
	hasJobs
	asked *int
	begun *int
}

func (e forgets) StartJob(context.Context, string, ...pygent.BashOption) (pygent.Job, error) {
	*e.begun++
	return pygent.Job{ID: fmt.Sprint(*e.begun), Running: true}, nil
}

func (e forgets) JobOutput(ctx context.Context, id string, _ int64, _ time.Duration) (pygent.JobOutput, error) {
	*e.asked++
	if id != "1" {
		<-ctx.Done()
		return pygent.JobOutput{}, ctx.Err()
	}
	return pygent.JobOutput{Job: pygent.Job{ID: id, Command: "exit 7", ExitCode: 7}}, nil
}

func TestOldJobsAreNotLostAndASilentRuntimeIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, begun := 0, 0
		rt := forgets{asked: &asked, begun: &begun}
		rt.jobs = func() (jobs []pygent.Job, err error) {
			for i := 2; i <= begun; i++ {
				jobs = append(jobs, pygent.Job{ID: fmt.Sprint(i), ExitCode: 1, Printed: 100})
			}
			return jobs, nil
		}
		calls := slices.Repeat([]pygenttest.Reply{background("exit 7")}, 70)
		agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(pygenttest.Calls(calls...), pygenttest.Text("I see.")))
		began := time.Now()
		goOn(t, agent)
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, 2, asked)
		told := noticesOfJobs(agent)
		require.Len(t, told, 1)
		require.Regexp(t, `^\[job 1 \(exit 7\): ended with exit code 7 .*\]\n\[job 2 `, told[0])
		require.Contains(t, told[0], "\n[and of 20 more jobs there is news: see job_list]")
	})
}
