package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/pygenttest"
)

// faceOfTests are the faces that the tests of this package have without register.
var faceOfTests = map[string]pygent.Face{pygent.FaceTerminal: lines.Run}

// register makes f a face until the test ends. Faces are those of the process, so no test
// that registers one, or needs that there is none, runs beside others.
func register(t *testing.T, name string, f pygent.Face) {
	t.Helper()
	pygent.RegisterFace(name, f)
	t.Cleanup(func() { pygent.RegisterFace(name, faceOfTests[name]) })
}

func TestARegisteredFaceRunsTheSession(t *testing.T) {
	for name, run := range map[string]func(*pygent.Agent, context.Context) error{
		pygent.FaceTerminal: (*pygent.Agent).RunInteractive,
		pygent.FaceWeb:      (*pygent.Agent).RunGUI,
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(pygenttest.Text("Hello."))
			var out strings.Builder
			agent := newAgent(t, model, pygent.WithIO(strings.NewReader("Hi.\n"), &out), pygent.WithResume(true))
			left := errors.New("left")
			register(t, name, func(ctx context.Context, s pygent.FaceSession) error {
				require.Same(t, agent, s.Agent)
				require.True(t, s.Resume)
				said, err := io.ReadAll(s.In)
				require.NoError(t, err)
				result, err := s.Agent.RunUntilStop(ctx, string(said), pygent.WithEndOnReply())
				require.NoError(t, err)
				fmt.Fprint(s.Out, result.Summary)
				return left
			})
			require.ErrorIs(t, run(agent, t.Context()), left)
			require.Equal(t, "Hello.", out.String())
		})
	}
}

func TestAFaceCanLeaveTheSessionToThePlainOne(t *testing.T) {
	var out strings.Builder
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Hello.")), pygent.WithIO(strings.NewReader("Hi.\n/exit\n"), &out))
	register(t, pygent.FaceTerminal, func(ctx context.Context, s pygent.FaceSession) error { return lines.Run(ctx, s) })
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "Hello.")
}

func TestThePersonAtAFaceIsAskedAsLongAsItGoesOn(t *testing.T) {
	model := pygenttest.NewScriptedModel(callBash("echo 1"), callBash("echo 1"), pygenttest.Text("Done."), callBash("echo 1"), pygenttest.Text("Done."))
	agent := newAgent(t, model)
	var asked int
	register(t, pygent.FaceTerminal, func(ctx context.Context, s pygent.FaceSession) error {
		end := s.Answers(ctx, pygent.FaceUser{Approve: func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			asked++
			return pygent.Decision{Allow: true, Session: true}, nil
		}})
		_, err := s.Agent.RunUntilStop(ctx, "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, 1, asked, "the first answer is for the session")
		require.True(t, s.Agent.State().Settings.Approval)
		end()
		require.False(t, s.Agent.State().Settings.Approval)
		_, err = s.Agent.RunUntilStop(ctx, "again", pygent.WithEndOnReply())
		return err
	})
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Equal(t, 1, asked)
}

func TestAPanicOfAFaceIsAnError(t *testing.T) {
	agent := newAgent(t, pygenttest.NewScriptedModel())
	register(t, pygent.FaceWeb, func(context.Context, pygent.FaceSession) error { panic("no browser") })
	require.ErrorContains(t, agent.RunGUI(t.Context()), "no browser")
}

func TestAClosedAgentHasNoFace(t *testing.T) {
	a := newAgent(t, pygenttest.NewScriptedModel())
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.RunInteractive(t.Context()), pygent.ErrAgentClosed)
	require.ErrorIs(t, a.RunGUI(t.Context()), pygent.ErrAgentClosed)
}

func TestRunGUIWithoutAFaceSaysWhatToImport(t *testing.T) {
	agent := newAgent(t, pygenttest.NewScriptedModel())
	err := agent.RunGUI(t.Context())
	require.ErrorIs(t, err, pygent.ErrNoFace)
	require.ErrorContains(t, err, "import _ \"github.com/x/pygent/web\", or another package that calls RegisterFace(FaceWeb, …)")
}

// desk is an agent with the people at its faces, of whom some come and go.
type desk struct {
	t     *testing.T
	agent *pygent.Agent
	model *pygenttest.ScriptedModel
	ends  map[string]func()
	asked []string
	runs  int
}

