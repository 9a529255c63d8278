package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

var update = flag.Bool("update", false, "write the picture of the README anew")

// A session as the README shows it: the real command at a terminal, with a scripted
// model. With -update it writes docs/session.svg.
func TestTheSessionOfTheREADME(t *testing.T) {
	t.Parallel()
	const program = "def add(a, b):\n    return a - b\n"
	server := pygenttest.NewServer(t,
		pygenttest.TextAndCalls("I run the tests first.", bash("python3 test_add.py")),
		pygenttest.TextAndCalls("`add` subtracts.", pygenttest.Call("edit_file", map[string]any{"path": "add.py", "old_text": "a - b", "new_text": "a + b"})),
		pygenttest.Call("bash", map[string]any{"cmd": "python3 test_add.py"}),
		pygenttest.Text("The test passes now: `add` in **add.py** had a minus where a plus belongs."))
	cmd := command(t, append(server.Env(), "PYGENT_CONFIRM_BASH=0"), "--no-docker", "--cwd", "Fix the failing test")
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "add.py"), []byte(program), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "test_add.py"), []byte("from add import add\nassert add(2, 2) == 4, f'2 + 2 is {add(2, 2)}'\nprint('ok')\n"), 0o644))
	p := &person{t: t, cmd: cmd, history: filepath.Join(t.TempDir(), "history.json")}
	cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+p.history, "PYGENT_MODEL=gpt-4.1-mini", "TERM=xterm-256color", "TERM_PROGRAM=vscode")
	p.Terminal = termtest.Start(t, cmd, 80, 24)
	p.Await("had a minus where a plus belongs.", "Done", "Ready")
	lines := p.Lines()
	p.leaves()
	require.Contains(t, p.All(), "AssertionError: 2 + 2 is 0")
	require.Contains(t, p.All(), "  ok")
	if !*update {
		return
	}
	for i, line := range lines { // the directory of the test
		for j, run := range line.Runs {
			lines[i].Runs[j].Text = strings.ReplaceAll(run.Text, cmd.Dir, "/home/you/sums")
		}
	}
	require.NoError(t, os.WriteFile("../../../docs/session.svg", []byte(termtest.SVG("A session of pygent at a terminal", 80, lines)), 0o644))
}
