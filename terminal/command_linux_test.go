package terminal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// withCommands gives the program of a session the commands of userCommands.
const withCommands = asSetup + "=commands"

// userCommands are commands as a program may add them to a session.
func userCommands() []pygent.Command {
	onTerminal := func(name string, run func(ctx context.Context, out io.Writer) error) pygent.Command {
		return pygent.Command{Name: name, Summary: name, Interactive: true, Run: func(ctx context.Context, _ *pygent.Agent, _ string, out io.Writer) error {
			return run(ctx, out)
		}}
	}
	return append(commands.All(),
		onTerminal("asks", func(_ context.Context, out io.Writer) error {
			fmt.Fprint(out, "your name? ")
			line, err := bufio.NewReader(os.Stdin).ReadString('\n')
			fmt.Fprintf(out, "hello, <%s> \x1b[35m\n", strings.TrimSpace(line))
			return err
		}),
		onTerminal("breaks", func(context.Context, io.Writer) error {
			raw := exec.Command("stty", "raw", "-echo")
			raw.Stdin = os.Stdin
			_ = raw.Run()
			fmt.Print("\x1b[?1049h\x1b[?25lgarbage")
			panic("oops")
		}),
		onTerminal("hangs", func(ctx context.Context, out io.Writer) error {
			fmt.Fprintln(out, "hanging")
			<-ctx.Done()
			return ctx.Err()
		}))
}

func TestTheOutputOfACommandIsShownWhileItRuns(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t), withCommands)
	p.Type("/cmd echo begun; echo ready; sleep 600\n")
	p.Await("● /cmd echo begun", "  begun", "  ready", "Running /cmd", "Ctrl-C interrupts")
	p.Type("a draft")
	p.Await("› a draft")
	p.Key("ctrl+c")
	p.AwaitNo("a draft")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	p.Type("/cmd printf 'out'; exit 3\n")
	p.Await("out\n", "✗ exit 3 · ")
	p.Type("/cmd seq 2000\n")
	p.Await("2000\n… to see the rest, write it to a file: /cmd COMMAND > FILE", "✓ exit 0 · ")
	all := p.All()
	require.Contains(t, all, "\n200\n… 1,600 more lines\n1801\n", "nothing is lost where it came fast")
	p.leaves()
}

func TestAFloodOfACommandNeitherGrowsNorStalls(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t), withCommands)
	p.Type("/cmd yes\n")
	p.Await("● /cmd yes · 3 s", "  y")
	p.Type("typed meanwhile")
	p.Await("› typed meanwhile")
	p.Key("ctrl+c", "ctrl+c")
	p.Await("■ Interrupted", "Ready")
	require.Less(t, strings.Count(p.All(), "\ny"), 2*maxRows)
	p.Type("/cmd pgrep -x yes || echo none\n")
	p.Await("\nnone\n")
	p.leaves()
}

// maxRows is more than the session prints of a command.
const maxRows = 500

func TestACommandBesideATurn(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.").WithGate(gate)), withCommands)
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("/cmd sleep 600\n")
	p.Await("● /cmd sleep 600", "Waiting for", "Ctrl-C interrupts the command")
	p.Key("ctrl+c")
	p.Await("› /cmd sleep 600\n\n■ Interrupted", "Waiting for", "Ctrl-C interrupts")
	p.Type("/cmd echo beside\n")
	p.Await("› /cmd echo beside\n\nbeside\n✓ exit 0", "Waiting for")
	persontest.Give(t, gate)
	p.Await("One.", "Done", "Ready")
	p.leaves()
}

func TestACommandThatReadsTheTerminal(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Fine.")), withCommands)
	asks := func() { // what is typed before the question is there does not answer it
		p.Type("/asks\n")
		p.Until("the question", func(s termtest.Screen) bool { return strings.HasSuffix(strings.TrimSpace(s.Text()), "your name?") })
	}
	for range 2 {
		asks()
		p.Type("ada\n")
		p.Await("hello, <ada> ␛[35m", "Ready")
	}
	asks()
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	p.Type("still here\n")
	p.Await("› still here", "Fine.", "Ready")
	require.Equal(t, "still here", p.leaves()[1].Text(), "no key is lost to the read that was interrupted")
}

func TestTheTerminalIsPutRightAfterACommand(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Fine.")), withCommands)
	p.Type("/breaks\n")
	p.Await("✗ /breaks: panic: oops", "Ready")
	require.False(t, p.Screen().Hidden)
	p.Type("/hangs\n")
	p.Await("hanging")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	p.Type("hi\n")
	p.Await("Fine.", "Ready")
	p.leaves()
	require.False(t, p.Screen().Paste)
}

