package lineinput

import (
	"errors"
	"os"
	"time"
)

// AnswerDelay is how long after a question was shown keys answer nothing. Whoever
// types while the question comes has not read it, and means them for something
// else.
const AnswerDelay = 500 * time.Millisecond

// Why a line is no answer to a question; see [Reader.ExpectAnswer].
var (
	// ErrPasted says that the line was not typed. What came with it is dropped.
	ErrPasted = errors.New("it was not typed")
	// ErrBegun says that the line was begun before the question.
	ErrBegun = errors.New("it was begun before the question")
	// ErrTooSoon says that the line was begun within [AnswerDelay].
	ErrTooSoon = errors.New("it was typed before the question could be read")
)

// Answer returns the line that answers a question. ask puts the question, and
// returns the line that follows. For as long as that is no answer, tell says why,
// and the question is put again.
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

// refusal tells the user why a line is no answer; "" for other errors.
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

// TooSoon reports whether a line that came at some time came within [AnswerDelay]
// of a question. It is for terminals that hand over lines alone: a [Reader] looks
// at each key.
func TooSoon(asked, came time.Time) bool { return came.Sub(asked) < AnswerDelay }

// ExpectAnswer has the next lines be answers to a question, until it is called
// with false. An answer is typed by a person who has read the question:
//
//   - What is there already is dropped.
//   - For a line that was pasted, in part or as a whole, ReadLine returns
//     [ErrPasted]. A line counts as pasted where the terminal says so, and where
//     its end comes together with other keys: those of a person come one by one.
//   - For the rest of a line that was begun before, a message to come say,
//     ReadLine returns [ErrBegun].
//   - For a line that was begun before the question could be read, ReadLine
//     returns [ErrTooSoon]. That time starts when [Reader.Asked] is called.
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

// Asked says that the question for which answers are expected is on the screen.
func (r *Reader) Asked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = time.Now()
}

// DropAhead drops what a terminal, which is what r reads, has ready to be read,
// before an answer that is expected.
func (r *Reader) DropAhead(terminal *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading { // or what is there is read already
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

// noAnswer returns why the line that ends now is no answer; nil if it is one.
func (r *Reader) noAnswer() error {
	switch {
	case r.pasted:
		return ErrPasted
	case r.begun:
		return ErrBegun
	case r.early, r.tooSoon:
		return ErrTooSoon
	}
	return nil
}

// refuse drops a line that is no answer, with all that came with it.
func (r *Reader) refuse(why error) error {
	r.drop()
	return why
}
