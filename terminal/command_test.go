package terminal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/livearea"
)

// ownCommand is a command line of the person that goes on.
func ownCommand() *command {
	return &command{sign: shellPrompt, line: "!make", name: "your command", again: "!", began: time.Now(), told: true, cancel: func(error) {}, out: &written{}}
}

func TestACommandLineOfWhichNobodyKnowsTheEnd(t *testing.T) {
	died := "the container died while the command ran; the next command gets a new one on the same workspace"
	tests := []struct {
		name string
		bash pygent.BashResult
		err  error
		want string
	}{
		{"the container died", pygent.BashResult{ExitCode: -1, Output: "line 1\n", Note: died}, nil,
			"line 1\n· the container died while the command\n  ran; the next command gets a new one\n  on the same workspace\n✗ exit unknown · 0 ms\n"},
		{"before it printed anything", pygent.BashResult{ExitCode: -1, Note: "lost"}, nil, "· lost\n✗ exit unknown · 0 ms\n"},
		{"the engine does not answer", pygent.BashResult{ExitCode: -1}, errors.New("the engine does not answer"), "✗ the engine does not answer\n"},
		{"a script that failed", pygent.BashResult{ExitCode: 3}, errors.New("exit code 3 after 0s"), "✗ exit 3 · 0 ms\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := onBroken(t)
			s.display.area = livearea.New(40, 24)
			s.endCommand(ownCommand(), pygent.CommandResult{Bash: &tt.bash}, tt.err)
			require.Equal(t, tt.want, strings.TrimLeft(ansi.Strip(s.display.take()), "\n"))
		})
	}
}

// A container that does not answer holds up the end of a command that was stopped.
func TestTheStatusSaysThatACommandIsBeingStopped(t *testing.T) {
	s := onBroken(t)
	s.command = ownCommand()
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Running your command · 0 s · Ctrl-C interrupts")
	s.stopCommand()
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Interrupting your command · 0 s · press Ctrl-C again to leave")
	s.turn, s.doing.Since = &turn{}, time.Now()
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Interrupting your command · 0 s · Ctrl-C to interrupt the turn")
}

// Before the container runs, nothing else does.
func TestTheStatusSaysThatTheContainerStarts(t *testing.T) {
	s := onBroken(t)
	s.display.area = livearea.New(100, 24)
	happens := func(kind pygent.RuntimeEventKind) {
		s.event(pygent.Event{Type: pygent.EventRuntime, Text: string(kind), Runtime: &pygent.RuntimeEvent{Kind: kind}})
	}
	s.command = ownCommand()
	happens(pygent.RuntimeStarting)
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Running your command · the container is starting · 0 s")
	require.Empty(t, s.display.take())
	s.turn = &turn{}
	s.doing.Is("Thinking", time.Now())
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Thinking · 0 s")
	s.doing.Is("Running a command", time.Now())
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Running a command · the container is starting · 0 s")
	happens(pygent.RuntimeSilent)
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Running a command · the container is starting · 0 s", "the engine goes on with it")
	happens(pygent.RuntimeStarted)
	require.Contains(t, ansi.Strip(s.status(time.Now())), "Running a command · 0 s")
}
