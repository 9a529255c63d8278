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

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
