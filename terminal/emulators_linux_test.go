package terminal_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// requireProgram skips a test, or has it fail where tools are required, if a program
// of Debian fails.
func requireProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		require.Empty(t, os.Getenv("PYGENT_TEST_REQUIRE_TOOLS"), "%s: %v: %s: see scripts/tools.sh", name, err, out)
		t.Skipf("%s: %v: see scripts/tools.sh", name, err)
	}
}

// What a session draws is the same in terminals that nobody here has written.
func TestOtherTerminalsShowTheSame(t *testing.T) {
	t.Parallel()
	answer := "# Title\n\nThe `parser` is **one** [link](https://example.com/1) in a paragraph of words that are long enough to be wrapped.\n\n- one\n- two\n\n```go\nfunc main() {\n\tx := \"日本\" // é\n}\n```\n\n| a | b |\n|---|---|\n| `x` | y |\n"
	p := sit(t, pygenttest.NewServer(t,
		pygenttest.TextAndCalls(answer, bash("for i in $(seq 12); do echo line $i; sleep 0.05; done; exit 3")),
		bash("echo $((6*7))"), pygenttest.Text("All.")), "TERM=linux")
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("✗ $ for", "$((6*7))", "Run this on your machine?")
	p.answers("n")
	p.Await("All.", "Done", "Ready")
	p.Type("/hel")
	p.Await(tabCompletes)
	p.Key("ctrl+c")
	p.AwaitNo(tabCompletes)
	p.leaves()
	want, raw := p.All(), p.Raw()
	require.Contains(t, want, "x := \"日本\" // é")
	for name, show := range map[string]func(t *testing.T, raw []byte) string{"pyte": inPyte, "screen": inScreen, "tmux": inTmux} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for line := range strings.Lines(show(t, raw)) {
				got.WriteString(strings.TrimRight(line, " \n") + "\n")
			}
			want := want
			if name == "screen" {
				want = lowBytes(want)
			}
			require.Equal(t, want, strings.TrimSpace(got.String()))
		})
	}
}

func inPyte(t *testing.T, raw []byte) string {
	const python = "/usr/bin/python3" // which Debian's packages are for
	requireProgram(t, python, "-c", "import pyte")
	cmd := exec.Command(python, "testdata/inpyte.py", "80", "24")
	cmd.Stdin = bytes.NewReader(raw)
	cmd.Env = append(os.Environ(), "PYTHONIOENCODING=utf-8")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// printing is a command that prints bytes to a terminal as they are, and says in a
// file when the terminal has drawn them, which then answers whether it is well.
func printing(t *testing.T, raw []byte) (cmd *exec.Cmd, done string) {
	file := filepath.Join(t.TempDir(), "raw")
	done = filepath.Join(t.TempDir(), "done")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	script := filepath.Join(t.TempDir(), "print")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nstty raw -echo; cat %s; printf '\\033[5n'; while [ \"$(dd bs=1 count=1 2>/dev/null)\" != n ]; do :; done; : >%s; sleep 60", file, done), 0o700))
	return exec.Command(script), done
}

func awaitFile(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(name)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

func inTmux(t *testing.T, raw []byte) string {
	cmd, done := printing(t, raw)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	x := startTmux(t, cmd, 80, 24)
	awaitFile(t, done)
	return x.run("capture-pane", "-p", "-J", "-S", "-")
}

// lowBytes is a text as GNU screen copies it: the last byte of each character, and
// another one for its second column.
func lowBytes(text string) string {
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
		if ansi.StringWidth(string(r)) == 2 {
			b = append(b, 0xff)
		}
	}
	return string(b)
}

func inScreen(t *testing.T, raw []byte) string {
	requireProgram(t, "screen", "-v")
	cmd, done := printing(t, raw)
	config, copied := filepath.Join(t.TempDir(), "screenrc"), filepath.Join(t.TempDir(), "copied")
	require.NoError(t, os.WriteFile(config, []byte("defutf8 on\ndefscrollback 10000\n"), 0o600))
	name := fmt.Sprintf("pygent-test-%d", os.Getpid())
	screen := func(args ...string) {
		c := exec.Command("screen", args...)
		c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SCREENDIR="+filepath.Dir(done))
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.Chmod(filepath.Dir(done), 0o700))
	screen("-U", "-c", config, "-d", "-m", "-S", name, cmd.Path)
	defer screen("-S", name, "-X", "quit")
	awaitFile(t, done)
	screen("-S", name, "-X", "hardcopy", "-h", copied)
	screen("-S", name, "-Q", "title") // is answered after that
	text, err := os.ReadFile(copied)
	require.NoError(t, err)
	return string(text)
}