func TestAQuestionWaitsForACommandThatHasTheTerminal(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see.")), withCommands)
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("/asks\n")
	p.Await("your name? ")
	persontest.Give(t, gate)
	p.Type("y\n")
	p.Await("hello, <y>", "Run this on your machine?")
	p.answers("n")
	p.Await("I see.", "Ready")
	require.Equal(t, []string{"error: denied by the user"}, results(p.leaves()))
}

func TestDiffAndHelpAreLegible(t *testing.T) {
	t.Parallel()
	write := pygenttest.Call("write_file", map[string]any{"path": "a\x1b[31m.txt", "content": "one\ntwo\x1b[31m\n"})
	p := sit(t, pygenttest.NewServer(t, write, pygenttest.Text("Done it.")), withCommands)
	p.Type("go\n")
	p.Await("Change this file on your machine?")
	p.answers("y")
	p.Await("Done it.", "Ready")
	p.Type("/diff\n")
	p.Await(`created "a\x1b[31m.txt"`, "+ two␛[31m\n")
	// The words may be there before the screen is drawn with their styles.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		styles := map[string]string{}
		for _, line := range p.Lines() {
			for _, run := range line.Runs {
				styles[run.Text] = run.Style
			}
		}
		assert.Equal(c, "fg=2", styles["+ two␛[31m"])
		assert.Equal(c, "bold", styles[`created "a\x1b[31m.txt"`])
	}, 20*time.Second, 10*time.Millisecond)
	p.Type("/help\n")
	p.Await("  /usage ", "lists the keys.")
	require.Contains(t, p.All(), "  /confirm-bash [on|off]  turn the question before each command on or off\n")
	require.Contains(t, p.All(), "  /cp SRC [DEST]          copy a file")
	p.Type("/help confirm-bsh\n")
	p.Await("did you mean /confirm-bash?")
	p.Resize(40, 24)
	p.Type("/help\n")
	p.Await("  /tools [list|enable|disable NAME…]\n      list the agent's tools, or turn\n      some on or off\n")
	p.Type("/tools\n")
	p.Await("  write_file\n")
	for _, line := range strings.Split(p.Screen().Text(), "\n") {
		require.LessOrEqual(t, len([]rune(line)), 40)
	}
	p.Type("/modle x\n")
	p.Await("no command /modle, did you mean")
	p.leaves()
}

func TestAMessageMayBeginWithAPath(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("It lists the users.")))
	p.Type("/\n")
	p.Await("the name of a command follows the /; /help lists them")
	p.Type("/etc/passwd is what?\n")
	p.Await("› /etc/passwd is what?", "It lists the users.", "Ready")
	require.Equal(t, "/etc/passwd is what?", p.leaves()[1].Text())
}

// What a command has the model told is long. The person sees the command.
func TestALongMessageOfACommandIsShownAsTheCommand(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two.").WithGate(gate), pygenttest.Text("Three.")))
	p.Type("/project\n")
	p.Await("› /project", "One.", "Ready")
	p.Type("wait\n")
	p.Await("Waiting for")
	p.Type("/project\n")
	p.Await("Next: /project (Up: edit)")
	p.Key("up")
	p.Await("› /project")
	p.AwaitNo("Next:")
	p.Key("enter")
	p.Await("Next: /project (Up: edit)")
	persontest.Give(t, gate)
	p.Await("Three.", "Ready")
	require.NotContains(t, p.All(), "a long task")
	msgs := p.leaves()
	require.Contains(t, msgs[1].Text(), "a long task a long task")
	require.Contains(t, msgs[len(msgs)-2].Text(), "a long task a long task")
}

func TestTheSessionOfAnAgentThatIsClosedEnds(t *testing.T) {
	t.Parallel()
	t.Run("between turns", func(t *testing.T) {
		p := sit(t, pygenttest.NewServer(t))
		p.Type("/closes\n")
		p.left()
		require.Contains(t, p.All(), "■ The program closed the agent. The session has ended.")
	})
	t.Run("at work", func(t *testing.T) {
		p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Never.").WithGate(nil)))
		p.Type("go\n")
		p.Await("Waiting for")
		p.Type("/closes\n")
		p.left()
		require.Equal(t, 1, strings.Count(p.All(), "The session has ended."), p.All())
	})
}
