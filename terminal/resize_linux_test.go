package terminal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// tmux is a session in a window of tmux, which wraps all lines again when it gets
// another size, and tells the program of it later: of many sizes only some.
type tmux struct {
	t      *testing.T
	socket string
}

// startTmux runs a command in a window of tmux.
func startTmux(t *testing.T, cmd *exec.Cmd, width, height int) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		require.Empty(t, os.Getenv("PYGENT_TEST_REQUIRE_TOOLS"), "tmux is not installed: scripts/tools.sh")
		t.Skip("tmux is not installed: scripts/tools.sh")
	}
	x := &tmux{t: t, socket: filepath.Join(t.TempDir(), "tmux")}
	config := filepath.Join(t.TempDir(), "tmux.conf")
	require.NoError(t, os.WriteFile(config, []byte("set -g history-limit 50000\nset -g remain-on-exit on\n"), 0o600))
	start := exec.Command("tmux", "-S", x.socket, "-f", config, "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), cmd.Path)
	start.Env, start.Dir = cmd.Env, cmd.Dir
	out, err := start.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

// run runs a command of tmux.
func (x *tmux) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	require.NoError(x.t, err, "%s", out)
	return string(out)
}

// all returns the text of the window, with the lines that have scrolled away. Lines
// that tmux has wrapped are whole.
func (x *tmux) all() string {
	x.t.Helper()
	return x.run("capture-pane", "-p", "-J", "-S", "-")
}

