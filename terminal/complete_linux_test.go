package terminal_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestCommandsAreCompleted(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Type("/co")
	p.Await("› /co", "❯ /colour", "  /compact", "summarise the conversation", tabCompletes)
	p.Type("m")
	p.Await("› /com", "❯ /compact")
	p.AwaitNo("/colour")
	p.Key("tab")
	p.Await("› /compact")
	p.Key("ctrl+c")
	p.AwaitNo("let a summary")
	p.Type("/col")
	p.Await("❯ /colour")
	p.Key("tab")
	p.Await("› /colour ", "❯ dark red", "  dark blue", "  light")
	p.Type("d")
	p.AwaitNo("  light")
	p.Key("tab")
	p.Await(`› /colour "dark `)
	p.Key("down")
	p.Await("❯ dark blue", "Enter or Tab accept")
	p.Key("enter")
	p.Await(`› /colour "dark blue"`)
	require.NotContains(t, p.All(), "it is now", "nothing was sent")
	p.Key("enter")
	p.Await("it is now dark blue")
	p.Type("/he")
	p.Await("❯ /help")
	p.Key("esc")
	p.AwaitNo("❯ /help")
	p.Type("l")
	p.Await("❯ /help")
	p.Key("enter")
	p.Await("no command /hel, did you mean /help?") // what was typed is sent
	p.Type("/help com")
	p.Await("❯ compact")
	p.Key("tab", "enter")
	p.Await("/compact  summarise")
	p.Key("up", "up") // the history goes on, although what it shows could be completed
	p.Await("› /hel")
	p.Key("up")
	p.Await(`› /colour "dark blue"`)
	p.Key("ctrl+c")
	p.Type("/panics x")
	p.Await("› /panics x")
	p.Key("tab", "ctrl+c")
	p.Type("hi\n")
	p.Await("Hello.", "Ready")
	p.leaves()
}

func TestTabCompletesFilesInCommandLinesOfOnesOwn(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{"alpha.txt": "first", "alps.txt": "second", "beta file": "third", "sub/gamma": "fourth"})
	p := sit(t, pygenttest.NewServer(t), "PYGENT_WORKSPACE="+dir)
	p.Type("!cat a")
	p.Await("$ !cat a")
	p.AwaitNo(tabCompletes) // nothing is offered before
	p.Key("tab")
	p.Await("$ !cat alp")
	p.Key("tab")
	p.Await("❯ alpha.txt", "  alps.txt", tabCompletes)
	p.Key("esc")
	p.AwaitNo(tabCompletes) // or it is Alt-H
	p.Type("h")
	p.Key("tab")
	p.Await("$ !cat alpha.txt ")
	p.Type("./s")
	p.Key("tab")
	p.Await("./sub/")
	p.Key("tab")
	p.Await("./sub/gamma ")
	p.Type("be")
	p.Key("tab")
	p.Await("'beta file' ")
	p.Type("zz")
	p.Key("tab")
	p.Await("no matching file")
	p.Key("backspace", "backspace", "enter")
	p.Await("firstfourththird", "✓ exit 0")
	p.leaves()
}

func TestTabWaitsForTheChoices(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t))
	p.Send("/colour l\t")
	p.Await("› /colour light ")
	p.Key("ctrl+c")
	p.leaves()
}

// workspace makes a workspace with files, by name. All are equally old, since those
// that were changed last are offered first.
func workspace(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	made := time.Now()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Chtimes(path, made, made))
	}))
	return dir
}

const onePixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

func TestFilesThatAMessageNamesGoAlong(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{
		"main.go": "package main\n", "src/a b.txt": "blanks\n", "src/deep/other.go": "package deep\n",
		"big.log": strings.Repeat("line\n", 100_000), "pic.png": onePixel, "core": "\x7fELF\x00\x01",
		"odd\x1b[35m\nname.txt": "odd\n", ".git/config": "",
	})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two.")), "PYGENT_WORKSPACE="+dir)
	p.Type("see @mgo")
	p.Await("❯ main.go")
	p.Key("tab")
	p.Await("› see @main.go ")
	p.Type("@a b")
	p.AwaitNo("❯")
	p.Key("backspace", "backspace")
	p.Await("❯")
	p.Type(" b")
	p.Key("ctrl+w", "ctrl+w", "backspace")
	p.Type(`@"a b`)
	p.Await("❯ src/a b.txt")
	p.Key("tab")
	p.Await(`@"src/a b.txt" `)
	p.Type("@sr")
	p.Await("❯ src/")
	p.Key("tab")
	p.Await("@src/", "src/deep/")
	p.Type(" @odd")
	p.Await(`❯ "odd\x1b[35m\nname.txt"`)
	p.Key("tab")
	p.Type("@big.log, (@pic.png) @core @nothing.go @ada a@main.go @../etc @main.go!\n")
	p.Await("› see @main.go", "[main.go · 13 B]", "[src/a b.txt · 7 B]", "[src/ · listed]", `["odd\x1b[35m\nname.txt" · 4 B]`,
		"[big.log · not with it]", "[pic.png · 33 B]", "[core · not with it]", "! not in the workspace: nothing.go, ada, ../etc", "One.", "Ready")
	require.Equal(t, 1, strings.Count(p.All(), "package main")+1, "contents are not printed")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package changed\n"), 0o600))
	p.Type("and now @main.go")
	p.Await("› and now @main.go")
	p.Key("enter")
	p.Await("[main.go · 16 B]", "Two.", "Ready")
	msgs := p.leaves()
	parts := msgs[1].Parts
	require.Len(t, parts, 8)
	require.Contains(t, parts[0].Text, "see @main.go ")
	require.Contains(t, parts[1].Text, "The file main.go:\n```\npackage main\n```")
	require.Contains(t, parts[2].Text, "The file src/a b.txt:\n```\nblanks\n```")
	require.Contains(t, parts[3].Text, "a b.txt")
	require.Contains(t, parts[3].Text, "deep")
	require.Contains(t, parts[4].Text, "```\nodd\n```")
	require.Contains(t, parts[5].Text, "The content of the file big.log does not go along: it is too large (500.0 kB)")
	require.NotEmpty(t, parts[6].ImageURL)
	require.Contains(t, parts[7].Text, "The content of the file core does not go along")
	require.Contains(t, msgs[3].Parts[1].Text, "package changed")
	require.NotContains(t, string(p.Raw()), "\x1b[35m")
}

