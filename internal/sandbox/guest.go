package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/guest"
)

// GuestCommander runs commands through a guest: a small program of ours that
// runs where the commands run, and lets none of their processes get away.
type GuestCommander struct {
	Client *guest.Client
	// Killed explains the status of a command that was killed, most often
	// because memory ran out. It may be empty.
	Killed string
}

func (g *GuestCommander) Shell(context.Context) string {
	return shellName(g.Client.Info().Shell)
}

// shellName is the name of a shell at a path, slash or backslash separated.
func shellName(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexAny(path, `/\`)+1:], ".exe")
}

func (g *GuestCommander) Close() error { return g.Client.Close() }

func (g *GuestCommander) Guest(context.Context) (*guest.Client, error) { return g.Client, nil }

func (g *GuestCommander) Run(ctx context.Context, spec Command) (Result, error) {
	res, _, err := g.Execute(ctx, spec)
	return res, err
}

// Execute runs a command, and also tells how many of its processes outlived a KILL.
func (g *GuestCommander) Execute(ctx context.Context, spec Command) (_ Result, survivors int, err error) {
	r, err := g.Client.Run(ctx, spec.guestCommand())
	res := Result{
		ExitCode: r.ExitCode,
		TimedOut: r.TimedOut,
		Duration: r.Duration,
		Note:     g.note(r),
	}
	res.SetOutput(r.Head, r.Tail, r.Omitted)
	if res.Truncated {
		res.FullPath = r.Spill
		res.keeps = g.Client
	}
	if r.Job != "" && err == nil {
		res.left, res.Job, res.GoesOn, res.Printed = g.Client, r.Job, r.GoesOn, r.Total
	}
	return res, r.Survivors, err
}

// guestCommand is the command as the guest takes it.
func (s Command) guestCommand() guest.Command {
	script := s.Script
	if strings.HasPrefix(script, "-") {
		script = " " + script // or the shell takes it for an option
	}
	return guest.Command{
		Script:  script,
		Dir:     s.Dir,
		Env:     s.Env,
		Timeout: max(s.Timeout, 0),
		Grace:   KillGrace,
		Head:    (s.MaxOutput + 1) / 2,
		Tail:    s.MaxOutput / 2,

		GoOn:      s.GoOn,
		JobsAfter: s.jobsAfter,
		OnOutput:  s.Live,
	}
}

// note returns what the model should know besides a result's other fields.
func (g *GuestCommander) note(r guest.Result) string {
	var notes []string
	if r.Spill != "" && r.SpillSize < r.Total {
		notes = append(notes, fmt.Sprintf("%s holds only the first %d bytes of %d", r.Spill, r.SpillSize, r.Total))
	}
	if g.Killed != "" && r.ExitCode == 137 && !r.TimedOut && !r.Cancelled {
		notes = append(notes, g.Killed)
	}
	if r.LeftCount > 0 && !r.GoesOn {
		notes = append(notes, fmt.Sprintf("%s, as job %s", leftBehind(r), r.Job))
	}
	if r.Survivors > 0 {
		notes = append(notes, fmt.Sprintf("%d of its processes could not be killed", r.Survivors))
	}
	return strings.Join(notes, "; ")
}

// shownProcesses is how many processes a note names.
const shownProcesses = 5

// leftBehind names the processes that a command left behind.
func leftBehind(r guest.Result) string {
	var names []string
	for _, p := range r.Left[:min(len(r.Left), shownProcesses)] {
		names = append(names, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
	}
	if more := r.LeftCount - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "still running in the background: " + strings.Join(names, ", ")
}

// shownWords is how much is shown of what a guest said before its end.
const shownWords = 1 << 10

// LastWords is what a guest that died said before, to be added to an error or
// note, or "".
func (g *GuestCommander) LastWords() string {
	words := g.Client.LastWords()
	if words == "" {
		return ""
	}
	return "; the guest said: " + strings.ToValidUTF8(words[:min(len(words), shownWords)], "")
}

// TellLimits sends an event about what a guest cannot contain here.
func (g *GuestCommander) TellLimits(emit func(Event)) {
	if limits := g.Client.Info().Limits; limits != "" {
		emit(Event{Kind: Limited, Text: limits})
	}
}

// ErrNoGuest is returned for what only a guest can do.
var ErrNoGuest = fmt.Errorf("%w: the image's platform has no guest, so commands run by plain exec", errors.ErrUnsupported)
