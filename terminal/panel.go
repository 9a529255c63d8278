package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/excerpt"
	"github.com/x/pygent/internal/numeral"
)

// How much is shown of a call.
const (
	maxTail      = 8 << 10 // bytes that are kept of the output of a call that runs
	liveLines    = 6       // lines of it that are shown
	maxCalls     = 100     // calls that are shown at the same time
	maxDiffLines = 60      // lines of a diff
)

// panel is a call that the model has made and that has no result yet.
type panel struct {
	id       string
	words    string // what it does
	began    time.Time
	running  bool
	tail     string // the end of its output
	progress string
}

// callEvent shows an event about a call.
func (s *session) callEvent(e pygent.Event) {
	if e.Call == nil {
		return
	}
	switch e.Type {
	case pygent.EventToolCall:
		s.finishText()
		if !endsRun(e.Call.Name) && len(s.calls) < maxCalls {
			s.calls = append(s.calls, &panel{id: e.Call.ID, words: words(e), began: e.Time})
		}
	case pygent.EventToolStart:
		if p := s.panel(e.Call.ID); p != nil {
			p.began, p.running = e.Time, true
		}
	case pygent.EventOutput:
		if p := s.panel(e.Call.ID); p != nil {
			p.tail = end(p.tail+e.Chunk.Text, maxTail)
		}
	case pygent.EventProgress:
		if p := s.panel(e.Call.ID); p != nil {
			p.progress = progress(*e.Progress)
		}
	case pygent.EventToolDone, pygent.EventToolSkipped:
		s.finishText()
		s.finishCall(e)
	}
}

// glance returns the first and the last lines of a text of others, with control
// characters visible.
func glance(text string) []string {
	return strings.Split(visible(strings.Join(excerpt.Glance(text), "\n")), "\n")
}

func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

func (s *session) panel(id string) *panel {
	for _, p := range s.calls {
		if p.id == id {
			return p
		}
	}
	return nil
}

// words says what a call does, for people.
func words(e pygent.Event) string {
	if e.Tool != nil && e.Tool.Summary != "" {
		return e.Tool.Summary
	}
	return e.Call.Name + " " + e.Call.Arguments
}

// end returns the end of a text, of whole characters.
func end(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}

// progress says how far a call is.
func progress(p pygent.ProgressInfo) string {
	switch {
	case p.Total > 0:
		return strings.TrimSpace(fmt.Sprintf("%s %s", bar(p.Current, p.Total), oneLine(p.Text)))
	case p.Current > 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", p.Current, oneLine(p.Text)))
	}
	return oneLine(p.Text)
}

// bar is a progress bar.
func bar(current, total int64) string {
	const width = 16
	part := min(max(float64(current)/float64(total), 0), 1)
	full := int(part * width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf(" %3.0f %%", part*100)
}

// runningRows shows the calls that run.
func (s *session) runningRows(now time.Time) (rows []string) {
	for _, p := range s.calls {
		lines := glance(p.words)
		sign, facts := "○", ""
		if p.running {
			sign, facts = spinner(now), " · "+wholeSeconds(now.Sub(p.began))
		}
		rows = append(rows, s.theme.accent(sign+" ")+lines[0]+s.theme.dim(facts))
		if p.progress != "" {
			rows = append(rows, "  "+p.progress)
		}
		for _, line := range lastLines(p.tail, liveLines) {
			rows = append(rows, s.theme.dim("  "+line))
		}
	}
	return rows
}

// lastLines returns the last lines of an output, as a terminal would show them:
// what follows a carriage return takes the place of what was before it.
func lastLines(tail string, most int) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimRight(tail, "\r\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		if strings.TrimSpace(line) != "" {
			lines = append(lines, visible(cut.Head(line, maxLine)))
		}
	}
	return last(lines, most)
}

