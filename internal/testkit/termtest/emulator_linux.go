package termtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Screen is what a terminal shows at a moment.
type Screen struct {
	Lines     []string `json:"lines"` // its rows, without blanks at their ends
	Cols      int      `json:"cols"`
	Rows      int      `json:"rows"`
	X         int      `json:"x"`         // the cursor's column, from 0
	Y         int      `json:"y"`         // the cursor's row, from 0
	Above     int      `json:"above"`     // how many rows have scrolled away
	Alternate bool     `json:"alternate"` // the program uses the whole screen
	Hidden    bool     `json:"hidden"`    // the cursor is not shown
	Paste     bool     `json:"paste"`     // the program has pastes marked
	Mouse     bool     `json:"mouse"`     // the program takes the mouse
	Title     string   `json:"title"`     // of the window, if the program set one
	Bells     int      `json:"bells"`     // how often the bell has rung

	Replies []byte `json:"replies"` // what the terminal has answered to the program
}

// Text returns the rows of the screen, joined by line feeds.
func (s Screen) Text() string { return strings.Join(s.Lines, "\n") }

// String draws the screen.
func (s Screen) String() string {
	return fmt.Sprintf("┌ %d×%d, cursor at %d,%d\n│%s", s.Cols, s.Rows, s.X, s.Y, strings.Join(s.Lines, "\n│"))
}

// emulator draws the screen of a test's terminal. It is safe for concurrent use.
type emulator struct {
	t       testing.TB
	process *emulatorProcess
	mu      sync.Mutex // held from a request to its answer
	broken  bool       // guarded by mu: a request has failed
}

// emulatorProcess is a process that draws one screen after another. It ends when its
// standard input does, with the test program at the latest.
type emulatorProcess struct {
	requests *json.Encoder
	answers  *json.Decoder
}

// idle are the processes that no test uses now. The next tests use them, because the
// start of one takes longer than many a test.
var idle struct {
	sync.Mutex
	processes []*emulatorProcess
}

// request is one of the requests that emulator.mjs tells of.
type request struct {
	Open   []int   `json:"open,omitempty"`
	Write  *[]byte `json:"write,omitempty"`
	Resize []int   `json:"resize,omitempty"`
	All    bool    `json:"all,omitempty"`
}

// startEmulator returns an emulator that is the test's own until its end.
func startEmulator(t testing.TB, cols, rows int) *emulator {
	t.Helper()
	e := &emulator{t: t, process: takeIdle()}
	if e.process == nil {
		e.process = startProcess(t)
	}
	var empty Screen
	e.do(request{Open: []int{cols, rows}}, &empty)
	t.Cleanup(e.release)
	return e
}

// takeIdle returns a process that no test uses, or nil if there is none.
func takeIdle() *emulatorProcess {
	idle.Lock()
	defer idle.Unlock()
	last := len(idle.processes) - 1
	if last < 0 {
		return nil
	}
	p := idle.processes[last]
	idle.processes = idle.processes[:last]
	return p
}

// release leaves the process to the next test.
func (e *emulator) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken {
		return
	}
	idle.Lock()
	defer idle.Unlock()
	idle.processes = append(idle.processes, e.process)
}

// startProcess starts a process. The test is skipped, or fails, where the emulator is
// not installed, and skipped where only short ones are wanted: a session at a terminal takes
// long, and needs more than Go.
func startProcess(t testing.TB) *emulatorProcess {
	t.Helper()
	if testing.Short() {
		t.Skip("plays a session at a terminal")
	}
	_, file, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(file), "emulator", "emulator.mjs")
	home := filepath.Join(filepath.Dir(file), "..", "..", "..", ".build", "xterm")
	_, err := os.Stat(script) // which node alone reads, so that go test would not know of a change
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(home, "node_modules", "@xterm", "headless"))
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil && os.Getenv("PYGENT_TEST_REQUIRE_TOOLS") == "" {
		t.Skip("scripts/xterm.sh has not installed the emulator here: ", err)
	}
	require.NoError(t, err)
	cmd := exec.Command("node", script, home)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &emulatorProcess{requests: json.NewEncoder(in), answers: json.NewDecoder(bufio.NewReader(out))}
}

func (e *emulator) write(printed []byte) (s Screen) {
	e.do(request{Write: &printed}, &s)
	return s
}

func (e *emulator) resize(cols, rows int) (s Screen) {
	e.do(request{Resize: []int{cols, rows}}, &s)
	return s
}

func (e *emulator) lines() []Line {
	var answer struct{ All []Line }
	e.do(request{All: true}, &answer)
	return answer.All
}

func (e *emulator) do(r request, answer any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.process.requests.Encode(r)
	if err == nil {
		err = e.process.answers.Decode(answer)
	}
	if err != nil {
		e.broken = true
		e.t.Errorf("the emulator: %v", err)
	}
}
