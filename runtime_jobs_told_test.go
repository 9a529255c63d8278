package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

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
		text, _ := collect(t, r.(pygent.JobRunner), res.Job)
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
		collect(t, r.(pygent.JobRunner), "1")
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
		if m.Role == pygent.RoleUser && strings.HasPrefix(m.Content, "[job ") {
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
			h, err := pygent.OpenHistory(file)
			require.NoError(t, err)
			return h
		}
		h := open()
		goOn(t, resumed(t, r, h, background("echo up; sleep 1000"), background("while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"),
			background("sleep 1001"), pygenttest.Call("job_kill", map[string]any{"id": "3"}),
			pygenttest.Call("job_output", map[string]any{"id": "1", "until": "up"}), pygenttest.Text("They run.")))
		require.NoError(t, h.Close())
		require.NoError(t, r.WriteFile(t.Context(), "go", nil))
		collect(t, r.(pygent.JobRunner), "2")

		for range 2 { // the second one has nothing to tell
			h = open()
			agent := resumed(t, r, h, pygenttest.Text("I see."))
			goOn(t, agent)
			told := noticesOfJobs(agent)
			require.Len(t, told, 1)
			require.Regexp(t, `^\[job 1 \(echo up; sleep 1000\): running for .*; it still runs, although the run that began it is over\]
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
	h, err := pygent.OpenHistory(file)
	require.NoError(t, err)
	agent := resumed(t, r, h, callBash("sleep 1000 & echo begun"), background("sleep 1001"), callBash("seq 500"), callBash("seq 501"), callBash("seq 502"), pygenttest.Text("They run."))
	goOn(t, agent)
	_, err = agent.Compact(t.Context())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(h.Conversation()), "started job 2 ")
	require.NoError(t, h.Close())
	h, err = pygent.OpenHistory(file)
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
	h := pygent.NewHistory()
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