// finishCall prints a call with its result.
func (s *session) finishCall(e pygent.Event) {
	at := slices.IndexFunc(s.calls, func(p *panel) bool { return p.id == e.Call.ID })
	described := words(e)
	var took time.Duration
	if at >= 0 {
		if p := s.calls[at]; p.running {
			took = e.Time.Sub(p.began)
		}
		described = s.calls[at].words
		s.calls = slices.Delete(s.calls, at, at+1)
	}
	if e.Output == nil || e.Output.End != "" && endsRun(e.Call.Name) {
		return
	}
	head := glance(described)
	text := s.sign(e) + head[0]
	if len(head) > 1 {
		text += "\n    " + strings.Join(head[1:], "\n    ")
	}
	text += s.theme.dim(callFacts(e, took))
	if body := s.callBody(e); body != "" {
		text += "\n" + body
	}
	s.say(kindCall, text)
	s.flushNews()
}

// sign says whether a call went well.
func (s *session) sign(e pygent.Event) string {
	failed := e.Output.IsError || e.Output.Outcome == pygent.OutcomeFailed
	if b := e.Output.Bash; b != nil && (b.ExitCode != 0 && !b.GoesOn || b.TimedOut) {
		failed = true
	}
	switch {
	case e.Type == pygent.EventToolSkipped, e.Output.Outcome == pygent.OutcomeDenied, e.Output.Outcome == pygent.OutcomeInterrupted:
		return s.theme.warn("■ ")
	case failed:
		return s.theme.bad("✗ ")
	}
	return s.theme.good("✓ ")
}

// callFacts says how a call ended, and how long it took.
func callFacts(e pygent.Event, took time.Duration) string {
	var facts string
	if b := e.Output.Bash; b != nil {
		took = b.Duration
		switch {
		case b.TimedOut:
			facts = " · timed out"
		case b.GoesOn:
			facts = " · goes on as job " + oneLine(b.Job)
		default:
			facts = fmt.Sprintf(" · exit %d", b.ExitCode)
		}
	}
	for _, c := range e.Output.Changes {
		added, removed := edit.Count(c.Before, c.After)
		facts += fmt.Sprintf(" · +%d −%d", added, removed)
	}
	const worthSaying = 100 * time.Millisecond
	if took >= worthSaying {
		facts += " · " + seconds(took)
	}
	return facts
}

// callBody is what a call printed, or the change that it made.
func (s *session) callBody(e pygent.Event) string {
	if len(e.Output.Changes) > 0 && !e.Output.IsError {
		var parts []string
		for _, c := range e.Output.Changes {
			parts = append(parts, s.diff(c))
		}
		return strings.Join(parts, "\n")
	}
	text := e.Output.Display
	if text == "" {
		text = e.Output.Content
	}
	if b := e.Output.Bash; b != nil && !e.Output.IsError {
		text = b.Output
		if b.Note != "" {
			text += "\n" + b.Note
		}
	}
	if text = strings.TrimRight(text, "\n"); text == "" {
		return ""
	}
	return s.theme.dim("  " + strings.Join(glance(text), "\n  "))
}

// diff shows the change of a file.
func (s *session) diff(c pygent.FileChange) string {
	switch {
	case c.Note != "":
		return s.theme.dim("  " + oneLine(c.Note))
	case c.Binary:
		return s.theme.dim("  the file is no text")
	}
	lines := strings.Split(strings.TrimRight(edit.Diff(c.Before, c.After, c.Line), "\n"), "\n")
	var rows []string
	for i, line := range lines {
		if i == maxDiffLines {
			rows = append(rows, s.theme.dim(fmt.Sprintf("  … %s more", numeral.Count(len(lines)-i, "line"))))
			break
		}
		rows = append(rows, "  "+s.diffLine(visible(cut.Head(line, maxLine))))
	}
	return strings.Join(rows, "\n")
}

func (s *session) diffLine(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return s.theme.good(line)
	case strings.HasPrefix(line, "-"):
		return s.theme.bad(line)
	}
	return s.theme.dim(line)
}
