package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// savedAgent is an agent with files and a conversation that was compacted.
func savedAgent(t *testing.T, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "mkdir -p src .git && printf 'package x\n' > src/x.go && chmod 750 src/x.go && ln -s src/x.go link && echo ref > .git/HEAD && seq 4000"}),
		pygenttest.Text("made"),
		pygenttest.Text("again"),
	)
	a := testkit.NewAgent(t, append([]pygent.Option{pygent.WithModel(model), pygent.WithModelName("m-1"), pygent.WithEndOnReply(), pygent.WithDocker(pygent.DockerNever)}, opts...)...)
	for _, text := range []string{"make files", "and again"} {
		_, err := a.RunUntilStop(t.Context(), text)
		require.NoError(t, err)
	}
	return a
}

func saved(t *testing.T, a *pygent.Agent) *snapshot.Snapshot {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snap")
	_, err := snapshot.Save(t.Context(), a, dir)
	require.NoError(t, err)
	s, err := snapshot.Load(t.Context(), dir)
	require.NoError(t, err)
	return s
}

// goesOn returns an agent that goes on from a snapshot, and its model.
func goesOn(t *testing.T, s *snapshot.Snapshot, opts ...pygent.Option) (*pygent.Agent, *pygenttest.ScriptedModel) {
	t.Helper()
	model := pygenttest.NewScriptedModel(pygenttest.Text("on"))
	opts = append([]pygent.Option{pygent.WithModel(model), pygent.WithDocker(pygent.DockerNever)}, opts...)
	return testkit.NewAgent(t, append(opts, s.Options()...)...), model
}

func TestSavedAgentGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	a := savedAgent(t, everyRestriction()...)
	_, err := a.Compact(t.Context())
	require.NoError(t, err)
	s := saved(t, a)
	before := testkit.TreeOf(t, s.Dir())

	b, model := goesOn(t, s, project.Read())
	require.Equal(t, a.State().Settings, b.State().Settings)
	require.Equal(t, a.Setup().BannedCommands, b.Setup().BannedCommands)
	require.True(t, b.Setup().NoSurvey)
	require.NotEqual(t, testkit.JSON(t, a.History().Messages()), testkit.JSON(t, a.History().Conversation()), "nothing was compacted")
	require.Equal(t, testkit.JSON(t, a.History().Conversation()), testkit.JSON(t, b.History().Conversation()))
	require.Equal(t, testkit.JSON(t, a.History().Entries()), testkit.JSON(t, b.History().Entries()))
	require.Equal(t, testkit.TreeOf(t, testkit.HostDir(t, a)), testkit.TreeOf(t, testkit.HostDir(t, b)))

	_, err = b.RunUntilStop(t.Context(), "go on")
	require.NoError(t, err)
	require.Equal(t, "m-1", model.Requests()[0].Model)
	sent := model.Requests()[0].Messages
	require.Equal(t, testkit.JSON(t, a.History().Conversation()[1:]), testkit.JSON(t, sent[1:len(sent)-1]))
	require.NoError(t, b.Runtime().WriteFile(t.Context(), "src/x.go", []byte("other")))
	require.Equal(t, before, testkit.TreeOf(t, s.Dir()), "the snapshot has changed")
}

// everyRestriction are settings that a snapshot may carry to another agent.
func everyRestriction() []pygent.Option {
	return []pygent.Option{
		pygent.WithPersona(pygent.Persona{Name: "Ada", Description: "counts"}),
		pygent.WithDisabledTools("read_image"),
		pygent.WithBannedCommands("git push"),
		pygent.WithBannedApps("curl"),
		project.Read(project.Survey(false)),
		pygent.MaxSteps(7),
	}
}

// Whoever switched skills off did so for those of this user, too.
func TestASnapshotWithoutSkillsIsToldOfNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, map[string]string{"a/SKILL.md": "---\nname: a\ndescription: d\n---\nx"})
	for _, on := range []bool{true, false} {
		s := saved(t, savedAgent(t, project.Read(project.WorkspaceSkills(on))))
		b, model := goesOn(t, s, project.Read(project.Skills(dir)))
		_, err := b.RunUntilStop(t.Context(), "go on")
		require.NoError(t, err)
		require.Equal(t, on, strings.Contains(model.Requests()[0].Messages[0].Content, "# Skills"))
	}
}

