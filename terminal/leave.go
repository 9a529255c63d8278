package terminal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
)

// leaving is the end of a session: the person decides about what still runs, the
// turn is interrupted, and the person decides about the files of a temporary
// workspace. Where a context ends the session, nobody is asked.
type leaving struct {
	decided bool     // the person leaves, whatever runs
	looked  bool     // at the files, or this goes on
	asks    *menu    // about what runs; nil for nothing
	named   []string // what it is asked about, also what has ended since

	cancel context.CancelCauseFunc // of the listing or copying that goes on; nil for none
	words  string                  // for that
	since  time.Time

	files []export.File // what was made in the temporary workspace
	more  bool          // there are others
}

// goesOn reports whether the files are being listed or copied.
func (l *leaving) goesOn() bool { return l != nil && l.cancel != nil }

// leave ends the session. While it waits for the end of something, it does not wait
// any longer.
func (s *session) leave() {
	l := s.leaving
	switch {
	case l == nil:
		s.leaving = &leaving{}
		s.askWhatRuns()
	case l.cancel != nil:
		l.cancel(faces.ErrInterrupted)
	case l.decided && !l.looked:
		s.leaveFiles()
	}
}

// stay goes on with the session after all.
func (s *session) stay() {
	s.leaving, s.input.warned = nil, false
	s.display.changed = true
	if s.turn == nil {
		s.queue.Hold(s.agent)
	}
}

// askWhatRuns names what ends with the session besides the turn, if there is
// anything.
func (s *session) askWhatRuns() {
	names := s.whatRuns()
	if len(names) == 0 {
		s.leaveTurn()
		return
	}
	s.leaving.named = names
	m := &menu{
		head: s.wouldEnd(),
		body: strings.Join(names, "\n"),
		items: []item{
			{key: "g", esc: true, label: "Go back to the session", short: "go back"},
			{key: "l", label: "Leave", short: "leave"},
		},
	}
	m.done = func(choice int, _ string) {
		s.leaving.asks = nil
		if m.items[choice].key == "l" {
			s.leaveTurn()
		} else {
			s.stay()
		}
	}
	m.quit = func() { s.settle(m, m.itemAt("l"), "") }
	s.leaving.asks = m
	s.openFirst(m)
}

// whatRuns names what ends with the session besides the turn, a line each.
func (s *session) whatRuns() (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(s.around.tasks)) {
		lines = append(lines, "task "+s.around.tasks[id].label)
	}
	for _, j := range s.around.jobs {
		if j.Running {
			lines = append(lines, "job "+oneLine(j.ID)+": "+oneLine(j.Command))
		}
	}
	return lines
}

func (s *session) wouldEnd() string {
	return strings.Join(s.around.facts(), " and ") + " would be stopped:"
}

// updateLeave says in the question about what still runs what has ended since. It
// stays when nothing runs any more: what has ended is lost unheard if the person leaves,
// and who is asked gives the answer.
func (s *session) updateLeave() {
	if s.leaving == nil || s.leaving.asks == nil {
		return
	}
	l, running := s.leaving, s.whatRuns()
	var ended []string
	for _, name := range l.named {
		if !slices.Contains(running, name) {
			ended = append(ended, name)
		}
	}
	l.named = slices.Concat(running, ended)
	for i := range ended {
		ended[i] += " · has ended"
	}
	l.asks.body = strings.Join(slices.Concat(running, ended), "\n")
	if l.asks.head = s.wouldEnd(); len(running) == 0 {
		l.asks.head = "Nothing is running any more. Results that the agent has not seen would be lost:"
	}
	l.asks.layout, s.display.changed = layout{}, true
}

// leaveTurn interrupts what goes on, and waits for the end of the turn.
func (s *session) leaveTurn() {
	s.leaving.decided = true
	if s.input.attaching != nil {
		s.input.attaching.cancel(faces.ErrInterrupted)
	}
	if s.command != nil && !s.command.stopped {
		s.stopCommand()
	}
	if s.turn != nil {
		s.interruptTurn()
		return
	}
	s.leaveFiles()
}

// aside does a part of the end in a goroutine, and calls done with its error, unless
// the session has ended meanwhile.
func (s *session) aside(words string, limit time.Duration, f func(context.Context) error, done func(error)) {
	l := s.leaving
	ctx, cancel := context.WithCancelCause(s.ctx)
	l.cancel, l.words, l.since, s.display.changed = cancel, words, time.Now(), true
	s.background(func() {
		defer cancel(nil)
		limited, stop := context.WithTimeout(ctx, limit)
		defer stop()
		_, err := safecall.Outlive(limited, func() (struct{}, error) { return struct{}{}, f(limited) })
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		s.post(func() {
			l.cancel = nil
			done(err)
		})
	})
}

