package jobtrack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
)

// Bounds of what is read of a job.
const (
	// MaxUntil bounds the text that is waited for, in bytes.
	MaxUntil = 1 << 10
	// Window is how much of a job's output is shown at most, before it is
	// cleaned, in bytes. Of more that is new, the end is shown.
	Window = 64 << 10
	// maxRecent is how much of what was searched is searched again with what follows,
	// in bytes. Escape sequences may be between the parts of the text.
	maxRecent = 4 * MaxUntil
	// pace is the pause between two looks at a job that prints all the time.
	pace = 50 * time.Millisecond
	// restOfLine is how long the end of the line is waited for in which the text was
	// found. A program that asks something does not end its line.
	restOfLine = 300 * time.Millisecond
)

// Output is a piece of what a job has printed.
type Output struct {
	Text    string
	Next    int64 // the offset to continue at
	Skipped int64 // bytes before Text that nobody has any more
	State   State
}

// Reader reads what a job has printed, for a model. One goroutine uses it.
type Reader struct {
	// From reads a job's output from an offset on, and waits at most wait for something new.
	From  func(ctx context.Context, at int64, wait time.Duration) (Output, error)
	Until string // the text that is waited for, at most [MaxUntil] bytes; may be empty
	At    int64  // the offset of what is read next
	State State  // of the job, as it was last read
	Early bool   // the wait ended with the time for the step

	text    string // what was read, its end at most
	skipped int64  // bytes that were not read, or are not in text any more
	found   bool   // Until was printed
	recent  string // the end of what was searched for Until
}

// Begin looks where the job's output stands. What would not be shown anyway is
// passed over; for the last lines, older output is read again.
func (r *Reader) Begin(ctx context.Context, tail bool) error {
	out, err := r.From(ctx, r.At, 0)
	if err != nil {
		return err
	}
	r.State = out.State
	r.At = min(r.At, max(out.Next, out.State.Printed)) // else what is printed next would be passed over
	last := max(out.State.Printed-Window, 0)
	switch {
	case tail && r.At > last:
		now := r.At
		for r.At = last; r.At < now; {
			if out, err = r.From(ctx, r.At, 0); err != nil || out.Next <= r.At {
				break
			}
			r.take(out)
		}
		r.At, r.skipped = max(r.At, now), 0
	}
	r.passOver()
	return err
}

// passOver leaves out what would not be shown, if no text is searched for in it. It
// reports whether there is output that has to be read without a pause.
func (r *Reader) passOver() (behind bool) {
	if r.Until != "" {
		return r.At < r.State.Printed
	}
	if last := r.State.Printed - Window; last > r.At {
		r.skipped += last - r.At + int64(len(r.text))
		r.At, r.text = last, ""
	}
	return false
}

// Follow reads until there is nothing new, and waits for the text or for the end of
// the job.
func (r *Reader) Follow(ctx context.Context, wait time.Duration) error {
	due := time.Now().Add(wait)
	inLine := false // the text was found, in a line that is not whole
	for target := r.State.Printed; ; {
		asked := time.Now()
		left := max(due.Sub(asked), 0)
		out, err := r.From(ctx, r.At, left)
		if err != nil {
			return err
		}
		r.search(out.Text)
		r.take(out)
		behind := r.passOver()
		if r.found && !inLine {
			inLine, due = true, earlier(due, time.Now().Add(restOfLine))
			left = max(min(left, time.Until(due)), 0)
		}
		switch {
		case r.found && (strings.HasSuffix(r.text, "\n") || !r.State.Running || left <= 0), out.Text == "" && !r.State.Running, left <= 0 && (out.Text == "" || r.At >= target):
			return nil
		case left > 0 && r.State.Running && !behind && time.Since(asked) < pace:
			if err := sleepFor(ctx, min(pace, left)); err != nil {
				return err
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sleepFor waits, but not longer than ctx.
func sleepFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// search looks for the text in what was printed, and in what a model would be shown
// of that, without colours for example. It finds it also where two pieces meet.
func (r *Reader) search(text string) {
	if r.Until == "" || r.found || text == "" {
		return
	}
	text = r.recent + text
	r.found = strings.Contains(text, r.Until) || strings.Contains(plain.Clean(text), r.Until)
	r.recent = cut.Tail(text, maxRecent)
}

func (r *Reader) take(out Output) {
	r.State, r.At = out.State, max(out.Next, r.At)
	r.skipped += out.Skipped
	r.text += out.Text
	if over := len(r.text) - Window; over > 0 {
		short := cut.Tail(r.text, Window)
		r.skipped += int64(len(r.text) - len(short))
		r.text = short
	}
}

// Describe formats what was read for a model, in at most limit bytes and a line: the last
// lines, if tail is not 0, and what became of the wait.
func (r *Reader) Describe(tail int, wait time.Duration, limit int) string {
	text := cut.Middle(plain.Clean(r.text), limit)
	var b strings.Builder
	switch {
	case tail > 0:
		text = cut.LastLines(text, tail)
	case r.skipped > 0:
		fmt.Fprintf(&b, "[%s bytes before this are not shown]\n", numeral.Grouped(r.skipped))
	}
	if strings.TrimSpace(text) == "" {
		text = "(no new output)"
	}
	b.WriteString(strings.TrimSuffix(text, "\n"))
	fmt.Fprintf(&b, "\n[%s%s]", r.State, r.outcome(wait))
	return b.String()
}

// outcome says what became of the waiting.
func (r *Reader) outcome(wait time.Duration) string {
	switch {
	case r.Until != "" && r.found:
		return TextFound
	case r.Until != "" && !r.State.Running:
		return "; the text was not printed"
	case r.Early:
		return "; the time for this step is over, so the wait ended early"
	case r.Until != "":
		return fmt.Sprintf("; the text was not printed within %s", wait)
	case wait > 0 && r.State.Running:
		return fmt.Sprintf("; waited %s for its end", wait)
	}
	return ""
}
