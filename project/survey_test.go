package project_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/survey"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

func TestTheModelIsToldWhatTheWorkspaceHoldsAtTheStart(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		require.NoError(t, rt.WriteFile(t.Context(), "cmd/main.go", []byte("package main")))
		require.NoError(t, rt.WriteFile(t.Context(), "go.mod", nil))
		require.NoError(t, rt.WriteFile(t.Context(), "a\n<i>Obey", nil))
		require.NoError(t, rt.(pygent.Starter).Start(t.Context()))
		model := pygenttest.NewScriptedModel(callBash("touch new && ls"), callBash("true"), pygenttest.Text("done")).RepeatLast()
		agent := newAgentOn(t, rt, model, pygent.WithEndOnReply())
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		all := systemsOf(model)
		require.Len(t, all, 3)
		require.Contains(t, all[0], "<workspace_files>\ncmd/ (1)\n  main.go\n\"a\\n\\x3ci\\x3eObey\"\ngo.mod\n</workspace_files>\n")
		require.Regexp(t, `- The system is [A-Z].*\.\n- Programs: [a-z0-9, ]*; not there: `, all[0])
		require.Equal(t, []string{all[0], all[0], all[0]}, all, "it is the same from step to step")

		agent.SetPersona(agent.Persona())
		_, err = agent.Step(t.Context(), "once more")
		require.NoError(t, err)
		require.Equal(t, all[0], systemsOf(model)[3], "what the model made changes nothing")
		agent.RefreshSystemMessage()
		_, err = agent.Step(t.Context(), "once more")
		require.NoError(t, err)
		require.Contains(t, systemsOf(model)[4], "go.mod\nnew\n")
		agent.RefreshSystemMessage()
		_, err = agent.Step(t.Context(), "once more")
		require.NoError(t, err)
		require.Equal(t, systemsOf(model)[4], systemsOf(model)[5])
	})
}

func TestTheModelIsToldTheStateOfTheRepository(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "core.fsmonitor", "touch ran; false"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		require.NoError(t, cmd.Run())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o666))
	for _, protection := range []pygent.Protection{pygent.ProtectionAuto, pygent.ProtectionOff} {
		model := pygenttest.NewScriptedModel(pygenttest.Text("hello")).RepeatLast()
		rt := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir), pygent.WithLocalProtection(protection))
		agent := newAgentOn(t, rt, model)
		_, err := agent.Step(t.Context(), "go")
		require.NoError(t, err)
		system := systemsOf(model)[0]
		if agent.Runtime().(pygent.Describer).Describe(t.Context()).Protection == "none" {
			require.Contains(t, system, "A git repository, on branch main.\n", "git reads a stranger's files only where it is confined")
		} else {
			require.Contains(t, system, "A git repository, on branch main.\n", "the first request waits for no command")
			agent.RefreshSystemMessage()
			_, err := agent.Step(t.Context(), "go")
			require.NoError(t, err)
			// A machine that is busy may not answer in time; the script has a test of its own.
			require.Regexp(t, `A git repository, on branch main(: 1 file changed)?\.\n`, systemsOf(model)[1])
		}
		require.NotContains(t, system, ".git/")
	}
	require.NoFileExists(t, filepath.Join(dir, "ran"))
}

// The state of the repository is not waited for: it follows with a result, once.
func TestTheStateOfTheRepositoryFollowsTheFirstRequest(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "git", "init", "-q", "-b", "main")
	cmd.Dir = dir
	require.NoError(t, cmd.Run())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o666))
	const note = "[The git repository was at the start: 1 file changed.]"
	told := func(patience time.Duration, opts ...pygent.Option) (agent *pygent.Agent, times int) {
		script := pygenttest.NewScriptedModel(callBash("echo >b"), callBash("echo >c"), pygenttest.Text("done"), pygenttest.Text("again")).RepeatLast()
		model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			time.Sleep(patience) // a model takes its time, and meanwhile git answers
			return script.Chat(ctx, req)
		})
		rt := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
		if rt.(pygent.Describer).Describe(t.Context()).Protection == "none" {
			t.Skip("commands are not confined here")
		}
		agent = newAgentOn(t, rt, model, append(opts, pygent.WithEndOnReply())...)
		for range 2 {
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "b")))
		require.NoError(t, os.Remove(filepath.Join(dir, "c")))
		for _, system := range systemsOf(script) {
			require.Equal(t, systemsOf(script)[0], system)
		}
		for _, m := range agent.History().Messages() {
			times += strings.Count(m.Content, note)
		}
		return agent, times
	}
	for patience := time.Millisecond; ; patience *= 2 {
		agent, times := told(patience)
		require.LessOrEqual(t, times, 1)
		if times == 1 {
			require.Contains(t, agent.History().Messages()[3].Content, note)
			break
		}
		require.Less(t, patience, time.Minute, "git never answered")
	}
	for name, opts := range map[string][]pygent.Option{
		"switched off":        {project.Read(project.Survey(false))},
		"a prompt without it": {pygent.WithPrompt(func(info pygent.PromptInfo) string { return "You are " + info.Persona.Name + "." })},
	} {
		_, times := told(100*time.Millisecond, opts...)
		require.Zero(t, times, name)
	}
}

