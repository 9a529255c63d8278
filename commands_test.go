package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/pygenttest"
)

// quiet is what Run of a command can be that does nothing.
func quiet(context.Context, *pygent.Agent, string, io.Writer) error { return nil }

// printing returns a command that prints its arguments.
func printing(name string) pygent.Command {
	return pygent.Command{Name: name, Usage: "TEXT", Summary: "print it", Run: func(_ context.Context, _ *pygent.Agent, args string, out io.Writer) error {
		_, err := fmt.Fprintf(out, "<%s>", args)
		return err
	}}
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

// lateCommands keeps apart what several runs of the test register.
var lateCommands atomic.Int64

func TestCommandsOfAnAgent(t *testing.T) {
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(reviewing), pygent.WithCommands(printing("a-print")))
	late := fmt.Sprintf("test-late-%d", lateCommands.Add(1))
	require.NoError(t, pygent.RegisterCommand(pygent.Command{Name: late, Run: quiet}))
	var names []string
	for _, c := range agent.Commands() {
		if !strings.HasPrefix(c.Name, "test-") { // those that other tests registered
			names = append(names, c.Name)
		}
		if c.Name == "review" {
			data, err := json.Marshal(c)
			require.NoError(t, err)
			require.JSONEq(t, `{"name":"review","usage":"[FILE]","summary":"have a file reviewed","help":"Without FILE, all of them."}`, string(data))
		}
		require.NotEqual(t, late, c.Name, "the agent was there before")
	}
	require.Equal(t, []string{"a-print", "compact", "exit", "help", "new", "resume", "review"}, names)
	other := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	_, err := other.RunCommand(t.Context(), "/review", nil)
	require.EqualError(t, err, "no command /review; /help lists the commands")
	_, err = other.RunCommand(t.Context(), "/"+late, nil)
	require.NoError(t, err)
}

func TestRunCommand(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(context.Context, *pygent.Agent, string, io.Writer) error) pygent.Command {
		return pygent.Command{Name: name, Run: f}
	}
	message := func(name string, msg pygent.Message) pygent.Command {
		return pygent.Command{Name: name, Message: func(context.Context, *pygent.Agent, string) (pygent.Message, error) { return msg, nil }}
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(reviewing, printing("print"),
		run("fails", func(_ context.Context, _ *pygent.Agent, _ string, out io.Writer) error {
			fmt.Fprint(out, "half")
			return io.ErrUnexpectedEOF
		}),
		run("panics", func(context.Context, *pygent.Agent, string, io.Writer) error { panic("oops") }),
		run("floods", func(_ context.Context, _ *pygent.Agent, _ string, out io.Writer) error {
			for range 1 << 10 {
				fmt.Fprint(out, strings.Repeat("x", 1<<12))
			}
			return nil
		}),
		message("silent", pygent.Message{}), message("model", chat.AssistantMessage("I am the model")),
		message("roleless", pygent.Message{Content: "hi"}),
	))
	said := func(text string) *pygent.Message { msg := chat.UserMessage(text); return &msg }
	for line, want := range map[string]pygent.CommandResult{
		"/print":          {Output: "<>"},
		" /print  a  b ":  {Output: "<a  b>"},
		"/help review":    {Output: "/review [FILE]: have a file reviewed\nWithout FILE, all of them.\n"},
		"/review main.go": {Message: said("Review main.go.")},
		"/roleless":       {Message: said("hi")},
		"/exit":           {Leave: true},
		"/quit":           {Leave: true},
		"/help quit":      {Output: "/exit: end the session\n"},
		"/resume":         {Resume: true},
	} {
		result, err := agent.RunCommand(t.Context(), line, nil)
		require.NoError(t, err, line)
		require.Equal(t, want, result, line)
	}
	for line, want := range map[string]string{
		"/nope x":         "no command /nope; /help lists the commands",
		"/":               "the name of a command follows the /; /help lists them",
		"/exit now":       "/exit: it takes no arguments",
		"/quit now":       "/exit: it takes no arguments",
		"/clear":          "no command /clear, did you mean /new? /help lists the commands",
		"/Q":              "no command /Q, did you mean /exit? /help lists the commands",
		"/help reset":     "no command /reset, did you mean /new? /help lists the commands",
		"/cost":           "no command /cost; /help lists the commands",
		"/help nope":      "no command /nope; /help lists the commands",
		"print":           `a command begins with "/", and its name has no other`,
		"":                `a command begins with "/", and its name has no other`,
		"/etc/passwd x":   `a command begins with "/", and its name has no other`,
		"/resume it":      "/resume: it takes no arguments",
		"/compact it":     "/compact: it takes no arguments",
		"/compact":        "/compact: nothing of the conversation can be left out: nothing was said yet",
		"/review nothing": "/review: there is nothing to review",
		"/panics":         "/panics: panic: oops",
		"/silent":         "/silent: the message is empty",
		"/model":          "/model: only messages of the user can be said, and this is one of the assistant",
	} {
		result, err := agent.RunCommand(t.Context(), line, nil)
		require.EqualError(t, err, want, line)
		require.Zero(t, result, line)
	}
	result, err := agent.RunCommand(t.Context(), "/fails", nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "half", result.Output)
	result, err = agent.RunCommand(t.Context(), "/floods", nil)
	require.NoError(t, err)
	require.Less(t, len(result.Output), 2<<20)
	require.Contains(t, result.Output, "more bytes not shown")

	var out strings.Builder
	result, err = agent.RunCommand(t.Context(), "/print x", &out)
	require.NoError(t, err)
	require.Equal(t, "<x>", out.String())
	require.Zero(t, result)

	var none context.Context
	_, err = agent.RunCommand(none, "/help", nil)
	require.ErrorContains(t, err, "context")
	require.NoError(t, agent.Close())
	_, err = agent.RunCommand(t.Context(), "/help", nil)
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestACommandThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn, late := make(chan struct{}), make(chan error, 1)
		deaf := pygent.Command{Name: "deaf", Run: func(_ context.Context, _ *pygent.Agent, _ string, out io.Writer) error {
			fmt.Fprint(out, "early")
			<-goOn
			_, err := fmt.Fprint(out, "late")
			late <- err
			return err
		}}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(deaf))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out strings.Builder
		_, err := agent.RunCommand(ctx, "/deaf", &out)
		require.ErrorIs(t, err, context.Canceled)
		close(goOn)
		require.ErrorIs(t, <-late, io.ErrClosedPipe)
		require.Equal(t, "early", out.String(), "the writer is the caller's again")
	})
}

func TestACommandSpeaksToTheModelWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Call("wait", nil), pygenttest.Text("reviewed"))
	var agent *pygent.Agent
	wait := pygent.NewTool("wait", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		result, err := agent.RunCommand(ctx, "/review it", nil)
		if err != nil {
			return "", err
		}
		_, err = agent.Say(*result.Message)
		return "waited", err
	})
	agent = newAgentOn(t, nowhere{}, model, pygent.WithCommands(reviewing), pygent.WithTools(wait))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, []string{"waited"}, results(agent))
	require.Equal(t, []string{"go", "Review it."}, users(agent))
}

func TestNewRefusesCommands(t *testing.T) {
	require.NoError(t, pygent.RegisterCommand(pygent.Command{Name: "test-taken", Summary: "the registered one", Run: quiet}))
	for want, commands := range map[string][]pygent.Command{
		`option WithCommands: command "two words": a name has 1 to 64 letters, digits, _ or -`:  {{Name: "two words", Run: quiet}},
		`option WithCommands: command "": a name has 1 to 64 letters, digits, _ or -`:           {{Run: quiet}},
		"option WithCommands: command x: Run is nil, and so are Script and Message":             {{Name: "x"}},
		"option WithCommands: command x: Interactive is for commands with Run":                  {{Name: "x", Interactive: true, Message: reviewing.Message}},
		"option WithCommands: command x: it has 2 of Run, Script and Message; give one of them": {{Name: "x", Run: quiet, Message: reviewing.Message}},
		"option WithCommands: command help: built in, and cannot be replaced":                   {{Name: "help", Run: quiet}},
		"option WithCommands: command x (two): there is another one of that name (one)":         {{Name: "x", Summary: "one", Run: quiet}, {Name: "x", Summary: "two", Run: quiet}},
		"option WithCommands: command test-taken (mine): RegisterCommand added one of that name (the registered one)": {
			{Name: "test-taken", Summary: "mine", Run: quiet}},
	} {
		_, err := pygent.New(pygent.WithRuntime(nowhere{}), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithCommands(commands...))
		require.EqualError(t, err, want)
	}
}