func TestSnapshotIsReadWithPlainTools(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	work := testkit.TreeOf(t, filepath.Join(s.Dir(), "workspace"))
	require.Equal(t, "-rwxr-x--- package x\n", work["src/x.go"])
	require.Equal(t, "src/x.go", work["link"][len("Lrwxrwxrwx "):])
	require.Contains(t, work, ".git/HEAD")
	var messages []struct{ Role, Content string }
	readJSON(t, filepath.Join(s.Dir(), "history.json"), &messages)
	require.Equal(t, "make files", messages[1].Content)
	var about struct {
		Setup    pygent.Setup
		Messages int
	}
	readJSON(t, filepath.Join(s.Dir(), "snapshot.json"), &about)
	require.Equal(t, "m-1", about.Setup.Model)
	require.Len(t, messages, about.Messages)
	count, size := s.Files()
	require.Equal(t, []int64{3, int64(len("package x\nref\n"))}, []int64{count, size})
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

func TestSaveReplacesOnlySnapshots(t *testing.T) {
	t.Parallel()
	a := savedAgent(t)
	base := t.TempDir()
	full, snap, empty := filepath.Join(base, "full"), filepath.Join(base, "snap"), filepath.Join(base, "empty")
	require.NoError(t, os.MkdirAll(filepath.Join(full, "mine"), 0o777))
	require.NoError(t, os.Mkdir(empty, 0o777))
	_, err := snapshot.Save(t.Context(), a, snap)
	require.NoError(t, err)
	_, err = snapshot.Save(t.Context(), a, empty)
	require.NoError(t, err)

	_, err = snapshot.Save(t.Context(), a, snap)
	require.ErrorIs(t, err, snapshot.ErrExists)
	_, err = snapshot.Save(t.Context(), a, full, snapshot.Replace())
	require.ErrorIs(t, err, snapshot.ErrNone)
	require.NoError(t, a.Runtime().WriteFile(t.Context(), "new", []byte("n")))
	_, err = snapshot.Save(t.Context(), a, snap, snapshot.Replace())
	require.NoError(t, err)
	s, err := snapshot.Load(t.Context(), snap)
	require.NoError(t, err)
	count, _ := s.Files()
	require.EqualValues(t, 4, count)
	require.Equal(t, []string{"empty", "full", "snap"}, testkit.NamesIn(t, base))
	require.Equal(t, []string{"mine"}, testkit.NamesIn(t, full))
}

func TestSaveRefusesAPlaceThatCommandsReach(t *testing.T) {
	t.Parallel()
	a := savedAgent(t)
	_, err := snapshot.Save(t.Context(), a, filepath.Join(testkit.HostDir(t, a), "snap"))
	require.ErrorContains(t, err, "commands can change it")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(testkit.HostDir(t, a), link))
	_, err = snapshot.Save(t.Context(), a, filepath.Join(link, "src"), snapshot.Replace())
	require.ErrorContains(t, err, "commands can change it")
	_, err = snapshot.Save(t.Context(), a, "")
	require.ErrorContains(t, err, "no directory is named")
}

func TestSaveIsRefusedWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "snap")
	var a *pygent.Agent
	saved := errors.New("not called")
	a = testkit.NewAgent(t, pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("x"))), pygent.WithEndOnReply(), pygent.WithDocker(pygent.DockerNever),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventStep {
				_, saved = snapshot.Save(context.Background(), a, dir)
			}
		}))
	_, err := a.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.ErrorIs(t, saved, pygent.ErrAgentBusy)
	require.NoDirExists(t, dir)
	require.NoError(t, a.Close())
	_, err = snapshot.Save(t.Context(), a, dir)
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestCancelledSaveLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string][]snapshot.SaveOption{"new": nil, "replacing": {snapshot.Replace()}} {
		t.Run(name, func(t *testing.T) {
			a := savedAgent(t)
			base := t.TempDir()
			dir := filepath.Join(base, "snap")
			var old map[string]string
			if replace != nil {
				_, err := snapshot.Save(t.Context(), a, dir)
				require.NoError(t, err)
				old = testkit.TreeOf(t, base)
			}
			ctx, cancel := context.WithCancel(t.Context())
			rt := cancelsExport{a.Runtime(), cancel}
			b := testkit.NewAgent(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))
			_, err := snapshot.Save(ctx, b, dir, replace...)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, len(old), len(testkit.TreeOf(t, base)))
			require.ErrorIs(t, func() error { _, err := snapshot.Save(ctx, a, dir, replace...); return err }(), context.Canceled)
		})
	}
}

// cancelsExport ends the context of a save when the files are copied.
type cancelsExport struct {
	pygent.Runtime
	cancel func()
}

func (c cancelsExport) ExportFile(ctx context.Context, name, dest string) error {
	err := c.Runtime.ExportFile(ctx, name, dest)
	c.cancel()
	return err
}

func TestSnapshotGoesOnlyToEmptyPlaces(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	used := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(used, "mine"), []byte("m"), 0o600))
	base := append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever)}, s.Options()...)
	_, err := pygent.New(append(base, pygent.WithWorkspace(used))...)
	require.ErrorContains(t, err, "the workspace already has files")
	require.Equal(t, []string{"mine"}, testkit.NamesIn(t, used))

	path := filepath.Join(t.TempDir(), "h.json")
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	require.NoError(t, h.Append(chat.UserMessage("before")))
	require.NoError(t, h.Close())
	_, err = pygent.New(append(base, pygent.WithHistoryFile(path))...)
	require.ErrorContains(t, err, "already has 1 message")

	work, fresh := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), "h.json")
	a := testkit.NewAgent(t, append(base, pygent.WithWorkspace(work), pygent.WithHistoryFile(fresh))...)
	require.Equal(t, testkit.JSON(t, s.Messages()), testkit.JSON(t, a.History().Messages()))
	require.FileExists(t, filepath.Join(work, "src", "x.go"))
	read, err := chat.ReadHistory(fresh)
	require.NoError(t, err)
	require.Equal(t, testkit.JSON(t, s.Messages()), testkit.JSON(t, read.Messages()))
}

func TestSnapshotFillsTheRuntimeOfTheCaller(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	a := testkit.NewAgent(t, append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(rt))...)
	data, err := a.Runtime().ReadFile(t.Context(), "src/x.go")
	require.NoError(t, err)
	require.Equal(t, "package x\n", string(data))
	_, err = pygent.New(append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))...)
	require.ErrorContains(t, err, "the workspace already has files")
}

// slowUploads is a runtime whose uploads end only with their context.
type slowUploads struct {
	testkit.Nowhere
	begun func()
}

func (u slowUploads) UploadFile(ctx context.Context, _, _ string) error {
	u.begun()
	<-ctx.Done()
	return ctx.Err()
}

// endsWhenAsked is a context that ends when it is asked for the n-th time.
type endsWhenAsked struct {
	context.Context
	n   atomic.Int64
	end func()
}

func (c *endsWhenAsked) ask() {
	if c.n.Add(-1) == 0 {
		c.end()
	}
}

func (c *endsWhenAsked) Done() <-chan struct{} {
	c.ask()
	return c.Context.Done()
}

func (c *endsWhenAsked) Err() error {
	c.ask()
	return c.Context.Err()
}

