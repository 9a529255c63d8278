// This file has the program that runs the tests, and the helpers that three or more test files use.

package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// TestMain also ends the runtimes that tests used one after the other.
func TestMain(m *testing.M) {
	for name, face := range faceOfTests {
		pygent.RegisterFace(name, face)
	}
	testkit.Main(endingStarted{m})
}

// Short names for what other packages' tests use, too.
var (
	newAgent   = testkit.NewLocalAgent
	newAgentOf = testkit.NewAgent
	newAgentOn = testkit.NewAgentOn
	quick      = testkit.Quick

	callBash = testkit.CallBash
	stop     = testkit.Stop
	results  = testkit.Results
	jsonOf   = testkit.JSON

	runtimeCases   = testkit.RuntimeKinds
	newTestRuntime = testkit.NewRuntime
	bash           = testkit.Bash

	requireDocker = testkit.RequireDocker
	onRemote      = testkit.OnRemote
	testEngine    = enginetest.Client
)

type (
	runtimeCase = testkit.RuntimeKind
	nowhere     = testkit.Nowhere
	noRuntime   = testkit.NoRuntime
)

func always(r pygenttest.Reply) func(string) pygenttest.Reply {
	return func(string) pygenttest.Reply { return r }
}

func background(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd, "background": true})
}

// beginBash starts a command, and returns once it runs. A time limit has to leave a busy
// machine the time for what the test does to the command meanwhile.
func beginBash(t *testing.T, r pygent.Runtime, dir, cmd string, opts ...pygent.BashOption) <-chan ended {
	t.Helper()
	name := "begun-" + strings.ReplaceAll(t.Name(), "/", "-")
	result := make(chan ended, 1)
	go func() {
		res, err := r.Bash(context.Background(), "echo >"+name+"; "+cmd, opts...)
		result <- ended{res, err}
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}, 30*time.Second, time.Millisecond)
	return result
}

// byPrompt returns an agent's tasks by their prompts, once they are at rest.
func byPrompt(t *testing.T, agent *pygent.Agent) map[string]pygent.TaskStatus {
	t.Helper()
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	found := map[string]pygent.TaskStatus{}
	for _, s := range all {
		found[s.Prompt] = waitTask(t, agent.Tasks(), s.ID)
	}
	return found
}

// calling is the pace for tests of the keepalive. A guest on a busy machine has to answer
// within three of its intervals.
func calling() pygent.RuntimeOption {
	return pygent.WithTestPace(100*time.Millisecond, 300*time.Millisecond, 0, 0)
}

// containersOf returns the containers that mount dir as their workspace.
func containersOf(t *testing.T, engine *client.Client, dir string) []container.Summary {
	t.Helper()
	all, err := engine.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "pygent.runtime")),
	})
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(c container.Summary) bool { // which may mount it twice
		return !slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return m.Source == dir })
	})
}

func delegate(prompt string, files ...string) pygenttest.Reply {
	return pygenttest.Call("delegate_task", map[string]any{"prompt": prompt, "files": files})
}

// dollars are prices by which a hundred tokens cost 0.1, as those of hundred do.
var dollars = map[string]pygent.Price{"m": {Prompt: 1000, Completion: 1000}}

func entries(t *testing.T, dir string) []os.DirEntry {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return list
}

// errOf returns the error of a call that returns a value as well.
func errOf[T any](_ T, err error) error { return err }

// eventsOf makes a run and returns its events.
func eventsOf(t *testing.T, agent *pygent.Agent, msg string, opts ...pygent.RunOption) []pygent.Event {
	t.Helper()
	var events []pygent.Event
	for e, err := range agent.Events(t.Context(), msg, opts...) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// filesIn are the files of a workspace.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	}))
	return files
}

// follow gives the replies one after another. Each may use the id of the first
// task that the conversation started with delegate_task.
func follow(replies ...func(id string) pygenttest.Reply) pygenttest.Reply {
	var mu sync.Mutex
	next := 0
	return pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(replies) {
			return pygenttest.Error(pygenttest.ErrScriptEnded)
		}
		next++
		return replies[next-1](startedTask(req.Messages))
	})
}

// forEachRuntime runs a test against a new runtime of each kind.
func forEachRuntime(t *testing.T, test func(t *testing.T, r pygent.Runtime), opts ...pygent.RuntimeOption) {
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) { test(t, c.New(t, opts...)) })
	}
}

// forEachStarted runs a test against a runtime of each kind that is started and has an
// empty workspace. Those in containers are lent: other tests have used them, and will,
// because the start and the end of a container cost more than most tests. A test may do
// with its runtime what it likes: what it closes, or leaves anything else in than files
// of the workspace, is not lent again. A test needs forEachRuntime if it begins with
// files, which a container that is not started has too, or sets the environment, or
// counts on the numbers of jobs.
func forEachStarted(t *testing.T, test func(t *testing.T, r pygent.Runtime)) {
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.Name == "local" {
				test(t, c.New(t))
				return
			}
			test(t, started.lend(t, c))
		})
	}
}

// forkable is a runtime that makes runtimes for tasks.
type forkable struct{ nowhere }