// temporaryFiles lists the files of a temporary workspace besides some, in a bounded
// time.
func (s *session) temporaryFiles(ctx context.Context, besides ...pygent.FileInfo) ([]pygent.FileInfo, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	return s.agent.TemporaryFiles(ctx, besides...)
}

// leaveFiles looks for files that were made in a temporary workspace, and asks what
// becomes of them.
func (s *session) leaveFiles() {
	l := s.leaving
	if l.looked {
		return
	}
	l.looked = true
	var files []pygent.FileInfo
	var more bool
	s.aside("Looking for files", listWithin, func(ctx context.Context) (err error) {
		files, more, err = s.agent.TemporaryFiles(ctx, s.given...)
		return err
	}, func(err error) {
		switch {
		case errors.Is(err, pygent.ErrRuntimeStart) && !s.started, errors.Is(err, pygent.ErrRuntimeClosed):
			s.end()
		case err != nil:
			l.more = true
			s.askFiles("the files could not be listed: " + told(err.Error()))
		case len(files) == 0 && !more:
			s.end()
		default:
			for _, f := range files {
				l.files = append(l.files, export.File{Path: f.Path, Size: f.Size, Mode: f.Mode})
			}
			l.more = more
			s.askFiles("")
		}
	})
}

// askFiles asks what becomes of the files of the temporary workspace. A problem, if
// there is one, says why they are not kept yet.
func (s *session) askFiles(problem string) {
	if problem != "" {
		s.say(kindNews, s.wrapped(s.theme.bad("✗ ")+problem))
		s.sayWhereFilesAre()
	}
	l, here := s.leaving, export.FreeName(s.dir, time.Now())
	m := &menu{
		head: export.Question(l.files, l.more),
		body: export.List(l.files, l.more),
		items: []item{
			{key: "k", label: "Keep them in ./" + here, short: "keep"},
			{key: "e", label: "Keep them in another directory", short: "elsewhere", text: "directory: "},
			{key: "d", label: "Delete them", short: "delete"},
			{key: "g", esc: true, label: "Go back to the session", short: "go back"},
		},
	}
	m.done = func(choice int, text string) {
		switch m.items[choice].key {
		case "k":
			s.keepFiles(here)
		case "e":
			s.keepElsewhere(text)
		case "d":
			s.say(kindEnd, s.theme.dim("The files are deleted."))
			s.end()
		default:
			s.stay()
		}
	}
	s.input.warned = false
	m.quit = func() { // no key deletes that is pressed only to get out
		s.hint("press k to keep the files, d to delete them")
	}
	m.stop = func() {
		if s.input.warned {
			s.settle(m, m.itemAt("d"), "")
			return
		}
		s.input.warned = true
		m.deafen(time.Now())
		s.hint("another signal deletes the files")
	}
	s.openFirst(m)
}

// sayWhereFilesAre names the directory of the files, for a person to copy them from
// there while the runtime cannot do it.
func (s *session) sayWhereFilesAre() {
	if _, err := os.Stat(s.hostDir); err != nil { // they are elsewhere, or there is none
		return
	}
	s.say(kindNews, s.wrapped("The files are in\n"+visible(s.hostDir)+"\nCopy them from there before the session ends."))
}

// keepElsewhere keeps the files in a directory that the person has named.
func (s *session) keepElsewhere(dir string) {
	if dir == "" {
		s.askFiles("")
		return
	}
	meant, err := pathname.Host().Read(dir)
	if err != nil {
		s.askFiles(err.Error())
		return
	}
	s.keepFiles(meant)
}

// keepFiles copies the workspace to a directory, which must be new or empty, and
// ends the session. If that is not possible, the person is asked again.
func (s *session) keepFiles(dir string) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.dir, dir)
	}
	var lost []string
	s.aside("Copying the files to "+oneLine(dir), export.Within, func(ctx context.Context) (err error) {
		lost, err = s.agent.KeepTemporary(ctx, dir)
		return err
	}, func(err error) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it took longer than %s: %w", export.Within, err)
		}
		if err != nil {
			s.askFiles("the files could not be kept: " + told(err.Error()))
			return
		}
		text := s.theme.good("✓ ") + "The files are in " + visible(dir)
		special, unread := export.NotCopied(s.leaving.files, lost)
		if special != "" {
			text += "\n" + s.theme.warn("! "+visible(special))
		}
		if unread != "" {
			text += "\n" + s.theme.bad("✗ "+visible(unread))
		}
		s.say(kindEnd, text)
		s.end()
	})
}
