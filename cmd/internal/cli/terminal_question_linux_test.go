package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// isAsked starts a session in which the model makes calls that need approval.
func isAsked(t *testing.T, args []string, replies ...pygenttest.Reply) *person {
	t.Helper()
	if !slices.Contains(args, "--cwd") { // what is left in a temporary workspace is asked about
		args = append([]string{"--workspace", t.TempDir()}, args...)
	}
	p := sit(t, pygenttest.NewServer(t, append(replies, pygenttest.Text("I see."))...), args...)
	p.Type("go\n")
	return p
}

// ends leaves the session and returns the results of the calls.
func (p *person) ends() []string {
	p.t.Helper()
	p.Await("I see.", "Done", "Ready")
	return toolResults(p.leaves())
}

func TestMessagesSentAheadAnswerNoQuestion(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."))
	p := sit(t, server)
	p.Type("go\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	p.Type("y\n")
	p.Await("Next: y")
	p.Type("yes")
	p.Key("enter")
	p.Await("Next: yes")
	close(gate)
	p.Await("Run this on your machine?", "Waiting for you")
	p.answers("n")
	p.Await("I see.", "Ready")
	messages := p.leaves()
	require.Equal(t, []string{"error: denied by the user"}, toolResults(messages))
	var said []string
	for _, m := range messages {
		if m.Role == chat.RoleUser {
			said = append(said, m.Text())
		}
	}
	require.Equal(t, []string{"go", "y", "yes"}, said, "they are messages, which the model hears")
}

func TestKeysTypedBlindAnswerNoQuestion(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."))
	p := sit(t, server)
	p.Type("go\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	p.Type("say wh") // the question comes in the middle of a word
	p.Await("› say wh")
	close(gate)
	persontest.TypeBlindly(t, p.Terminal, "y", "too early: typed before the question appeared")
	p.reads()
	require.Contains(t, p.Screen().Text(), "Run this on your machine?", "nothing has answered")
	p.Type("n")
	p.Await("I see.", "Ready", "› say why")
	p.Key("ctrl+c")
	p.AwaitNo("say why")
	require.Equal(t, []string{"error: denied by the user"}, p.ends())
}

func TestPastesAnswerNoQuestion(t *testing.T) {
	for name, paste := range map[string]string{
		"a line":               "y\n",
		"lines":                "make\ny\ny\n",
		"a carriage return":    "make\ry\r",
		"letters":              "yyy",
		"arrows and a return":  "\x1b[A\x1b[A\r",
		"marked":               "\x1b[200~y\x1b[201~",
		"marked, with its end": "\x1b[200~y\n\x1b[201~",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := isAsked(t, nil, bash("echo $((6*7))"))
			p.Await("Run this on your machine?")
			p.reads()
			p.Send(paste)
			p.Until("that it does not answer", func(s termtest.Screen) bool {
				return strings.Contains(s.Text(), "do not answer") || strings.Contains(s.Text(), "does not answer") || strings.Contains(s.Text(), "too early")
			})
			p.answers("n")
			require.Equal(t, []string{"error: denied by the user"}, p.ends())
		})
	}
}

func TestAReasonIsSaid(t *testing.T) {
	t.Parallel()
	p := isAsked(t, nil, bash("echo $((6*7))"))
	p.Await("Run this on your machine?")
	p.answers("r")
	p.Await("why not: ")
	p.Type("use python")
	p.Paste(" instead\n")
	p.Await("why not: use python instead")
	p.Key("enter")
	require.Equal(t, []string{"error: denied: the user says: use python instead"}, p.ends())
}

func TestASessionsQuestionsShowWhatIsFarAway(t *testing.T) {
	t.Parallel()
	p := isAsked(t, nil, bash("echo ok"+strings.Repeat("\n", 40)+"echo bad"+strings.Repeat(" ", 300)+"# worse"))
	p.Await("Run this on your machine?",
		" 1 │ echo ok\n",
		"   │ … 39 blank lines …\n",
		"41 │ echo bad… 300 spaces …# worse\n")
	p.answers("n")
	p.ends()
}

func TestASessionsQuestionsFitTheTerminalAndShowTheRest(t *testing.T) {
	t.Parallel()
	var script []string
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		script = append(script, "echo "+string(c))
	}
	p := isAsked(t, nil, bash(strings.Join(script, "\n")))
	s := p.Await("Run this on your machine?", " 1 │ echo a\n", " rows are not shown …\n", "26 │ echo z\n", showsAll, "4. No, and say why (r)", "Waiting for you")
	require.NotContains(t, s.Text(), "echo n\n")
	p.answers("v")
	p.printed("page 1 of 2")
	p.answers("v")
	p.printed("page 2 of 2")
	all := p.All()
	for _, line := range script {
		require.Contains(t, all, "│ "+line+"\n", "each line is above, to be read")
	}
	p.answers("y")
	require.Contains(t, p.ends()[0], "\ny\nz\n")
}

