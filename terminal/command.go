package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/slash"
)

// command is a command of the session, such as /help, or a command line of the
// person's own, such as "!git status". While it goes on, the session shows the end of
// what it writes, and prints all of it when it ends.
type command struct {
	sign  string // before the line on the screen
	line  string
	name  string // in the status line
	again string // how to begin another command line like it
	as    pygent.Command
	run   func(ctx context.Context, out io.Writer) (pygent.CommandResult, error)

	began   time.Time
	told    bool // the line is printed
	stopped bool // Ctrl-C was pressed
	away    bool // it has the terminal
	out     *written
	cancel  context.CancelCauseFunc
}

// submitCommand carries out a line that begins with "/" or "!". It reports false if
// it says why it does not.
func (s *session) submitCommand(line string) bool {
	if s.command != nil {
		s.hint("a command is still running")
		return false
	}
	own, isOwn := strings.CutPrefix(line, "!")
	switch own = strings.TrimSpace(own); {
	case !isOwn:
		s.startCommand(s.slashCommand(line))
	case own == "":
		s.hint("type a command after \"!\"")
		return false
	default:
		s.startCommand(s.shellCommand(own))
	}
	return true
}

// slashCommand is the command of a line that begins with a slash.
func (s *session) slashCommand(line string) *command {
	as := s.commandOf(line)
	return &command{
		sign: "› ", line: line, name: "/" + as.Name, again: "/cmd ", as: as,
		run: func(ctx context.Context, out io.Writer) (pygent.CommandResult, error) {
			return s.agent.RunCommand(ctx, line, out)
		},
	}
}

func (s *session) startCommand(c *command) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	c.began, c.out, c.cancel = time.Now(), &written{}, cancel
	s.command, s.around.saves, s.display.changed = c, nil, true
	if s.turn == nil { // else what the turn prints would come between it and its output
		s.tellCommand(c)
	}
	if c.as.Interactive {
		s.lend(ctx, c)
		return
	}
	s.background(func() {
		result, err := c.run(ctx, c.out)
		s.post(func() { s.endCommand(c, result, err) })
	})
}

// commandOf returns the command that a line names.
func (s *session) commandOf(line string) pygent.Command {
	name, _, _ := slash.Split(line)
	for _, c := range s.agent.Commands() {
		if c.Name == name {
			return c
		}
	}
	return pygent.Command{Name: name}
}

func (s *session) tellCommand(c *command) {
	if !c.told {
		c.told = true
		s.say(kindUser, s.theme.accent(c.sign)+s.theme.bold(strings.ReplaceAll(visible(c.line), "\n", "\n  ")))
	}
}

// endCommand prints what a command wrote, and does what is left to do.
func (s *session) endCommand(c *command, r pygent.CommandResult, err error) {
	s.command = nil
	c.cancel(nil)
	s.tellCommand(c)
	if s.helped(c, err) {
		return
	}
	if out := s.commandText(c, r); out != "" {
		s.say(kindEnd, out)
	}
	if r.Bash != nil && r.Bash.Note != "" {
		s.say(kindEnd, s.wrapped(s.theme.dim("· "+told(r.Bash.Note))))
	}
	switch {
	case c.stopped && err != nil:
		s.say(kindEnd, s.theme.warn("■ Interrupted")+s.theme.dim(lasted(c.began)))
	case r.Bash != nil && (err == nil || r.Bash.ExitCode > 0):
		s.say(kindEnd, s.scriptEnd(r.Bash))
	case err != nil:
		s.say(kindEnd, s.wrapped(s.theme.bad("✗ ")+told(s.start.Words(err))))
	}
	if err == nil {
		s.afterCommand(c, r)
	}
	if s.turn == nil && s.leaving == nil {
		s.sendUnheard() // what waited for the command
	}
}

// afterCommand does what a command asks the session to do.
func (s *session) afterCommand(c *command, r pygent.CommandResult) {
	switch {
	case r.Leave:
		s.leave()
	case r.Resume && s.turn != nil:
		s.hint("a turn is still running")
	case r.Resume:
		s.resume()
	case r.Message != nil && s.sayLater(*r.Message):
		s.noteSaid(c, r.Message.Text())
		if s.turn == nil {
			s.sendUnheard()
		}
	}
}

// longSaid is how long a message may be, in bytes, that a command has made and that
// is shown as if the person had typed it.
const longSaid = 300

// noteSaid has a long message that a command has made shown as the command line.
// During a turn, the agent hears of it later, and the line is shown again then.
func (s *session) noteSaid(c *command, text string) {
	if len(text) <= longSaid {
		return
	}
	if s.saidBy == nil {
		s.saidBy = map[string]string{}
	}
	if s.saidBy[text] = ""; s.turn != nil {
		s.saidBy[text] = c.line
	}
}

// typedAs is what a message is shown as: the command line that made it, or its text.
func (s *session) typedAs(text string) string { return cmp.Or(s.saidBy[text], text) }

