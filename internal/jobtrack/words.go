package jobtrack

import (
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
)

// State is how a job is.
type State struct {
	ID        string
	Command   string
	Running   bool
	ExitCode  int
	TimedOut  bool
	Killed    bool
	Printed   int64
	Duration  time.Duration
	Processes int
}

// String describes the job in one line.
func (s State) String() string {
	took := s.Duration.Round(time.Second / 10)
	var is string
	switch {
	case s.Running && s.Processes == 1:
		is = fmt.Sprintf("running for %s", s.Duration.Round(time.Second))
	case s.Running:
		is = fmt.Sprintf("running for %s, %d processes", s.Duration.Round(time.Second), s.Processes)
	case s.Killed:
		is = fmt.Sprintf("killed by job_kill after %s", took)
	case s.TimedOut:
		is = fmt.Sprintf("killed at its time limit after %s", took)
	case s.ExitCode == 128+9:
		is = fmt.Sprintf("killed with exit code %d after %s, most often because memory ran out", s.ExitCode, took)
	default:
		is = fmt.Sprintf("ended with exit code %d after %s", s.ExitCode, took)
	}
	return fmt.Sprintf("job %s (%s): %s, %d%s", s.ID, shown(s.Command), is, s.Printed, printed)
}

const printed = " bytes printed"

// shown is as much of a command as is said.
func shown(command string) string {
	if len(command) > shownCommand {
		command = strings.TrimSuffix(cut.Head(command, shownCommand), " …") + " …"
	}
	return command
}

const (
	started  = "started job "
	hasBegun = " in the background"
	goesOn   = "it goes on as job "
	leftAs   = ", as job "
	met      = "; it is still running, although the run that started it is over"
	lost     = " is lost, with the container or process that it ran in"

	// TextFound ends the line of a job whose output was read up to a text.
	TextFound = "; the text was printed"
)

// Started says that a job was started.
func Started(id string) string {
	return started + id + hasBegun + "; you are told of its end; read what it prints with job_output, end it with job_kill"
}

// GoesOn says that a command that was waited for goes on as a job.
func GoesOn(id string, after time.Duration) string {
	return fmt.Sprintf("[still running after %s; %s%s: see what it prints, or wait for its end, with job_output, end it with job_kill]", after, goesOn, id)
}

// Met says that a job has outlived the run before.
func Met(s State) string { return fmt.Sprintf("[%s%s]", s, met) }

// Lost says that a job is gone.
func (j Job) Lost() string {
	return fmt.Sprintf("[job %s (%s)%s; if it is still needed, start it again with bash and background]", j.ID, j.Command, lost)
}

// Ended says that a job has ended, and what it printed last. No line of that can
// pass for another notice.
func Ended(s State, last string) string {
	text := fmt.Sprintf("[%s]", s)
	if last = strings.TrimSpace(last); last == "" {
		return text
	}
	return text + " its last lines:\n  " + strings.ReplaceAll(last, "\n", "\n  ")
}
