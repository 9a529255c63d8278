package console

import (
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/screen"
)

const (
	liveAfter = time.Second // how long a call has to run before its output is shown
	maxLive   = 1 << 10     // bytes that are kept of an unfinished line
)

// live is the last line that a running call has printed. A terminal shows it
// until something else is written, in its place.
type live struct {
	began time.Time // when the call began
	lines LastLine
	shown bool
}

// LastLine finds the last line that is not blank of a text that comes in pieces.
type LastLine struct {
	unfinished string // the line that has not ended yet
}

// Began notes when a call begins to run.
func (t *Text) Began(at time.Time) { t.live.began, t.live.lines = at, LastLine{} }

// Live shows the last line of what a running call prints, at a time, for as long
// as nothing else is written. It does so on a terminal only, where the line can be
// taken back: the whole output comes with the result. News of it is not held back
// during a question, but dropped.
func (p *Printer) Live(at time.Time, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.text.live.lines.Add(text)
	if !p.holding && p.asked == "" && at.Sub(p.text.live.began) >= liveAfter {
		p.text.showLive(line)
	}
}

// Add adds a piece and returns the last line that is not blank, as far as that is
// known; it is empty if the piece has none.
func (l *LastLine) Add(piece string) (line string) {
	text := l.unfinished + piece
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.TrimSpace(part) != "" {
			line = part
		}
	}
	l.unfinished = cut.Head(text[strings.LastIndexAny(text, "\r\n")+1:], maxLive)
	return line
}

func (t *Text) showLive(line string) {
	if line == "" || t.midLine || !t.screen.Overwrites() {
		return
	}
	columns, _ := t.screen.Size()
	t.control(screen.ClearLine)
	_, _ = t.screen.Write([]byte(screen.Row("  "+line, columns-1)))
	t.live.shown = true
}

// EndLive takes the line of [Printer.Live] back.
func (t *Text) EndLive() {
	if t.live.shown {
		t.control(screen.ClearLine)
		t.live.shown = false
	}
}