// commandText is what a command wrote, as it is printed.
func (s *session) commandText(c *command, r pygent.CommandResult) string {
	if r.Bash != nil && r.Bash.Output != "" {
		return barred(scriptText(*r.Bash, c.again))
	}
	out := strings.TrimRight(c.out.text(), "\n")
	switch c.as.Output {
	case pygent.OutputDiff:
		if !strings.Contains(out, "\n") {
			break // it says that there is none
		}
		var lines []string
		for line := range strings.SplitSeq(out, "\n") {
			lines = append(lines, s.diffText(visible(line)))
		}
		return strings.Join(lines, "\n")
	case pygent.OutputTable:
		var lines []string
		for line := range strings.SplitSeq(out, "\n") {
			lines = append(lines, s.tableLine(visible(line)))
		}
		return strings.Join(lines, "\n")
	}
	return s.fitted(visible(out))
}

// diffText gives a line its colour in a diff with words between the changes.
func (s *session) diffText(line string) string {
	switch {
	case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "-"), strings.HasPrefix(line, " "), strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "…"):
		return s.diffLine(line)
	}
	return s.theme.bold(line)
}

// maxPrinted is how many lines are printed of the output of a script.
const maxPrinted = 400

// scriptText is the output of a script: its beginning and its end, and where the
// rest of a long one is. again is how the person begins another script.
func scriptText(b pygent.BashResult, again string) string {
	const toSeeRest = "… to see the rest, write it to a file: "
	text := strings.TrimRight(b.Output, "\n")
	lines := strings.Split(text, "\n")
	rest := ""
	if left := len(lines) - maxPrinted; left > 0 {
		lines = slices.Concat(lines[:maxPrinted/2], []string{more(left)}, lines[len(lines)-maxPrinted/2:])
		rest = toSeeRest + again + "COMMAND > FILE"
	}
	for i, line := range lines {
		if len(line) > maxLine {
			line = cut.Head(line, maxLine) + " …"
			rest = toSeeRest + again + "COMMAND > FILE"
		}
		lines[i] = visible(line)
	}
	if b.FullPath != "" {
		rest = "… full output: " + visible(b.FullPath) + ", readable by commands: " + again + "tail -n 100 FILE"
	}
	if rest != "" {
		lines = append(lines, rest)
	}
	return strings.Join(lines, "\n")
}

// scriptEnd says how a script ended.
func (s *session) scriptEnd(b *pygent.BashResult) string {
	sign := s.theme.good("✓ ")
	if b.ExitCode != 0 {
		sign = s.theme.bad("✗ ")
	}
	return sign + s.theme.dim(exitWords(b)+" · "+numeral.Took(b.Duration))
}

// exitWords says what the exit code of a command is. Nobody knows that of one whose
// container died.
func exitWords(b *pygent.BashResult) string {
	if b.ExitCode < 0 {
		return "exit unknown"
	}
	return fmt.Sprintf("exit %d", b.ExitCode)
}

func lasted(since time.Time) string { return " · " + numeral.Took(time.Since(since)) }

// commandRows shows the command that goes on.
func (s *session) commandRows(now time.Time) []string {
	c := s.command
	if c == nil {
		return nil
	}
	rows := []string{s.theme.accent("● ") + oneLine(c.line) + s.theme.dim(" · "+wholeSeconds(now.Sub(c.began)))}
	for _, line := range lastLines(c.out.end(), liveLines) {
		rows = append(rows, s.theme.dim("  "+line))
	}
	return rows
}

// helped prints the list of commands, or the help for one, in place of what /help
// wrote.
func (s *session) helped(c *command, err error) bool {
	if err != nil || c.as.Name != "help" {
		return false
	}
	_, name, _ := slash.Split(c.line)
	s.say(kindEnd, s.help(strings.TrimPrefix(name, "/")))
	return true
}

// lend gives the terminal to a command until it returns. Nothing is drawn meanwhile,
// and Ctrl-C ends the context of the command.
func (s *session) lend(ctx context.Context, c *command) {
	if err := s.stepAside(); err != nil {
		s.fail(err)
		return
	}
	c.away = true
	done := make(chan struct{})
	s.lent = done
	go func() { // not waited for longer than the session does at its end
		defer close(done)
		result, err := c.run(ctx, s.tty.out)
		s.post(func() {
			c.away = false
			var panicked *safecall.PanicError
			if failed := s.comeBack(errors.As(err, &panicked)); failed != nil {
				s.fail(failed)
				return
			}
			s.endCommand(c, result, err)
		})
	}()
}

// isAway reports whether a command has the terminal.
func (s *session) isAway() bool { return s.command != nil && s.command.away }

// stopCommand ends the command that goes on.
func (s *session) stopCommand() {
	c := s.command
	c.stopped = true
	c.cancel(faces.ErrInterrupted)
	if c.away {
		s.tty.endReads()
	}
}

// awaitLent waits a moment for a command that has the terminal, so that it can put
// the terminal back.
func (s *session) awaitLent() {
	if s.lent == nil {
		return
	}
	select {
	case <-s.lent:
	case <-time.After(lentGrace):
	}
}

// lentGrace is how long the end of the session waits for a command that has the
// terminal.
const lentGrace = time.Second

// fail ends the session with an error, unless it is over anyway.
func (s *session) fail(err error) {
	if !errors.Is(err, errNoOutput) && !errors.Is(err, syscall.EIO) { // of a terminal that has hung up
		s.err = errors.Join(s.err, err)
	}
	s.end()
}