func (forkable) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return nowhere{}, nil }

// hollow is a runtime that does nothing, and makes more such runtimes for
// tasks.
type hollow struct{ nowhere }

func (hollow) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return hollow{}, nil }

// impatient is the pace for tests of time limits: a guest is given up soon
// after a limit, and the keepalive is too slow to matter.
func impatient() pygent.RuntimeOption {
	return pygent.WithTestPace(100*time.Millisecond, time.Hour, 0, 0)
}

func localRuntime(t *testing.T) pygent.Runtime {
	t.Helper()
	return newTestRuntime(t, pygent.NewLocalRuntime)
}

func newRemoteRuntime(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	return newTestRuntime(t, pygent.NewDockerRuntime, append(onRemote(t), opts...)...)
}

// newTasks makes a manager whose agents use model. It is closed at the end of
// the test.
func newTasks(t *testing.T, model pygent.Model, opts ...pygent.TaskManagerOption) *pygent.TaskManager {
	t.Helper()
	m, err := pygent.NewTaskManager(append([]pygent.TaskManagerOption{
		pygent.TaskAgents(pygent.WithModel(model), pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond})),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func onlyTask(t *testing.T, agent *pygent.Agent) pygent.TaskStatus {
	t.Helper()
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	return tasks[0]
}

// oursOn returns the containers and volumes on an engine that belong to this
// process.
func oursOn(t *testing.T, engine *client.Client) ([]container.Summary, []*volume.Volume) {
	t.Helper()
	ours := filters.NewArgs(filters.Arg("label", owner.LabelOwner+"="+owner.Here().Name()))
	containers, err := engine.ContainerList(context.Background(), container.ListOptions{All: true, Filters: ours})
	require.NoError(t, err)
	volumes, err := engine.VolumeList(context.Background(), volume.ListOptions{Filters: ours})
	require.NoError(t, err)
	return containers, volumes.Volumes
}

// pause pauses a container. On a busy machine the engine may give up before the kernel
// has frozen all processes of one that keeps starting some.
func pause(t *testing.T, engine *client.Client, id string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, engine.ContainerPause(t.Context(), id))
	}, 20*time.Second, 10*time.Millisecond)
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

const pngFile = "\x89PNG\r\n\x1a\nrest"

// read is the inverse of write, and adds the modes of files and directories.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		switch {
		case entry.IsDir():
			tree[name+"/"] = fmt.Sprintf("%o", info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			tree[name] = "->" + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			tree[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
		default:
			tree[name] = info.Mode().String()
		}
		return nil
	}))
	return tree
}

// realTempDir returns a temporary directory without links in its path, as
// engines see it.
func realTempDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func recordedCall(id, name, args string) pygent.ToolCall {
	return pygent.ToolCall{ID: id, Name: name, Arguments: args}
}

// requireStill waits until a ticking command has stopped.
func requireStill(t *testing.T, dir string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "ticks"))
		if err != nil {
			return 0 // it was ended before it wrote anything
		}
		return info.Size()
	}
	last := int64(-1)
	require.Eventually(t, func() bool {
		before := last
		last = size()
		return before == last
	}, 30*time.Second, 200*time.Millisecond)
}

// sayTool is a tool that always returns the same text.
func sayTool(text string) pygent.ToolFunc {
	return func(context.Context, pygent.Runtime, map[string]any) (string, error) { return text, nil }
}

func send(id, message string) pygenttest.Reply {
	return pygenttest.Call("send_task", map[string]any{"task_id": id, "message": message})
}

func shownToolsOn(t *testing.T, rt pygent.Runtime, opts ...pygent.Option) map[string]chat.ToolSpec {
	t.Helper()
	shown := map[string]chat.ToolSpec{}
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		for _, spec := range req.Tools {
			shown[spec.Name] = spec
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: "hello"}}, nil
	})
	_, err := newAgentOn(t, rt, model, opts...).Step(t.Context(), "go")
	require.NoError(t, err)
	return shown
}

// silentJobs is a runtime that does not report which jobs run.
type silentJobs struct {
	nowhere
	pygent.JobRunner
}