// A container starts while the model is asked. What it has is told as soon as that is
// known, and from then on every agent of the process knows it from its first request.
func TestWhatAnImageHasIsFoundOnce(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	path := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/unheard-of-" + rand.Text()
	run := func() (first string, results []string) {
		rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(enginetest.Image()), pygent.WithEnv(path))
		model := pygenttest.NewScriptedModel(callBash("true"), callBash("true"), pygenttest.Text("done"))
		agent := newAgentOn(t, rt, model, pygent.WithEndOnReply(), pygent.LendRuntime(rt))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		all := systemsOf(model)
		require.Equal(t, []string{all[0], all[0], all[0]}, all)
		for _, m := range agent.History().Messages() {
			if m.Role == chat.RoleTool {
				results = append(results, m.Content)
			}
		}
		return all[0], results
	}
	const words = `The system is Debian[^\n]*\.(\n-)? Programs: [a-z0-9, ]*; not there: `
	system, results := run()
	if !regexp.MustCompile(words).MatchString(system) { // else the container was there before the request was
		require.Regexp(t, `\n\[`+words+`[a-z0-9, ]*\.\]$`, results[0])
	}
	require.NotContains(t, results[1], "Programs")
	system, results = run()
	require.Regexp(t, words, system, "the next agent knows it at once")
	require.Contains(t, system, "The shell is bash.")
	require.NotContains(t, results[0]+results[1], "Programs")
}

// A runtime that ignores its context holds up no agent.
func TestAListingThatNeverEndsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		rt := &stuckLister{block: block}
		model := pygenttest.NewScriptedModel(pygenttest.Text("hello")).RepeatLast()
		agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), project.Read())
		require.NoError(t, err)
		for range 3 {
			began := time.Now()
			_, err = agent.Step(t.Context(), "go")
			require.NoError(t, err)
			require.Less(t, time.Since(began), time.Minute)
			agent.RefreshSystemMessage()
		}
		require.LessOrEqual(t, rt.calls.Load(), int32(2), "what does not answer is not asked again and again")
		close(block)
		synctest.Wait()
		require.NoError(t, agent.Close())
	})
}

// stuckLister lists no files until block is closed.
type stuckLister struct {
	describedFiles
	block chan struct{}
	calls atomic.Int32
}

func (s *stuckLister) ListFiles(context.Context, string, int, int) ([]pygent.FileInfo, bool, error) {
	s.calls.Add(1)
	<-s.block
	return nil, false, nil
}

func TestNoSurvey(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]func(model pygent.Model) *pygent.Agent{
		"switched off":              func(model pygent.Model) *pygent.Agent { return newAgent(t, model, project.Read(project.Survey(false))) },
		"a runtime of another kind": func(model pygent.Model) *pygent.Agent { return newAgentOn(t, listsFiles{}, model) },
	} {
		model := pygenttest.NewScriptedModel(pygenttest.Text("hello"))
		a := agent(model)
		_, err := a.Step(t.Context(), "go")
		require.NoError(t, err)
		for _, text := range []string{"Programs", "The system is", "holds"} {
			require.NotContains(t, systemsOf(model)[0], text, name)
		}
	}
	model := pygenttest.NewScriptedModel(pygenttest.Text("hello"))
	_, err := newAgentOn(t, describedFiles{}, model).Step(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, systemsOf(model)[0], "<workspace_files>\nx\n</workspace_files>", "a runtime that describes itself")
	require.NotContains(t, systemsOf(model)[0], "Programs", "no command runs that nobody asked for")
}

// listsFiles is a runtime that can list its files.
type listsFiles struct{ testkit.Nowhere }

func (listsFiles) ListFiles(context.Context, string, int, int) ([]pygent.FileInfo, bool, error) {
	return []pygent.FileInfo{{Path: "x"}}, false, nil
}

func (listsFiles) StatFile(context.Context, string) (pygent.FileInfo, error) {
	return pygent.FileInfo{}, os.ErrNotExist
}

// describedFiles also describes itself.
type describedFiles struct{ listsFiles }

func (describedFiles) Describe(context.Context) pygent.RuntimeInfo {
	return pygent.RuntimeInfo{Kind: "ssh", Shell: "bash"}
}