func TestASnapshotThatIsInterruptedWhileItIsFilledInLeavesNothing(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	work, path := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), "h.json")
	base := append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithHistoryFile(path)}, s.Options()...)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pygent.NewWithContext(ctx, append(base, pygent.WithRuntime(slowUploads{begun: cancel}))...)
	require.ErrorIs(t, err, context.Canceled)

	var a *pygent.Agent
	for n := int64(1); err != nil; n++ {
		require.ErrorIs(t, err, context.Canceled)
		require.NoDirExists(t, filepath.Join(work, "src"))
		ctx, cancel := context.WithCancel(t.Context())
		asked := &endsWhenAsked{Context: ctx, end: cancel}
		asked.n.Store(n)
		a, err = pygent.NewWithContext(asked, append(base, pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(work))...)
	}
	require.Equal(t, testkit.JSON(t, s.Messages()), testkit.JSON(t, a.History().Messages()))
	require.FileExists(t, filepath.Join(work, "src", "x.go"))
	require.NoError(t, a.Close())
}

func TestSnapshotAllowsNothingThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	a := savedAgent(t, pygent.MaxSteps(500), pygent.MaxTasks(9), pygent.WithConfirmBash(false), pygent.WithImage("evil:1"),
		pygent.WithNetwork("host"), pygent.WithAllowedHosts(), pygent.WithEnv("TOKEN=hush"), pygent.MaxTokens(5000))
	s := saved(t, a)
	require.Zero(t, s.Setup().Machine)
	var told []string
	b, _ := goesOn(t, s, pygent.WithConfirmBash(true), pygent.MaxSteps(30), pygent.WithBannedCommands("rm"),
		pygent.WithDisabledTools("write_file"), pygent.MaxTokens(900),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventNotice {
				told = append(told, e.Text)
			}
		}))
	is := b.Setup()
	require.Equal(t, 30, is.Limits.MaxSteps)
	require.EqualValues(t, 900, is.Limits.MaxTokens)
	require.Equal(t, 0, is.MaxTasks)
	require.True(t, *is.ConfirmBash)
	require.Equal(t, pygent.DefaultImage, is.Runtime.Container.Image)
	require.Empty(t, is.Runtime.Container.Network)
	require.Equal(t, []string{"rm"}, is.BannedCommands)
	require.Contains(t, is.DisabledTools, "write_file")
	require.Empty(t, is.Env)
	_, err := b.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.Contains(t, told[0], `variable "TOKEN"`)
	require.Contains(t, told[0], "max_steps = 500")
	require.NotContains(t, told[0], "hush")
}

func TestSnapshotHasTheLogAndNoKey(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "pygent.log")
	require.NoError(t, os.WriteFile(log, []byte("of another session\n"), 0o600))
	c, err := pygent.ConfigSources{NoFiles: true, Lookup: func(string) (string, bool) { return "", false }, Overrides: map[string]string{
		"OPENAI_API_KEY": "sk-secret-1", "OPENAI_BASE_URL": "https://host.invalid/secret-2", "PYGENT_USE_DOCKER": "0",
		"PYGENT_LOG_FILE": log, "TOKEN": "secret-3", "PYGENT_OPENAI_HEADERS": `{"X-Key":"secret-4"}`,
	}}.Load()
	require.NoError(t, err)
	a := testkit.NewAgent(t, c.Options()...)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("of this one\n")
	require.NoError(t, errors.Join(err, f.Close()))
	s := saved(t, a)
	data, err := os.ReadFile(filepath.Join(s.Dir(), "pygent.log"))
	require.NoError(t, err)
	require.Equal(t, "of this one\n", string(data))
	for name, content := range testkit.TreeOf(t, s.Dir()) {
		require.NotContains(t, strings.ToLower(content), "secret", name)
	}
}

func TestDamagedSnapshotIsRefusedWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	a := savedAgent(t)
	change := func(name, old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(data), old)
			require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600))
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"a file":          {change("workspace/src/x.go", "package x", "package y"), "workspace/src/x.go has another content"},
		"its size":        {change("workspace/src/x.go", "package x", "package"), "has 8 bytes and had 10"},
		"a missing file":  {without("workspace/src/x.go"), "workspace/src/x.go is missing"},
		"a missing end":   {without("workspace/src"), "workspace/src is missing"},
		"a new file":      {adding("workspace/added"), "workspace/added is not in files.jsonl"},
		"a new last file": {adding("workspace/zz"), "workspace/zz is not in files.jsonl"},
		"permissions": {func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "workspace/.git/HEAD"), 0o700))
		}, "has the permissions"},
		"the history":       {change("history.json", "make files", "make filez"), "history.json has another content"},
		"no history":        {without("history.json"), "history.json is missing"},
		"no list":           {without("files.jsonl"), "files.jsonl"},
		"no workspace":      {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, "workspace"))) }, "workspace is missing"},
		"the count":         {change("snapshot.json", `"messages": 7`, `"messages": 8`), "has 7 messages, and snapshot.json says 8"},
		"the manifest":      {change("snapshot.json", `"format"`, `"format`), "snapshot.json"},
		"an unknown field":  {change("snapshot.json", `"saved"`, `"saved_by_force": true, "saved"`), "saved_by_force"},
		"a later version":   {change("snapshot.json", `"version": 1`, `"version": 2`), "version 2"},
		"another link":      {relink("workspace/link"), "workspace/link has another content"},
		"another directory": {func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "snapshot.json"))) }, "not a snapshot of pygent"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "snap")
			_, err := snapshot.Save(t.Context(), a, dir)
			require.NoError(t, err)
			c.spoil(t, dir)
			_, err = snapshot.Load(t.Context(), dir)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, dir)
		})
	}
	_, err := snapshot.Load(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func without(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, name))) }
}

func adding(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
}

func relink(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, name)))
	}
}

func TestASaveTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	var told []pygent.ProgressInfo
	var mu sync.Mutex
	work := t.TempDir()
	a := testkit.NewAgent(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(work),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventSaving {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, *e.Progress)
			}
		}))
	require.NoError(t, os.WriteFile(filepath.Join(work, "small"), []byte("x"), 0o600))
	_, err := snapshot.Save(t.Context(), a, filepath.Join(t.TempDir(), "small"))
	require.NoError(t, err)
	require.Empty(t, told, "it is quick")

	const large = 100 << 20
	require.NoError(t, os.WriteFile(filepath.Join(work, "large"), make([]byte, large), 0o600))
	_, err = snapshot.Save(t.Context(), a, filepath.Join(t.TempDir(), "large"))
	require.NoError(t, err)
	require.NoError(t, a.Close()) // all events were handled
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, told)
	for i, p := range told[1:] {
		require.GreaterOrEqual(t, p.Current, told[i].Current)
	}
	last := told[len(told)-1]
	require.Equal(t, pygent.ProgressInfo{Text: "saving", Current: 2 * (large + 1), Total: 2 * (large + 1)}, last)
}

// TestAWorkspaceOfEveryKindIsSaved saves the workspace of each kind of runtime, and
// goes on in another one of the same kind, both lent and the agent's own.
func TestAWorkspaceOfEveryKindIsSaved(t *testing.T) {
	t.Parallel()
	for _, c := range testkit.RuntimeKinds() {
		t.Run(c.Name, func(t *testing.T) {
			rt := c.New(t)
			a := testkit.NewAgent(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))
			made := testkit.Bash(t, rt, "umask 022; mkdir -p src .git && echo x >src/x && chmod 750 src/x && ln -s src/x link && ln -s /etc/passwd out && mkfifo pipe && echo ref >.git/HEAD && mkdir shut && echo y >shut/y && chmod 500 shut")
			require.Zero(t, made.ExitCode, made.Output)
			dir := filepath.Join(t.TempDir(), "snap")
			_, err := snapshot.Save(t.Context(), a, dir)
			require.NoError(t, err)
			s, err := snapshot.Load(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, []string{"pipe (no regular file)"}, s.LeftOut())
			count, _ := s.Files()
			require.EqualValues(t, 5, count)

			other := c.New(t)
			testkit.NewAgent(t, append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(other))...)
			const look = "cat src/x .git/HEAD shut/y; readlink link; readlink out; ls -ld shut src/x | cut -c1-10; ls -A"
			require.Equal(t, "x\nref\ny\nsrc/x\n/etc/passwd\ndr-x------\n-rwxr-x---\n.git\nlink\nout\nshut\nsrc\n",
				testkit.Bash(t, other, look).Output)
		})
	}
}