// newDesk returns a desk whose program decides by opts.
func newDesk(t *testing.T, opts ...pygent.Option) *desk {
	d := &desk{t: t, model: pygenttest.NewScriptedModel(), ends: map[string]func(){}}
	question := pygent.Tool{Name: "question", Run: func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		_, err := pygent.Ask(ctx, pygent.Question{Prompt: "Well?"})
		return &pygent.ToolResult{Content: fmt.Sprint(err)}, nil
	}}
	d.agent = newAgent(t, d.model, append(opts, pygent.WithTools(question))...)
	return d
}

// person returns what the one of that name does who is asked.
func (d *desk) person(name string) pygent.FaceUser {
	return pygent.FaceUser{
		Approve: func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			d.asked = append(d.asked, name+" approves")
			return pygent.Decision{Allow: true}, nil
		},
		Answer: func(context.Context, pygent.AskRequest) (pygent.Answer, error) {
			d.asked = append(d.asked, name+" answers")
			return pygent.Answer{}, nil
		},
	}
}

// move has somebody come ("+a") or leave ("-a"); "+A" comes without anybody to ask.
func (d *desk) move(way string) {
	name := way[1:]
	switch {
	case way[0] == '-':
		d.ends[name]()
	case name == strings.ToUpper(name):
		d.ends[name] = d.agent.FaceSession().Answers(d.t.Context(), pygent.FaceUser{})
	default:
		d.ends[name] = d.agent.FaceSession().Answers(d.t.Context(), d.person(name))
	}
}

// whoIsAsked has the model run a command and a tool that asks.
func (d *desk) whoIsAsked() []string {
	d.asked, d.runs = nil, d.runs+1
	d.model.Add(callBash(fmt.Sprintf("echo %d", d.runs)), pygenttest.Call("question", struct{}{}), pygenttest.Text("Done."))
	_, err := d.agent.RunUntilStop(d.t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(d.t, err)
	return d.asked
}

func TestAFaceThatLeavesTakesOnlyItsOwnApprovalAlong(t *testing.T) {
	for ways, want := range map[string]string{ // who is asked after each way
		"+a -a +b -b":             "a - b -",
		"+a +b -a -b":             "a b b -",
		"+a +b -b -a":             "a b a -",
		"+a +b -a +c -b -c":       "a b b c c -",
		"+a +b +c -b -a -c":       "a b c c c -",
		"+a +b +c -c -a -b":       "a b c b b -",
		"+a +b +c -b -c -a":       "a b c c a -",
		"+a +b -a -a +a -b -a":    "a b b b a a -",
		"+A +b -A -b":             "- b b -",
		"+a +B -a -B":             "a a - -",
		"+a +B -B -a":             "a a a -",
		"+a +B +c -a -B -c":       "a a c c c -",
		"+a +b -b +b -a +a -b -a": "a b a b b a a -",
	} {
		t.Run(ways, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			program := newDesk(t, pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
				return pygent.Decision{Allow: true, By: "program"}, nil
			}), pygent.WithAsk(func(context.Context, pygent.AskRequest) (pygent.Answer, error) { return pygent.Answer{}, nil }))
			asked := strings.Fields(want)
			for i, way := range strings.Fields(ways) {
				d.move(way)
				program.move(way)
				var people []string
				if asked[i] != "-" {
					people = []string{asked[i] + " approves", asked[i] + " answers"}
				}
				require.Equal(t, people, d.whoIsAsked(), "after %s, the way %d", way, i+1)
				require.Equal(t, asked[i] != "-", d.agent.State().Settings.Approval)
				require.Empty(t, program.whoIsAsked(), "whom the options name keeps it")
			}
		})
	}
}