func TestASessionsAlwaysCoversWhatItSays(t *testing.T) {
	t.Parallel()
	p := isAsked(t, nil, pygenttest.Calls(bash("echo one"), bash("echo one"), bash("echo two"),
		writeFile("a.txt", "1"), writeFile("./a.txt", "2"), writeFile("b.txt", "3"), pygenttest.Call("edit_file", map[string]any{"path": "a.txt", "old_text": "2", "new_text": "4"})))
	p.Await("Run this on your machine?", "echo one", "2. Allow this exact command for this session (a)")
	p.answers("a")
	p.Await("Run this on your machine?", "echo two")
	p.answers("n")
	p.Await("Change this file on your machine?", "│ a.txt", "│ + 1", "2. Allow all writes to this file for this session (a)")
	p.answers("a")
	p.Await("Change this file on your machine?", "│ b.txt", "│ + 3")
	p.answers("n")
	got := p.ends()
	require.Contains(t, got[0], "one\n")
	require.Contains(t, got[1], "one\n")
	require.Equal(t, "error: denied by the user", got[2])
	require.Equal(t, "replaced ./a.txt, which had 1 byte (1 line) and now has 1 byte (1 line)", got[4])
	require.Equal(t, "error: denied by the user", got[5])
	require.Equal(t, "edited a.txt at line 1\n1\t4\n", got[6])
}

func TestASessionAsksAboutWritesBelowGitAndNamesThem(t *testing.T) {
	t.Parallel()
	p := isAsked(t, []string{"--cwd", "-e", "PYGENT_CONFIRM_BASH=0"},
		writeFile("a.txt", "1"), writeFile(".git/hooks/pre-commit", "#!/bin/sh\nid"), bash("printf '[core]\\n\\tfsmonitor = ./x\\n' > .git/config"))
	s := p.Await("This can change what git runs on your machine. Allow it?", ".git/hooks/pre-commit", "│ + #!/bin/sh", "│ + id", "1. Yes, once (y)")
	require.NotContains(t, s.Text(), "Always", "it is not offered here")
	p.answers("a")
	p.Await("that key does not answer", "Allow it?")
	p.reads()
	p.Type("y")
	p.Await("I see.", "Ready")
	require.Len(t, toolResults(p.leaves()), 3)
	all := strings.Join(strings.Fields(p.All()), " ")
	require.Contains(t, all, "! files that can make git run programs on this machine have changed: ")
	require.Contains(t, all, `/.git/config" is new, `)
	require.Contains(t, all, `/.git/hooks/pre-commit" is new. Check them before`)
	_, err := os.Stat(filepath.Join(p.cmd.Dir, ".git/hooks/pre-commit"))
	require.NoError(t, err)
}

// A background task asks the person in the session of the agent that delegated it,
// during a turn as between turns.
func TestTasksAskInASession(t *testing.T) {
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	stop := pygenttest.Call("stop", map[string]any{"summary": "done"})
	waits := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		return pygenttest.Call("task_status", map[string]any{"wait": 60})
	})
	for name, tt := range map[string]struct {
		between      bool
		answer, want string
	}{
		"yes, in a turn":       {false, "y", "counted"},
		"no, in a turn":        {false, "n", "error: denied by the user"},
		"yes, between turns":   {true, "y", "counted"},
		"no, between turns":    {true, "n", "error: denied by the user"},
		"Ctrl-C between turns": {true, "\x03", "error: denied by the user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, heard := make(chan struct{}), make(chan string, 1)
			work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
				heard <- req.Messages[len(req.Messages)-1].Text()
				return stop
			})
			replies := []pygenttest.Reply{delegate, waits, pygenttest.Text("I see.")}
			if tt.between {
				replies = []pygenttest.Reply{delegate, pygenttest.Text("I see.")}
			}
			p := sit(t, pygenttest.NewServer(t, replies...).On("Count", bash("echo counted").WithGate(gate), work))
			p.Type("go\n")
			if tt.between {
				p.Await("I see.", "Done", "Ready")
			}
			close(gate)
			p.Await("(Count) asks: Run this on your machine?", "echo counted", "1. Yes, once (y)")
			p.answers(tt.answer)
			require.Contains(t, persontest.Next(t, heard), tt.want)
			p.printed("finished")
			p.Await("I see.", "Ready")
			p.leaves()
		})
	}
}