// Whatever a project has in the places where an agent looks, the agent begins to
// work, and shows the model nothing from elsewhere.
func TestAgentsBeginToWorkInHostileWorkspaces(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	t.Parallel()
	const secret = "ROOT-OF-THE-HOST"
	outside := t.TempDir()
	writeFiles(t, outside, map[string]string{"HEAD": "ref: refs/heads/" + secret, "SKILL.md": skillFile("a", secret, secret)})
	forEachStarted(t, map[string]string{
		"pipes":        "mkdir -p .git .agents/skills/a .pygent/skills; mkfifo .git/HEAD .git/index .git/config .agents/skills/a/SKILL.md; mkfifo AGENTS.md",
		"directories":  "mkdir -p .git/HEAD .agents/skills/a/SKILL.md AGENTS.md .pygent",
		"devices":      "mkdir -p .git .agents/skills/a; for f in .git/HEAD AGENTS.md .agents/skills/a/SKILL.md; do ln -s /dev/zero $f; done",
		"links out":    "mkdir -p .git .agents/skills; ln -s OUT/HEAD .git/HEAD; ln -s OUT/SKILL.md AGENTS.md; ln -s OUT .agents/skills/a; ln -s OUT .pygent",
		"loops":        "ln -s . .git; ln -s AGENTS.md AGENTS.md; ln -s .. .agents; ln -s .git HEAD",
		"a git file":   "echo 'gitdir: OUT' >.git; truncate -s 1G AGENTS.md",
		"a huge index": "mkdir -p .git/refs .git/objects; echo 'ref: refs/heads/main' >.git/HEAD; truncate -s 2G .git/index",
	}, func(t *testing.T, rt pygent.Runtime, plant string) {
		plant = strings.ReplaceAll(plant, "OUT", outside)
		bash(t, rt, plant+"; mkdir sub; cd sub; echo x >x; "+plant)
		model := pygenttest.NewScriptedModel(reading("sub/x"), callBash("true"), stop)
		agent := newAgentOn(t, rt, model, pygent.LendRuntime(rt))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		told := systemsOf(model)[0] + strings.Join(results(agent), "\n")
		require.NotContains(t, told, secret)
		require.NotContains(t, told, "\x00")
		require.Less(t, len(told), 10_000)
		require.Contains(t, results(agent)[0], "1\tx")
	})
}

// repository is a runtime like those of package pygent, whose git answers when it is told to.
type repository struct {
	testkit.Nowhere
	answers chan string
	asked   atomic.Int32
	runs    func() // called by a command
}

func (*repository) Describe(context.Context) pygent.RuntimeInfo {
	return pygent.RuntimeInfo{Kind: "local", Protection: "full"}
}

func (*repository) ReadFile(_ context.Context, path string) ([]byte, error) {
	if path != ".git/HEAD" {
		return nil, os.ErrNotExist
	}
	return []byte("ref: refs/heads/main\n"), nil
}

func (r *repository) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	r.runs()
	return pygent.BashResult{}, nil
}

func (*repository) GitHead() string { return "" }

func (*repository) Machine() (survey.Machine, bool) {
	return survey.Machine{System: "macOS", Found: []string{"git"}}, true
}

func (r *repository) Aside(ctx context.Context, _ string, _ time.Duration) (string, bool) {
	r.asked.Add(1)
	select {
	case <-ctx.Done():
		return "", false
	case said := <-r.answers:
		return said, true
	}
}

// What git says once a tool has run may not be true of the start.
func TestTheStateIsThatOfTheStart(t *testing.T) {
	t.Parallel()
	const said, note = "-- survey --\n3\n", "[The git repository was at the start: 3 files changed.]"
	for name, test := range map[string]struct {
		first, second, atTool string // what git answers while the model is asked, and while a tool runs; empty for nothing
		in                    int    // the result or message that tells it; 0 for none
		asked                 int32
	}{
		"while the model is asked": {first: said, in: 3, asked: 1},
		"while a tool runs":        {atTool: said, asked: 1},
		"after a tool":             {second: said, asked: 1},
		"never":                    {asked: 1},
		"nonsense":                 {first: "fatal", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rt := &repository{answers: make(chan string)}
				answer := func(said string) {
					if said != "" {
						rt.answers <- said
					}
					synctest.Wait()
				}
				rt.runs = func() { answer(test.atTool) }
				script := pygenttest.NewScriptedModel(callBash("true"), pygenttest.Text("done"), pygenttest.Text("again"))
				model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
					synctest.Wait()
					answer([]string{test.first, test.second, ""}[len(script.Requests())])
					return script.Chat(ctx, req)
				})
				agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), project.Read(), pygent.WithEndOnReply())
				require.NoError(t, err)
				for range 2 {
					_, err := agent.RunUntilStop(t.Context(), "go")
					require.NoError(t, err)
				}
				require.NoError(t, agent.Close(), "git is not waited for")
				for i, m := range agent.History().Messages() {
					require.Equal(t, i > 0 && i == test.in, strings.Contains(m.Content, note), "%d: %s", i, m.Content)
				}
				require.Equal(t, test.asked, rt.asked.Load(), "it is not asked once a tool has run")
			})
		})
	}
}

// A git that gave no answer is asked again as long as nothing can have changed.
func TestGitIsAskedAgainUntilAToolHasRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &repository{answers: make(chan string)}
		model := pygenttest.NewScriptedModel(pygenttest.Text("hi")).RepeatLast()
		agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), project.Read(), pygent.WithEndOnReply())
		require.NoError(t, err)
		for i := range int32(3) {
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, i+1, rt.asked.Load())
			rt.answers <- "fatal"
			synctest.Wait()
		}
		require.NoError(t, agent.Close())
	})
}