// What is asked about is what the strictest of the faces has it, and what the program
// sets in the meantime stays.
func TestWhatIsSetWhileFacesAreThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(d *desk)
		want []string
	}{
		"off at one face, and another comes":  {func(d *desk) { d.move("+a"); d.agent.SetConfirmBash(false); d.move("+b") }, []string{"b approves"}},
		"off at one face, and another leaves": {func(d *desk) { d.move("+b"); d.move("+a"); d.agent.SetConfirmBash(false); d.move("-b") }, nil},
		"off, and all leave":                  {func(d *desk) { d.move("+a"); d.agent.SetConfirmBash(false); d.move("-a"); d.move("+a") }, []string{"a approves"}},
		"on at a face, and it leaves":         {func(d *desk) { d.move("+a"); d.agent.SetConfirmBash(true); d.move("-a") }, nil},
		"on before, and a face leaves":        {func(d *desk) { d.agent.SetConfirmBash(true); d.move("+a"); d.move("+b"); d.move("-a") }, []string{"b approves"}},
		"off before, and a face comes":        {func(d *desk) { d.agent.SetConfirmBash(false); d.move("+a") }, nil},
		"the program before": {func(d *desk) {
			d.agent.SetApproval(d.person("program").Approve)
			d.move("+a")
			d.move("+b")
			d.move("-a")
		}, []string{"program approves"}},
		"the program while faces are there": {func(d *desk) {
			d.move("+a")
			d.move("+b")
			d.agent.SetApproval(d.person("program").Approve)
			d.move("-b")
		}, []string{"program approves"}},
		"nobody, and then another face": {func(d *desk) { d.move("+a"); d.agent.SetApproval(nil); d.move("+b") }, []string{"b approves"}},
		"nobody any more":               {func(d *desk) { d.move("+a"); d.move("+b"); d.agent.SetApproval(nil); d.move("-b") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c.do(d)
			d.asked = nil
			d.model.Add(callBash("echo 1"), pygenttest.Text("Done."))
			_, err := d.agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, c.want, d.asked)
		})
	}
}

func TestWhatAPersonAlwaysAllowsEndsWithTheirFace(t *testing.T) {
	t.Parallel()
	var asked []string
	always := func(name string) pygent.FaceUser {
		return pygent.FaceUser{Approve: func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			asked = append(asked, name)
			return pygent.Decision{Allow: true, Session: true}, nil
		}}
	}
	model := pygenttest.NewScriptedModel()
	agent := newAgent(t, model)
	run := func(cmd string, want ...string) {
		t.Helper()
		asked = nil
		model.Add(callBash(cmd), pygenttest.Text("Done."))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, want, asked)
	}
	a := agent.FaceSession().Answers(t.Context(), always("a"))
	run("echo 1", "a")
	b := agent.FaceSession().Answers(t.Context(), always("b"))
	run("echo 2", "b")
	run("echo 1")
	b()
	run("echo 1")
	run("echo 2", "a")
	a()
	end := agent.FaceSession().Answers(t.Context(), always("c"))
	defer end()
	run("echo 1", "c")
	run("echo 2", "c")
}

// While one face is there, no command runs unasked, whatever comes and goes.
func TestFacesComeAndGoWhileCommandsRun(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	user := pygent.FaceUser{Approve: func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
		asked.Add(1)
		return pygent.Decision{Allow: true}, nil
	}}
	model := pygenttest.NewScriptedModel()
	agent := newAgent(t, model)
	defer agent.FaceSession().Answers(t.Context(), user)()
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 3 {
		others.Go(func() {
			for ctx.Err() == nil {
				agent.FaceSession().Answers(ctx, user)()
			}
		})
	}
	const calls = 20
	for i := range calls {
		model.Add(callBash(fmt.Sprintf("echo %d", i)))
	}
	model.Add(pygenttest.Text("Done."))
	_, err := agent.RunUntilStop(ctx, "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.EqualValues(t, calls, asked.Load())
}

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
		"/compact":        "/compact: nothing in the conversation can be shortened: the conversation is empty",
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

// A session at a terminal sets who is asked, and takes it back at its end.
func TestSettingsTellOfASessionsApproval(t *testing.T) {
	t.Parallel()
	type told struct{ asks, confirms bool }
	settings := make(chan told, 10)
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventSettings {
			settings <- told{e.Settings.Approval, e.Settings.Confirm}
		}
	}))
	ask := func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return pygent.Decision{}, nil }
	session := agent.FaceSession()
	session.Answers(t.Context(), pygent.FaceUser{})() // nobody is asked, as in a session without a person
	session.Answers(t.Context(), pygent.FaceUser{Approve: ask})()
	end := session.Answers(t.Context(), pygent.FaceUser{Approve: ask})
	agent.SetApproval(ask)
	end() // what SetApproval set stays
	for _, want := range []told{{true, true}, {false, false}, {true, true}, {true, true}, {true, false}} {
		require.Equal(t, want, <-settings)
	}
}

func TestASessionLeavesWhatSetAskHasSet(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil)).RepeatLast(), pygent.WithTools(asking(pygent.Question{})))
	session := agent.FaceSession()
	person := pygent.FaceUser{Answer: says(pygent.Answer{Text: "session"})}
	session.Answers(t.Context(), person)()
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	end := session.Answers(t.Context(), person)
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)
	agent.SetAsk(says(pygent.Answer{Text: "program"}))
	end()
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"nobody", "session false", "program false"}, results(agent))
}
