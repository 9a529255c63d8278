package pygent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

// savedAgent is an agent with files and a conversation that was compacted.
func savedAgent(t *testing.T, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "mkdir -p src .git && printf 'package x\n' > src/x.go && chmod 750 src/x.go && ln -s src/x.go link && echo ref > .git/HEAD && seq 4000"}),
		pygenttest.Text("made"),
		pygenttest.Text("again"),
	)
	a := newAgentOf(t, append([]pygent.Option{pygent.WithModel(model), pygent.WithModelName("m-1"), pygent.WithEndOnReply(), pygent.WithDocker(pygent.DockerNever)}, opts...)...)
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
	return newAgentOf(t, append(opts, s.Options()...)...), model
}

// treeOf describes everything below a directory.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		}
		rel, _ := filepath.Rel(dir, path)
		if rel != "." {
			all[rel] = info.Mode().String() + " " + content
		}
		return err
	}))
	return all
}

func hostDir(t *testing.T, a *pygent.Agent) string {
	t.Helper()
	d, ok := pygent.RuntimeAs[pygent.Describer](a.Runtime())
	require.True(t, ok)
	return d.Describe(t.Context()).HostDir
}

func TestSavedAgentGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	a := savedAgent(t, everyRestriction()...)
	_, err := a.Compact(t.Context())
	require.NoError(t, err)
	s := saved(t, a)
	before := treeOf(t, s.Dir())

	b, model := goesOn(t, s)
	require.Equal(t, a.State().Settings, b.State().Settings)
	require.Equal(t, a.Setup().BannedCommands, b.Setup().BannedCommands)
	require.NotEqual(t, asJSON(t, a.History().Messages()), asJSON(t, a.History().Conversation()), "nothing was compacted")
	require.Equal(t, asJSON(t, a.History().Conversation()), asJSON(t, b.History().Conversation()))
	require.Equal(t, asJSON(t, a.History().Entries()), asJSON(t, b.History().Entries()))
	require.Equal(t, treeOf(t, hostDir(t, a)), treeOf(t, hostDir(t, b)))

	_, err = b.RunUntilStop(t.Context(), "go on")
	require.NoError(t, err)
	require.Equal(t, "m-1", model.Requests()[0].Model)
	sent := model.Requests()[0].Messages
	require.Equal(t, asJSON(t, a.History().Conversation()[1:]), asJSON(t, sent[1:len(sent)-1]))
	require.NoError(t, b.Runtime().WriteFile(t.Context(), "src/x.go", []byte("other")))
	require.Equal(t, before, treeOf(t, s.Dir()), "the snapshot has changed")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(data)
}

// everyRestriction are settings that a snapshot may carry to another agent.
func everyRestriction() []pygent.Option {
	return []pygent.Option{
		pygent.WithPersona(pygent.Persona{Name: "Ada", Description: "counts"}),
		pygent.WithDisabledTools("read_image"),
		pygent.WithBannedCommands("git push"),
		pygent.WithBannedApps("curl"),
		pygent.WithSurvey(false),
		pygent.MaxSteps(7),
	}
}

func TestSnapshotIsReadWithPlainTools(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	work := treeOf(t, filepath.Join(s.Dir(), "workspace"))
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
	require.Equal(t, []string{"empty", "full", "snap"}, namesIn(t, base))
	require.Equal(t, []string{"mine"}, namesIn(t, full))
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSaveRefusesAPlaceThatCommandsReach(t *testing.T) {
	t.Parallel()
	a := savedAgent(t)
	_, err := snapshot.Save(t.Context(), a, filepath.Join(hostDir(t, a), "snap"))
	require.ErrorContains(t, err, "commands can change it")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(hostDir(t, a), link))
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
	a = newAgentOf(t, pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("x"))), pygent.WithEndOnReply(), pygent.WithDocker(pygent.DockerNever),
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
				old = treeOf(t, base)
			}
			ctx, cancel := context.WithCancel(t.Context())
			rt := cancelsExport{a.Runtime(), cancel}
			b := newAgentOf(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))
			_, err := snapshot.Save(ctx, b, dir, replace...)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, len(old), len(treeOf(t, base)))
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
	require.ErrorContains(t, err, "the workspace has files already")
	require.Equal(t, []string{"mine"}, namesIn(t, used))

	path := filepath.Join(t.TempDir(), "h.json")
	h, err := pygent.OpenHistory(path)
	require.NoError(t, err)
	require.NoError(t, h.Append(pygent.UserMessage("before")))
	require.NoError(t, h.Close())
	_, err = pygent.New(append(base, pygent.WithHistoryFile(path))...)
	require.ErrorContains(t, err, "has 1 message already")

	work, fresh := filepath.Join(t.TempDir(), "work"), filepath.Join(t.TempDir(), "h.json")
	a := newAgentOf(t, append(base, pygent.WithWorkspace(work), pygent.WithHistoryFile(fresh))...)
	require.Equal(t, asJSON(t, s.Messages()), asJSON(t, a.History().Messages()))
	require.FileExists(t, filepath.Join(work, "src", "x.go"))
	read, err := pygent.ReadHistory(fresh)
	require.NoError(t, err)
	require.Equal(t, asJSON(t, s.Messages()), asJSON(t, read.Messages()))
}

func TestSnapshotFillsTheRuntimeOfTheCaller(t *testing.T) {
	t.Parallel()
	s := saved(t, savedAgent(t))
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	a := newAgentOf(t, append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(rt))...)
	data, err := a.Runtime().ReadFile(t.Context(), "src/x.go")
	require.NoError(t, err)
	require.Equal(t, "package x\n", string(data))
	_, err = pygent.New(append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))...)
	require.ErrorContains(t, err, "the workspace has files already")
}

// slowUploads is a runtime whose uploads end only with their context.
type slowUploads struct {
	nowhere
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
	require.Equal(t, asJSON(t, s.Messages()), asJSON(t, a.History().Messages()))
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
	a := newAgentOf(t, c.Options()...)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("of this one\n")
	require.NoError(t, errors.Join(err, f.Close()))
	s := saved(t, a)
	data, err := os.ReadFile(filepath.Join(s.Dir(), "pygent.log"))
	require.NoError(t, err)
	require.Equal(t, "of this one\n", string(data))
	for name, content := range treeOf(t, s.Dir()) {
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
	a := newAgentOf(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(work),
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
