package lineinput

import (
	"errors"
	"os"
	"time"
)

// AnswerDelay is how long after a question appeared keys do not answer it.
// Somebody who is typing when it appears has not read it, and means the keys for
// something else.
const AnswerDelay = 500 * time.Millisecond

// PasteGap is how long after a line that came as a whole more input belongs to the same paste.
// The lines of one may come one by one, and nobody sends the next line so soon.
const PasteGap = 50 * time.Millisecond

// Reasons why a line is not an answer to a question; see [Reader.ExpectAnswer].
var (
	// ErrPasted means that the line was pasted. What came with it is dropped.
	ErrPasted = errors.New("it was not typed")
	// ErrBegun means that the line was begun before the question.
	ErrBegun = errors.New("it was begun before the question")
	// ErrTooSoon means that the line has keys from before the question, or from
	// within [AnswerDelay] after it.
	ErrTooSoon = errors.New("it was typed before the question could be read")
)

// Answer returns the line that answers a question. It calls ask to ask the
// question and read a line. If that line is not an answer, it calls tell with
// the reason and asks again.
func Answer(ask func() (string, error), tell func(why string)) (string, error) {
	for {
		answer, err := ask()
		why := refusal(err)
		if why == "" {
			return answer, err
		}
		tell(why)
	}
}

// refusal returns what to tell the user if an error says that a line is not an
// answer, and "" for other errors.
func refusal(err error) string {
	switch {
	case errors.Is(err, ErrPasted):
		return "(that came all at once, as a paste does; type the answer)"
	case errors.Is(err, ErrBegun):
		return "(that line was begun before the question; type the answer)"
	case errors.Is(err, ErrTooSoon):
		return "(that was typed before the question could be read; type the answer)"
	}
	return ""
}

// TooSoon reports whether a line came within [AnswerDelay] of a question. It is
// for terminals that collect lines. Where they pass on each key, a [Reader]
// checks that itself.
func TooSoon(asked, came time.Time) bool { return came.Sub(asked) < AnswerDelay }

// ExpectAnswer makes the next lines answers to a question, until it is called
// with false. Only a line that a person types after reading the question is an
// answer:
//
//   - Input that is there already is dropped.
//   - For a line that was pasted, even in part, ReadLine returns [ErrPasted]. A
//     line counts as pasted if the terminal marks it so, or if its end comes
//     together with other keys, since a person's keys come one by one. From a
//     terminal that sends whole lines, one line alone is typed: see
//     [Reader.TakeWholeLines].
//   - For the rest of a line that was begun before the question, such as a
//     message, ReadLine returns [ErrBegun].
//   - For a line with keys from before the question could be read, ReadLine
//     returns [ErrTooSoon]. It can be read [AnswerDelay] after [Reader.Asked] is
//     called.
func (r *Reader) ExpectAnswer(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := len(r.line) > 0
	if n := len(r.keys); n > 0 {
		begun = !endsLine(r.keys[n-1])
	}
	r.drop()
	r.answers, r.begun, r.asked = on, begun, time.Time{}
}

// TakeWholeLines says that the terminal may let people edit a line and send it with its end,
// as the shells of editors do. One such line is an answer, if it has no keys that edit it, and
// more reports that no other input comes with it, perhaps after [PasteGap]. Several at once
// are a paste as ever. Call it before ReadLine.
func (r *Reader) TakeWholeLines(more func() bool) { r.more = more }

// TakePastes says whether a line that was pasted is an answer, too. That is for answers that
// nobody types, such as a key, and that approve nothing. Only the first line of a paste is
// one.
func (r *Reader) TakePastes(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pastes = on
}

// Asked records that the question whose answer is expected is on the screen now.
func (r *Reader) Asked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = time.Now()
}

// DropAhead drops the input that the terminal, which r reads, has ready. Call it
// after ExpectAnswer.
func (r *Reader) DropAhead(terminal *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading { // otherwise ReadLine takes what is there
		if last, ok := drain(terminal); ok {
			r.begun = !endsLine(last)
		}
	}
	return Flush(terminal)
}

func endsLine(key byte) bool { return key == '\n' || key == '\r' }

// The methods below are called with r.mu held.

// tooEarly reports whether keys that come now come before a question could be
// read.
func (r *Reader) tooEarly() bool {
	return r.answers && (r.asked.IsZero() || time.Since(r.asked) < r.delay)
}

// noAnswer returns why the line that ends now is not an answer, or nil if it is
// one.
func (r *Reader) noAnswer() error {
	switch {
	case r.pasted && !r.pastes:
		return ErrPasted
	case r.begun:
		return ErrBegun
	case r.early, r.tooSoon:
		return ErrTooSoon
	}
	return nil
}

// refuse drops a line that is not an answer, with everything that came with it.
func (r *Reader) refuse(why error) error {
	r.drop()
	return why
}
