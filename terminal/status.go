package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/numeral"
)

// full says how full the model's context is; empty if that is not known.
func full(c pygent.ContextUse) string {
	switch {
	case c.Used == 0:
		return ""
	case c.Window > 0 && c.Used*100 < c.Window:
		return "context <1 %"
	case c.Window > 0:
		return fmt.Sprintf("context %d %%", min(c.Used*100/c.Window, 100))
	default:
		return "context " + numeral.Grouped(c.Used) + " tokens"
	}
}

const spinnerSigns = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

// spinner is the sign of something that goes on, at a time.
func spinner(now time.Time) string {
	all := []rune(spinnerSigns)
	return string(all[int(now.UnixMilli()/int64(tick/time.Millisecond))%len(all)])
}

// status is the line that says what the agent does.
func (s *session) status(now time.Time) string {
	if m := s.menu(); m != nil && !m.free {
		words, who, help := cmp.Or(s.display.hinted, "Waiting for you"), "", s.menuHelp(m)
		if m.task != "" { // there may be no room to say it elsewhere
			who = m.task + ": "
		}
		if width, _ := s.display.area.Size(); help != "" && livearea.Width("● "+who+words+help) > width {
			words, help = strings.TrimPrefix(help, " · "), ""
		}
		words = who + words
		return s.theme.warn("● "+words) + s.theme.dim(help)
	}
	switch {
	case s.leaving.goesOn():
		return s.working(now, s.leaving.since, s.leaving.words, "Ctrl-C to stop")
	case s.input.attaching != nil:
		return s.working(now, s.input.attaching.began, "Reading your files", "Ctrl-C to cancel")
	case s.turn != nil:
		words, keys := cmp.Or(s.doing.Words, "Working"), "Ctrl-C interrupts"
		switch {
		case s.turn.Interrupted:
			keys = "press Ctrl-C again to leave"
		case s.command != nil && s.command.stopped:
			words, keys = "Interrupting your command", "Ctrl-C to interrupt the turn"
		case s.command != nil:
			keys += " the command"
		}
		return s.working(now, s.doing.Since, s.doing.WithStart(words), keys)
	case s.command != nil && s.command.stopped:
		return s.working(now, s.command.began, "Interrupting "+oneLine(s.command.name), "press Ctrl-C again to leave")
	case s.command != nil:
		return s.working(now, s.command.began, s.doing.WithStart(faces.Running(s.command.name)), "Ctrl-C interrupts")
	}
	return s.ready()
}

// Bounds of what the line shows, in columns: how much of what goes on there is at least,
// and how much of the model's name at most while nothing does.
const (
	leastWords = 20
	mostModel  = 40
)

// working is the line while something goes on: what that is, as far as there is room
// beside how long it has taken and what the keys do, since its words may have a name of
// any length.
func (s *session) working(now, since time.Time, words, keys string) string {
	rest := " · " + wholeSeconds(now.Sub(since)) + " · " + keys + s.hintAfter()
	width, _ := s.display.area.Size()
	words = livearea.Cut(words, max(width-livearea.Width("● "+rest), leastWords))
	return s.theme.accent(spinner(now)+" "+words) + s.theme.dim(rest)
}

// ready is the line while nothing goes on.
func (s *session) ready() string {
	facts, help := []string{"Ready"}, ""
	if m := s.menu(); m != nil {
		help = s.menuHelp(m)
	}
	if s.doing.Model != "" {
		facts = append(facts, livearea.Cut(oneLine(s.doing.Model), mostModel))
	}
	if full := full(s.doing.Context); full != "" {
		facts = append(facts, full)
	}
	facts = append(facts, s.around.facts()...)
	// What is last is cut off in a narrow terminal: rather a fact than the word about the last key.
	return s.theme.dim("· "+facts[0]+s.hintAfter()) + s.theme.warn(help) + s.theme.dim(strings.Join(append([]string{""}, facts[1:]...), " · "))
}

func (s *session) hintAfter() string {
	if s.display.hinted == "" {
		return ""
	}
	return " · " + s.display.hinted
}