// completing is a command whose arguments are completed by a function.
func completing(name string, complete func(ctx context.Context, words []string) []string) pygent.Command {
	return pygent.Command{
		Name: name, Summary: "about " + name,
		Run:      func(context.Context, *pygent.Agent, string, io.Writer) error { return nil },
		Complete: func(ctx context.Context, _ *pygent.Agent, words []string) []string { return complete(ctx, words) },
	}
}

func TestCompleteCommand(t *testing.T) {
	t.Parallel()
	fixed := func(words ...string) func(context.Context, []string) []string {
		return func(context.Context, []string) []string { return words }
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = "x"
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(
		completing("zz-fixed", fixed("on", "off", "a b", `it's "x"`, "src/", "my dir/")),
		completing("zz-words", func(_ context.Context, words []string) []string {
			if len(words) == 2 && words[0] == "a b" {
				return []string{"second"}
			}
			return nil
		}),
		completing("zz-many", fixed(many...)),
		completing("zz-panics", func(context.Context, []string) []string { panic("oops") }),
		printing("zz-without"),
	))
	lines := func(line string) []string {
		list, err := agent.CompleteCommand(t.Context(), line)
		require.NoError(t, err, line)
		var lines []string
		for _, c := range list {
			lines = append(lines, c.Line)
		}
		return lines
	}
	for line, want := range map[string][]string{
		"/zz":                 {"/zz-fixed ", "/zz-many ", "/zz-panics ", "/zz-without ", "/zz-words "},
		" /zz-wi":             {"/zz-without "},
		"/ex":                 {"/exit"},
		"/hel":                {"/help "},
		"/nope":               nil,
		"/nope x":             nil,
		"/zz-without x":       nil,
		"/zz-fixed ":          {"/zz-fixed on ", "/zz-fixed off ", `/zz-fixed "a b" `, `/zz-fixed "it's \"x\"" `, "/zz-fixed src/", `/zz-fixed "my dir/`},
		"/zz-fixed  o":        {"/zz-fixed  on ", "/zz-fixed  off "},
		`/zz-fixed "a `:       {`/zz-fixed "a b" `},
		`/zz-fixed a\ `:       {`/zz-fixed "a b" `},
		"/zz-fixed x":         nil,
		`/zz-words "a b" `:    {`/zz-words "a b" second `},
		`/zz-words 'a b' sec`: {`/zz-words 'a b' second `},
		"/zz-words a ":        nil,
		"/help zz-wi":         {"/help zz-without "},
		"/help /zz-wi":        {"/help /zz-without "},
		"/help exit ":         nil,
	} {
		require.Equal(t, want, lines(line), line)
	}
	require.Len(t, lines("/zz-many "), 1000)
	list, err := agent.CompleteCommand(t.Context(), "/zz-fi")
	require.NoError(t, err)
	require.Equal(t, []pygent.Completion{{Line: "/zz-fixed ", Word: "zz-fixed", Summary: "about zz-fixed"}}, list)
	list, err = agent.CompleteCommand(t.Context(), "/zz-fixed s")
	require.NoError(t, err)
	require.Equal(t, []pygent.Completion{{Line: "/zz-fixed src/", Word: "src/"}}, list)

	_, err = agent.CompleteCommand(t.Context(), "/zz-panics ")
	require.EqualError(t, err, "complete /zz-panics: panic: oops")
	_, err = agent.CompleteCommand(t.Context(), "hello")
	require.EqualError(t, err, `a command begins with "/"`)
	var none context.Context
	_, err = agent.CompleteCommand(none, "/")
	require.ErrorContains(t, err, "context")
	require.NoError(t, agent.Close())
	_, err = agent.CompleteCommand(t.Context(), "/")
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestACompletionThatTakesLongIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		defer close(goOn)
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(
			completing("slow", func(ctx context.Context, _ []string) []string { <-ctx.Done(); return nil }),
			completing("deaf", func(context.Context, []string) []string { <-goOn; return nil })))
		began := time.Now()
		_, err := agent.CompleteCommand(t.Context(), "/slow ")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
		_, err = agent.CompleteCommand(t.Context(), "/deaf ")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second+safecall.Grace, time.Since(began))
	})
}