// await waits until the window has the texts.
func (x *tmux) await(texts ...string) {
	x.t.Helper()
	require.Eventually(x.t, func() bool {
		all := x.all()
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond, "no %q", texts)
}

// leave ends the session, and waits until it has removed what it made.
func (x *tmux) leave() {
	x.t.Helper()
	x.run("send-keys", "C-d")
	dead := func() bool { return strings.TrimSpace(x.run("display-message", "-p", "#{pane_dead}")) == "1" }
	require.Eventually(x.t, dead, time.Minute, 20*time.Millisecond)
}

func (x *tmux) resize(width, height int) {
	x.t.Helper()
	x.run("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

func TestAStormOfSizesInTmux(t *testing.T) {
	var blocks, marks []string
	mark := func(i int) string {
		marks = append(marks, fmt.Sprintf("mark%da", i))
		return marks[len(marks)-1]
	}
	for i := 0; i < 90; i += 3 {
		blocks = append(blocks,
			fmt.Sprintf("Paragraph %d has some words, so that it is wrapped in a narrow window, and ends with %s.", i, mark(i)),
			fmt.Sprintf("```go\nfunc f%d() { // a line of code that is longer than a narrow window is wide\n\treturn %s\n}\n```", i, mark(i+1)),
			fmt.Sprintf("| what | how many there are of it |\n|---|---|\n| row | %s |", mark(i+2)))
	}
	output := "for i in $(seq 1000 1030); do echo a line of output number $i which is long enough to be wrapped in narrow windows; sleep 0.03; done"
	server := pygenttest.NewServer(t, pygenttest.TextAndCalls(strings.Join(blocks, "\n\n"), bash(output)).WithChunkDelay(time.Millisecond), pygenttest.Text("The end."))
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	x := startTmux(t, p.command(server, "PYGENT_CONFIRM_BASH=0"), 80, 24)
	x.await("› ", "Ready")
	x.run("send-keys", "go", "Enter")
	for burst, shown := range []string{"mark2a", "mark11a", "mark23a", "mark41a", "mark59a", "mark77a", "mark88a", "number 10"} {
		x.await(shown)
		for i := range 6 {
			x.resize(50+((6*burst+i)*37)%70, 24+i)
		}
	}
	x.await("The end.", "Done", "Ready")
	x.leave()
	all := x.all()
	for _, m := range marks {
		require.Equal(t, 1, strings.Count(all, m), "%s in\n%s", m, all)
	}
	for _, leftover := range []string{"Ctrl-C interrupts", "Ready", "Waiting for", "● $"} {
		require.False(t, strings.Contains(all, leftover), "%s in\n%s", leftover, all)
	}
	require.Equal(t, 1, strings.Count(all, "› "), all) // before the message
}

// A paragraph that is longer than the window is written on in a narrower one.
func TestALongParagraphInAWindowThatBecomesNarrower(t *testing.T) {
	var words []string
	for i := range 300 {
		words = append(words, fmt.Sprintf("word%da", i))
	}
	server := pygenttest.NewServer(t, pygenttest.Text(strings.Join(words, " ")).WithChunkDelay(5*time.Millisecond))
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	x := startTmux(t, p.command(server), 60, 24)
	x.await("› ", "Ready")
	x.run("send-keys", "go", "Enter")
	x.await("word150a")
	x.resize(40, 24)
	x.await("Done", "Ready")
	all := x.all()
	for _, word := range words {
		require.Equal(t, 1, strings.Count(all, word), "%s in\n%s", word, all)
	}
	require.NotContains(t, all, "Ctrl-C interrupts")
	x.leave()
}

// A frame on its way to a window that becomes narrower meanwhile takes nothing of what
// is above it, and neither does the next one, although the rows were wrapped neither
// before nor after the change.
func TestAFrameOnItsWayToANarrowerWindowLosesNothing(t *testing.T) {
	paragraphs := []string{
		"The first paragraph has some words, so that it takes more than a row of the window, and is finished by then.",
		"The second one is still open when the terminal already is narrower than it is wide: too narrow for it.",
	}
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text(strings.Join(paragraphs, "\n\n")).WithChunkDelay(50*time.Millisecond)))
	p.ResizeBefore("terminal", 45, 24)
	p.Type("go\n")
	p.Await("too narrow for it.", "Done", "Ready")
	all := strings.Join(strings.Fields(p.All()), " ")
	for _, text := range paragraphs {
		require.Equal(t, 1, strings.Count(all, text), p.All())
	}
	p.leaves()
}

// What is printed while the window changes its size is there once, whatever the
// sizes were. A window becomes wider after the session has drawn for the narrower one:
// see [session.draw].
func TestAStormOfSizesLosesAndDoublesNothing(t *testing.T) {
	storm := [][][2]int{
		{{60, 20}}, {{100, 30}}, {{70, 20}, {41, 20}}, {{80, 24}}, {{50, 24}}, {{80, 24}, {120, 30}},
		{{119, 30}, {110, 28}, {90, 26}, {45, 24}}, {{80, 24}}, {{100, 30}, {60, 20}}, {{100, 30}},
	}
	const each = 8 // paragraphs of a reply
	var words []string
	var replies []pygenttest.Reply
	for i := range each * len(storm) {
		words = append(words, fmt.Sprintf("Paragraph %d has some words, so that it is wrapped in a narrow window, and ends with mark%d.", i, i))
		if len(words)%each == 0 {
			replies = append(replies, pygenttest.Text(strings.Join(words[len(words)-each:], "\n\n")).WithChunkDelay(2*time.Millisecond))
		}
	}
	p := sit(t, pygenttest.NewServer(t, replies...))
	for i, sizes := range storm {
		p.Type("go\n")
		shows(p, each*i+i%3)
		for _, size := range sizes {
			p.Resize(size[0], size[1])
		}
		shows(p, each*(i+1)-1)
		p.Await("Done", "Ready")
	}
	all := strings.Join(strings.Fields(p.All()), " ")
	for i, text := range words {
		require.Equal(t, 1, strings.Count(all, text), "paragraph %d in\n%s", i, p.All())
	}
	require.Equal(t, 1, strings.Count(all, "Ready"), p.All())
	require.Zero(t, strings.Count(all, "Ctrl-C interrupts"), p.All())
	p.leaves()
}

// shows waits until a paragraph is shown to its end.
func shows(p *person, paragraph int) {
	p.t.Helper()
	p.Until(fmt.Sprint("paragraph ", paragraph), func(termtest.Screen) bool { return strings.Contains(p.All(), fmt.Sprintf("mark%d.", paragraph)) })
}