func (silentJobs) Jobs(ctx context.Context) ([]pygent.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// soon is the shortest time limit within which a command has begun on a busy machine.
const soon = 1500 * time.Millisecond

func startTask(t *testing.T, m *pygent.TaskManager, prompt string, parent pygent.Runtime, opts ...pygent.TaskOption) string {
	t.Helper()
	id, err := m.StartTask(t.Context(), prompt, parent, opts...)
	require.NoError(t, err)
	return id
}

// started are the runtimes that forEachStarted lends.
var started startedRuntimes

func startedTask(messages []pygent.Message) string {
	for _, m := range messages {
		if rest, ok := strings.CutPrefix(m.Content, "started task "); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

func testBusyboxImage() string { return enginetest.Busybox() }

func testImage() string { return enginetest.Image() }

// told runs an agent and returns the events about calls, each in a few words.
func told(t *testing.T, agent *pygent.Agent) (words []string, outputs []pygent.ToolResult) {
	t.Helper()
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		switch e.Type {
		case pygent.EventToolCall, pygent.EventToolStart, pygent.EventApproval:
			words = append(words, string(e.Type))
		case pygent.EventDecision:
			words = append(words, fmt.Sprintf("decision %t by %q", e.Decision.Allow, e.Decision.By))
		case pygent.EventToolDone, pygent.EventToolSkipped:
			words = append(words, fmt.Sprintf("%s %s", e.Type, e.Output.Outcome))
			outputs = append(outputs, *e.Output)
		}
	}
	return words, outputs
}

func toolCall(name, args string) pygent.ToolCall {
	return pygent.ToolCall{ID: "c1", Name: name, Arguments: args}
}

func toolNames(r *pygent.Registry) []string {
	var all []string
	for _, t := range r.Tools() {
		all = append(all, t.Name)
	}
	return all
}

// userTexts returns the messages of the user in a conversation.
func userTexts(t *testing.T, m *pygent.TaskManager, id string) (texts []string) {
	t.Helper()
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	for _, msg := range messages {
		if msg.Role == chat.RoleUser {
			texts = append(texts, msg.Content)
		}
	}
	return texts
}

func wait(id string) pygenttest.Reply {
	return pygenttest.Call("task_status", map[string]any{"task_id": id, "wait": 60})
}

func waitTask(t *testing.T, m *pygent.TaskManager, id string) pygent.TaskStatus {
	t.Helper()
	status, err := m.Wait(t.Context(), id)
	require.NoError(t, err)
	return status
}

func workspaceOf(t *testing.T, r pygent.Runtime) string {
	return r.(pygent.Describer).Describe(t.Context()).Workspace
}

// workspaceWith makes a workspace with files.
func workspaceWith(t *testing.T, files map[string]string) (dir string, rt pygent.Runtime) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	return dir, rt
}

// write makes a tree of files. A name that ends in a slash is a directory; a
// content that begins with -> is a link.
func write(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for name, content := range tree {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case name[len(name)-1] == '/':
			require.NoError(t, os.MkdirAll(path, 0o755))
		case len(content) > 2 && content[:2] == "->":
			require.NoError(t, os.Symlink(content[2:], path))
		default:
			require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// startedRuntimes has runtimes in containers, by the names of their kinds. Each is of one
// test at a time.
type startedRuntimes struct {
	mu   sync.Mutex
	idle map[string][]startedRuntime
}

// lend returns a runtime until the end of a test.
func (s *startedRuntimes) lend(t *testing.T, kind runtimeCase) pygent.Runtime {
	r, ok := s.take(kind.Name)
	if !ok {
		var err error
		r.Runtime, err = kind.Construct(context.Background(), kind.Options(t)...)
		require.NoError(t, err)
		if r.trace, err = traceOf(r.Runtime); err != nil {
			err = errors.Join(err, r.Cleanup())
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if !t.Failed() && r.clear() == nil {
			s.put(kind.Name, r)
			return
		}
		require.NoError(t, r.Cleanup())
	})
	return r.Runtime
}

func (s *startedRuntimes) take(kind string) (r startedRuntime, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle[kind]
	if len(idle) == 0 {
		return r, false
	}
	s.idle[kind] = idle[:len(idle)-1]
	return idle[len(idle)-1], true
}

func (s *startedRuntimes) put(kind string, r startedRuntime) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = map[string][]startedRuntime{}
	}
	s.idle[kind] = append(s.idle[kind], r)
}

// close ends all runtimes that are not lent.
func (s *startedRuntimes) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.idle)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, idle := range s.idle {
		for _, r := range idle {
			all.Go(func() {
				err := r.Cleanup()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// startedRuntime is a runtime, and its trace when it was new.
type startedRuntime struct {
	pygent.Runtime
	trace string
}

// clear empties the workspace. It returns an error if anything else is not as it was.
func (r startedRuntime) clear() error {
	if err := r.Runtime.(pygent.FileRemover).RemoveFile(context.Background(), ".", true); err != nil {
		return err
	}
	switch trace, err := traceOf(r.Runtime); {
	case err != nil:
		return err
	case trace != r.trace:
		return fmt.Errorf("a test left %q, where %q was", trace, r.trace)
	}
	return nil
}

// traceOf returns what tests leave behind in a container: jobs, processes, files.
func traceOf(r pygent.Runtime) (string, error) {
	jobs, err := r.(pygent.JobRunner).Jobs(context.Background())
	if err != nil {
		return "", err
	}
	res, err := r.Bash(context.Background(), `set -- /proc/[0-9]*; echo $#; ls -A . /tmp /var/tmp /root; stat -c '%a %u %g' . /tmp`)
	return fmt.Sprint(len(jobs), res.ExitCode, res.Output), err
}

// endingStarted is a test program that ends, after its tests, the runtimes that they used
// one after the other.
type endingStarted struct{ tests *testing.M }

func (e endingStarted) Run() int {
	code := e.tests.Run()
	if err := started.close(); err != nil {
		fmt.Fprintln(os.Stderr, "end the runtimes of the tests:", err)
		return 1
	}
	return code
}

// ended is the result of a call of Bash.
type ended struct {
	pygent.BashResult
	err error
}
