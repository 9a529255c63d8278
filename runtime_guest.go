package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/guest"
)

// guestCommander runs commands through a guest: a small program of ours that
// runs where the commands run, and lets none of their processes get away.
type guestCommander struct {
	client *guest.Client
	// killed explains the status of a command that was killed, most often
	// because memory ran out. It may be empty.
	killed string
}

func (g *guestCommander) shell(context.Context) string {
	return shellName(g.client.Info().Shell)
}

// shellName is the name of a shell at a path, slash or backslash separated.
func shellName(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexAny(path, `/\`)+1:], ".exe")
}

func (g *guestCommander) close() error { return g.client.Close() }

func (g *guestCommander) guest(context.Context) (*guest.Client, error) { return g.client, nil }

func (g *guestCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	res, _, err := g.execute(ctx, spec)
	return res, err
}

// execute runs a command, and also tells how many of its processes outlived a KILL.
func (g *guestCommander) execute(ctx context.Context, spec commandSpec) (_ BashResult, survivors int, err error) {
	r, err := g.client.Run(ctx, spec.guestCommand())
	res := BashResult{
		ExitCode: r.ExitCode,
		TimedOut: r.TimedOut,
		Duration: r.Duration,
		Note:     g.note(r),
	}
	joinOutput(r.Head, r.Tail, r.Omitted, &res)
	if res.Truncated {
		res.FullPath = r.Spill
	}
	return res, r.Survivors, err
}

// guestCommand is the command as the guest takes it.
func (s commandSpec) guestCommand() guest.Command {
	script := s.script
	if strings.HasPrefix(script, "-") {
		script = " " + script // or the shell takes it for an option
	}
	return guest.Command{
		Script:  script,
		Dir:     s.dir,
		Env:     s.env,
		Timeout: max(s.timeout, 0),
		Grace:   killGrace,
		Head:    (s.maxOutput + 1) / 2,
		Tail:    s.maxOutput / 2,
	}
}

// note says what a result's other fields do not.
func (g *guestCommander) note(r guest.Result) string {
	var notes []string
	if r.Spill != "" && r.SpillSize < r.Total {
		notes = append(notes, fmt.Sprintf("that file holds only the first %d bytes of %d", r.SpillSize, r.Total))
	}
	if g.killed != "" && r.ExitCode == 137 && !r.TimedOut && !r.Cancelled {
		notes = append(notes, g.killed)
	}
	if r.LeftCount > 0 {
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

// lastWords is what a guest that died said before, to be added to an error or
// note, or "".
func (g *guestCommander) lastWords() string {
	words := g.client.LastWords()
	if words == "" {
		return ""
	}
	return "; the guest said: " + strings.ToValidUTF8(words[:min(len(words), shownWords)], "")
}

// tellLimits tells where a guest has less hold of commands than elsewhere.
func (g *guestCommander) tellLimits(emit func(RuntimeEvent)) {
	if limits := g.client.Info().Limits; limits != "" {
		emit(RuntimeEvent{Kind: RuntimeLimited, Text: limits})
	}
}

// errNoGuest is returned for what only a guest can do.
var errNoGuest = fmt.Errorf("%w: the image's platform has no guest, so commands run by plain exec", errors.ErrUnsupported)