func TestAnAgentOfItsOwnContainerGoesOn(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(testing.TB) []pygent.RuntimeOption{
		"docker": func(t testing.TB) []pygent.RuntimeOption {
			testkit.RequireDocker(t)
			return []pygent.RuntimeOption{pygent.WithImage(enginetest.Image())}
		},
		"remote": testkit.OnRemote,
	} {
		t.Run(name, func(t *testing.T) {
			var base []pygent.Option
			for _, o := range options(t) {
				base = append(base, o)
			}
			base = append(base, pygent.WithDocker(pygent.DockerRequired), pygent.WithEndOnReply())
			model := pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "f", "content": "kept"}), pygenttest.Text("written"))
			a := testkit.NewAgent(t, append(base, pygent.WithModel(model))...)
			_, err := a.RunUntilStop(t.Context(), "write")
			require.NoError(t, err)
			s := saved(t, a)
			require.NoError(t, a.Close())

			model = pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]any{"cmd": "cat f; echo more >>f"}), pygenttest.Text("read"))
			b := testkit.NewAgent(t, append(append(base, pygent.WithModel(model)), s.Options()...)...)
			_, err = b.RunUntilStop(t.Context(), "read")
			require.NoError(t, err)
			sent := model.Requests()[1].Messages
			require.Contains(t, sent[len(sent)-1].Content, "kept")
			data, err := os.ReadFile(filepath.Join(s.Dir(), "workspace", "f"))
			require.NoError(t, err)
			require.Equal(t, "kept", string(data))
		})
	}
}

// BenchmarkSnapshot saves and loads a workspace of 1,000 files, on this machine and in
// a container, and tells the most memory that this process had meanwhile.
// PYGENT_BENCH_MIB sets how large the workspace is; 1024 takes a while.
func BenchmarkSnapshot(b *testing.B) {
	mib := 64
	if n, err := strconv.Atoi(os.Getenv("PYGENT_BENCH_MIB")); err == nil {
		mib = n
	}
	for _, kind := range []struct {
		name string
		opts []pygent.Option
	}{
		{"local", []pygent.Option{pygent.WithDocker(pygent.DockerNever)}},
		{"docker", []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image())}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			if kind.name == "docker" {
				testkit.RequireDocker(b)
			}
			opts := append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel()), pygent.MaxCopyBytes(pygent.NoLimit)}, kind.opts...)
			agent, err := pygent.New(opts...)
			require.NoError(b, err)
			defer func() { require.NoError(b, agent.Close()) }()
			for i := range 10 { // a command may not take for ever
				made, err := agent.Runtime().Bash(b.Context(), fmt.Sprintf("for i in $(seq 100); do head -c %d /dev/urandom > f%d-$i; done", mib<<20/1000, i))
				require.NoError(b, err)
				require.Zero(b, made.ExitCode, made.Output)
			}
			var saving, loading time.Duration
			peak := peakMemory()
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "snap")
				start := time.Now()
				_, err := snapshot.Save(b.Context(), agent, dir)
				require.NoError(b, err)
				saving += time.Since(start)
				start = time.Now()
				_, err = snapshot.Load(b.Context(), dir)
				require.NoError(b, err)
				loading += time.Since(start)
				require.NoError(b, os.RemoveAll(dir))
			}
			b.ReportMetric(saving.Seconds()/float64(b.N), "s/save")
			b.ReportMetric(loading.Seconds()/float64(b.N), "s/load")
			b.ReportMetric(float64(peakMemory()), "MiB-peak")
			b.ReportMetric(float64(peak), "MiB-before")
		})
	}
}

// peakMemory returns the most memory that this process had, in MiB; 0 where the system
// does not tell. It begins anew afterwards, if the system can do that.
func peakMemory() (mib int) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			mib = kib >> 10
		}
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return mib
}
