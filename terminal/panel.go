package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/numeral"
)

// How much is shown of a call.
const (
	maxTail      = 8 << 10 // bytes that are kept of the output of a call that runs
	liveLines    = 6       // lines of it that are shown
	maxCalls     = 100     // calls that are shown at the same time
	commandLines = 6       // lines of a command
	goodLines    = 10      // lines of a result
	badLines     = 20      // lines of the result of a call that failed
	newLines     = 16      // lines of a file that is new
	shownLine    = 500     // bytes of a line
	shownFact    = 60      // bytes of a result that is a fact beside its call
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

// glance returns at most so many lines of a text of others, the first and more of
// the last ones, with control characters visible. A line between them counts those
// that are left out.
func glance(text string, most int) []string { return glanceAt(text, most, more) }

// glanceAt is glance with words for the number of the lines that are left out.
func glanceAt(text string, most int, words func(left int) string) []string {
	lines := strings.Split(text, "\n")
	if left := len(lines) - most + 1; left > 1 {
		head := (most - 1) / 3
		lines = slices.Concat(lines[:head], []string{words(left)}, lines[head+left:])
	}
	for i, line := range lines {
		if line = strings.TrimSuffix(line, "\r"); len(line) > shownLine {
			line = cut.Head(line, shownLine) + " …"
		}
		lines[i] = visible(line)
	}
	return lines
}

// more counts the lines that are left out.
func more(n int) string { return "… " + count(n, "more line") }

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

// runningRows shows the calls that run, and those that wait for it.
func (s *session) runningRows(now time.Time) (rows []string) {
	for _, p := range s.calls {
		lines := glance(p.words, commandLines)
		sign, facts := s.theme.dim("○ "), ""
		if p.running {
			sign, facts = s.theme.accent("● "), " · "+wholeSeconds(now.Sub(p.began))
		}
		rows = append(rows, sign+lines[0])
		for _, line := range lines[1:] {
			rows = append(rows, "    "+line)
		}
		rows[len(rows)-1] += s.theme.dim(facts)
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
	head := s.sign(e) + strings.Join(glance(described, commandLines), "\n    ")
	body, facts := s.callBody(e, described)
	s.say(kindCall, s.withFacts(head, facts+callFacts(e, took))+body)
	s.flushNews()
}

// withFacts adds facts to what a call did: in the same row, or else in rows of their
// own. What the call did is not broken, so that it can be copied.
func (s *session) withFacts(head, facts string) string {
	width, _ := s.display.area.Size()
	if last := head[strings.LastIndexByte(head, '\n')+1:]; facts == "" || livearea.Width(last+facts) <= width {
		return head + s.theme.dim(facts)
	}
	const margin = "    "
	rows := livearea.Wrap(s.theme.dim(strings.TrimPrefix(facts, " ")), max(width-len(margin), 20))
	return head + "\n" + margin + strings.Join(rows, "\n"+margin)
}

// sign says whether a call went well.
func (s *session) sign(e pygent.Event) string {
	switch {
	case e.Type == pygent.EventToolSkipped, e.Output.Outcome == pygent.OutcomeDenied, e.Output.Outcome == pygent.OutcomeInterrupted:
		return s.theme.warn("■ ")
	case faces.Failed(e.Output):
		return s.theme.bad("✗ ")
	}
	return s.theme.good("✓ ")
}

// callFacts says how a call ended, and how long it took.
func callFacts(e pygent.Event, took time.Duration) string {
	var facts string
	b := e.Output.Bash
	if b != nil {
		took = b.Duration
	}
	switch {
	case faces.RanInterrupted(e):
		facts = " · interrupted"
	case b == nil:
	case b.TimedOut:
		facts = " · timed out"
	case b.GoesOn:
		facts = " · continues as job " + oneLine(b.Job)
	default:
		facts = " · " + exitWords(b)
	}
	for _, c := range e.Output.Changes {
		added, removed := edit.Count(c.Before, c.After)
		facts += fmt.Sprintf(" · +%d −%d", added, removed)
	}
	const worthSaying = 100 * time.Millisecond
	if took >= worthSaying {
		facts += " · " + numeral.Took(took)
	}
	return facts
}

// callBody is what a call printed, or the change that it made, in lines below what
// it did. A short result is a fact beside that instead.
func (s *session) callBody(e pygent.Event, described string) (body, fact string) {
	if len(e.Output.Changes) > 0 && !e.Output.IsError {
		for _, c := range e.Output.Changes {
			body += "\n" + s.diff(c)
		}
		return body, ""
	}
	text := strings.Trim(s.start.Without(faces.ResultText(e)), "\n")
	most := goodLines
	switch fact := visible(strings.TrimPrefix(text, described+": ")); {
	case text == "":
		return "", ""
	case faces.Failed(e.Output):
		most = badLines
	case e.Output.Bash == nil && len(fact) <= shownFact && !strings.Contains(fact, "\n"):
		return "", " · " + fact
	}
	words := more
	if b := e.Output.Bash; b != nil && b.Truncated {
		words = func(left int) string { return "… at least " + count(left, "more line") }
	}
	body = "  " + strings.Join(glanceAt(text, most, words), "\n  ")
	if e.Output.Bash == nil && faces.Failed(e.Output) {
		body = s.wrapped(body)
	}
	return "\n" + s.theme.dim(body), ""
}

// diff shows the change of a file.
func (s *session) diff(c pygent.FileChange) string {
	switch {
	case c.Note != "":
		return s.theme.dim("  " + oneLine(c.Note))
	case c.Binary:
		return s.theme.dim("  binary file")
	}
	lines := strings.Split(strings.TrimRight(edit.Diff(c.Before, c.After, c.Line), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "@@ line 1 @@" })
	most := len(lines)
	if c.Before == "" && most > newLines {
		lines, most = lines[:newLines-1], newLines-1
	}
	var rows []string
	for _, line := range lines {
		rows = append(rows, "  "+s.diffLine(visible(cut.Head(line, maxLine))))
	}
	if added, _ := edit.Count(c.Before, c.After); c.Before == "" && added > most {
		rows = append(rows, s.theme.dim("  "+more(added-most)))
	}
	return strings.Join(rows, "\n")
}

func (s *session) diffLine(line string) string { return s.diffColour(line)(line) }

// diffColour returns the colour of a line of a diff.
func (s *session) diffColour(line string) func(text string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return s.theme.good
	case strings.HasPrefix(line, "-"):
		return s.theme.bad
	}
	return s.theme.dim
}
