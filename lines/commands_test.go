package lines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestSessionCommands(t *testing.T) {
	command := func(name string, run func(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error) {
		require.NoError(t, pygent.RegisterCommand(pygent.Command{Name: name, Summary: "test " + name, Help: "More of " + name + ".", Run: run}))
	}
	command("test-echo", func(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
		fmt.Fprintf(out, "%s hears %q\n", a.Persona().Name, args)
		return nil
	})
	command("test-fails", func(context.Context, *pygent.Agent, string, io.Writer) error { return errors.New("no luck") })
	command("test-eof", func(context.Context, *pygent.Agent, string, io.Writer) error { return io.EOF })
	command("test-panics", func(context.Context, *pygent.Agent, string, io.Writer) error { panic("oops") })
	command("test-says", func(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
		result, err := a.Step(ctx, args)
		fmt.Fprintln(out, "it said", result.Message.Text())
		return err
	})
	tests := []struct {
		name, input, want string
	}{
		{"exit", "/exit\nnever\n", ""},
		{"exit with spaces", "  /exit  \nnever\n", ""},
		{"help of one", "/help exit\n", "/exit: end the session\n"},
		{"help of one with its slash", "/help /test-echo\n", "/test-echo: test test-echo\nMore of test-echo.\n"},
		{"help of none", "/help nope\n", "error: no command /nope; /help lists the commands\n"},
		{"unknown", "/nope x\n", "error: no command /nope; /help lists the commands\n"},
		{"a slash alone", "/\n", "error: the name of a command follows the /; /help lists them\n"},
		{"a command", "/test-echo  a  b \n", "Pygent hears \"a  b\"\n"},
		{"a tab before the arguments", "/test-echo\ta\n", "Pygent hears \"a\"\n"},
		{"no arguments", "/test-echo\n", "Pygent hears \"\"\n"},
		{"an error, then on", "/test-fails\n/test-echo x\n", "error: /test-fails: no luck\nPygent hears \"x\"\n"},
		{"an error like an end, then on", "/test-eof\n/test-echo x\n", "error: /test-eof: EOF\nPygent hears \"x\"\n"},
		{"a panic, then on", "/test-panics\n/test-echo x\n", "error: /test-panics: panic: oops\nPygent hears \"x\"\n"},
		{"a message that begins with a path", "/etc/passwd is what?\n", "hello\n"},
		{"a command that asks the model", "/test-says hi\n", "it said hello\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shown, _ := converse(t, tt.input, pygenttest.NewScriptedModel(pygenttest.Text("hello")))
			require.Equal(t, tt.want, shown)
		})
	}
	shown, _ := converse(t, "/help\n", pygenttest.NewScriptedModel())
	require.Regexp(t, `(?m)^/exit  +end the session$`, shown)
	require.Regexp(t, `(?m)^/help \[NAME\]  +list the commands`, shown)
	require.Regexp(t, `(?m)^/test-echo  +test test-echo$`, shown)
	require.Less(t, strings.Index(shown, "/exit"), strings.Index(shown, "/help"))
}

func TestLinesOfTheShellNeverReachTheModel(t *testing.T) {
	t.Parallel()
	without := "error: lines that begin with \"!\" run commands, which this program does not support; it was not sent\n"
	shown, _ := converse(t, "!echo secret\n!\n", pygenttest.NewScriptedModel())
	require.Equal(t, without+without, shown)

	cmd := pygent.Command{Name: "cmd", Summary: "run", Script: func(_ context.Context, _ *pygent.Agent, args string) (string, error) { return args, nil }}
	shown, agent := converse(t, "! echo 'a  b' c\n!\n", pygenttest.NewScriptedModel(), pygent.WithCommands(cmd))
	require.Equal(t, "a  b c\nerror: type a command after \"!\"\n", shown)
	require.Empty(t, userMessages(agent))
}

func TestRegisterCommandRefuses(t *testing.T) {
	run := func(context.Context, *pygent.Agent, string, io.Writer) error { return nil }
	for want, c := range map[string]pygent.Command{
		"1 to 64":            {Name: "two words", Run: run},
		`command ""`:         {Run: run},
		"Run is nil":         {Name: "test-nil"},
		"command help: buil": {Name: "help", Run: run},
		"command exit: buil": {Name: "exit", Run: run},
	} {
		require.ErrorContains(t, pygent.RegisterCommand(c), want)
	}
	require.NoError(t, pygent.RegisterCommand(pygent.Command{Name: "test-twice", Run: run}))
	require.NoError(t, pygent.RegisterCommand(pygent.Command{Name: "test-twice", Run: func(_ context.Context, _ *pygent.Agent, _ string, out io.Writer) error {
		_, err := io.WriteString(out, "the second\n")
		return err
	}}), "one of the same name is replaced")
	shown, _ := converse(t, "/test-twice\n", pygenttest.NewScriptedModel())
	require.Equal(t, "the second\n", shown)
}

func TestSessionShowsTheCompactionThatTheUserAsksFor(t *testing.T) {
	t.Parallel()
	long := pygenttest.Text(strings.Repeat("A long answer. ", 2000))
	shown, _ := converse(t, "one\ntwo\n/compact\n", pygenttest.NewScriptedModel(long, pygenttest.Text("short"), pygenttest.Text("Task: talk. Nothing is open.")))
	require.Contains(t, shown, "! the model is summarising the conversation\n")
	require.Regexp(t, `(?m)^! the conversation was compacted from about \d+ to \d+ tokens`, shown)
}

func TestSessionSendsTheMessageOfACommand(t *testing.T) {
	t.Parallel()
	look := pygent.Command{Name: "look", Message: func(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
		part, err := chat.FilePart("notes.txt", []byte("three words here"))
		return chat.UserMessage("Count the "+args+".", part), err
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Text("Three."), pygenttest.Text("Fine."))
	shown, agent := converse(t, "/look words\n/review it\n/review nothing\n", model, pygent.WithCommands(look, reviewing))
	require.Equal(t, "Three.\nFine.\nerror: /review: there is nothing to review\n", shown)
	require.Contains(t, userMessages(agent)[0], "Count the words.")
	require.Contains(t, userMessages(agent)[0], "three words here")
	require.Equal(t, "Review it.", userMessages(agent)[1])
}

func TestSessionSendsAllOfTheMessageOfACommand(t *testing.T) {
	t.Parallel()
	speak := pygent.Command{Name: "speak", Message: func(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
		return pygent.Message{Content: args, Name: "ada"}, nil
	}}
	_, agent := converse(t, "/speak hello\n", pygenttest.NewScriptedModel(pygenttest.Text("Hello.")), pygent.WithCommands(speak))
	said := agent.History().Messages()[1]
	require.Equal(t, "hello", said.Text())
	require.Equal(t, "ada", said.Name)
	require.Empty(t, agent.State().Unheard)
}

// reviewing is a command that sends a message.
var reviewing = pygent.Command{
	Name: "review", Usage: "[FILE]", Summary: "have a file reviewed", Help: "Without FILE, all of them.",
	Message: func(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
		if args == "nothing" {
			return pygent.Message{}, errors.New("there is nothing to review")
		}
		return chat.UserMessage("Review " + args + "."), nil
	},
}