func TestNamedFilesGoWithQueuedMessagesAndAnswers(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{"a.txt": "first\n"})
	gate := make(chan struct{})
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"red", "blue"}})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.").WithGate(gate), ask, pygenttest.Text("Done so.")), "PYGENT_WORKSPACE="+dir)
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("queued @a.txt \n")
	p.Await("Next: queued @a.txt [a.txt · 6 B]")
	p.Key("up")
	p.Await("› queued @a.txt")
	p.AwaitNo("Next:")
	p.Key("enter")
	p.Await("Next: queued @a.txt [a.txt · 6 B]")
	persontest.Give(t, gate)
	p.Await("[a.txt · 6 B]", "? Which one?", "Ready")
	p.reads()
	p.Type("like @a.txt ")
	p.Await("› like @a.txt")
	p.pauses()
	p.Key("enter")
	p.Await("Done so.", "Ready")
	msgs := p.leaves()
	require.Contains(t, msgs[3].Parts[1].Text, "first")
	require.Contains(t, msgs[len(msgs)-2].Parts[1].Text, "first")
}

// entersAnswer presses Enter to answer the model's question with the draft, again
// where it came together with the keys before it, as a paste does. Each Enter waits:
// what a loaded machine reads late would else be a paste of them.
func (p *person) entersAnswer() {
	p.t.Helper()
	for refused := true; refused; {
		p.pauses()
		p.Key("enter")
		refused = false
		p.Until("an answer that is taken or refused", func(s termtest.Screen) bool {
			text := s.Text()
			refused = strings.Contains(text, "pasted text does not answer")
			return refused || !strings.Contains(text, "type an answer")
		})
	}
}

// A pasted text is not looked through for names of files, whatever it answers.
func TestFilesNamedInAPasteDoNotGoWithAnAnswer(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{"a.txt": "first\n", "b.txt": "second\n"})
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?"})
	p := sit(t, pygenttest.NewServer(t, ask, pygenttest.Text("Done so.")), "PYGENT_WORKSPACE="+dir)
	p.Type("go\n")
	p.Await("? Which one?", "Ready")
	p.reads()
	p.Paste(strings.Repeat("see @a.txt in this\n", 20))
	p.Await("[pasted 20 lines]")
	p.Type(" @b.txt ")
	p.Await("@b.txt")
	p.entersAnswer()
	p.Await("Done so.", "Ready")
	msgs := p.leaves()
	parts := msgs[len(msgs)-2].Parts
	require.Len(t, parts, 2)
	require.Contains(t, parts[1].Text, "second")
}

func TestManyFilesAreListedWithoutBeingWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of files")
	}
	files := map[string]string{"zzz/deep/down/wanted.go": "package wanted\n"}
	for i := range 3000 {
		files[fmt.Sprintf("dir%d/file%d.txt", i%50, i)] = ""
		files[fmt.Sprintf("node_modules/m%d/wanted.go", i%500)] = ""
	}
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.")), "PYGENT_WORKSPACE="+workspace(t, files))
	p.Send("@wanted\t")
	p.Await("› @zzz/deep/down/wanted.go ")
	p.Key("enter")
	p.Await("[zzz/deep/down/wanted.go · 15 B]", "One.", "Ready")
	p.leaves()
}

// testCommands are commands of the tests' program.
var testCommands = []pygent.Command{
	{
		Name: "colour", Usage: "NAME", Summary: "set a colour",
		Run: func(_ context.Context, _ *pygent.Agent, args string, out io.Writer) error {
			_, err := fmt.Fprintln(out, "it is now "+strings.Trim(args, `"`))
			return err
		},
		Complete: func(context.Context, *pygent.Agent, []string) []string {
			return []string{"dark red", "dark blue", "light"}
		},
	}, {
		Name: "panics", Summary: "has a completion that panics",
		Run:      func(context.Context, *pygent.Agent, string, io.Writer) error { return nil },
		Complete: func(context.Context, *pygent.Agent, []string) []string { panic("oops") },
	}, {
		Name: "closes", Summary: "has the program close the agent",
		Run: func(_ context.Context, a *pygent.Agent, _ string, _ io.Writer) error {
			go a.Close()
			return nil
		},
	}, {
		Name: "project", Summary: "say something long",
		Message: func(context.Context, *pygent.Agent, string) (pygent.Message, error) {
			return chat.UserMessage(strings.Repeat("a long task ", 50)), nil
		},
	},
}
