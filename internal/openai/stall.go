package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// answerLimits are the times that an answer may take. Zero means no limit.
type answerLimits struct {
	first   time.Duration // until data comes
	between time.Duration // until more data comes
	whole   time.Duration // until it is complete

	silence string // the setting that between is
}

// The settings of the limits, for error messages.
const (
	stallFirst   = "openai.stall_first of the configuration, PYGENT_OPENAI_STALL_FIRST, or openai.StallTimeouts"
	stallBetween = "openai.stall_between of the configuration, PYGENT_OPENAI_STALL_BETWEEN, or openai.StallTimeouts"
	answerTime   = "openai.answer_time of the configuration, PYGENT_OPENAI_ANSWER_TIME, or openai.AnswerTime"
)

// limits returns the limits of the call. A response of the Responses API begins
// at once and is silent while the model thinks, so there the limit of the first
// byte applies to every silence.
func (c *call) limits() answerLimits {
	limits := answerLimits{first: c.client.firstByte, between: c.client.betweenChunks, whole: c.client.answerTime, silence: stallBetween}
	if c.inResponses() && limits.between > 0 && (limits.first == 0 || limits.first > limits.between) {
		limits.between, limits.silence = limits.first, stallFirst
	}
	return limits
}

// stallWatch cancels a call that makes no progress, or that does not end. Only
// data is progress: a server that keeps the connection open by comments, empty
// chunks or white space has not answered. The time that the reader spends on
// processing data does not count.
//
// Only the goroutine that makes the call may use its methods.
type stallWatch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards what follows, which the timer's goroutine reads
	phase   countdown  // until the next data
	between countdown  // the phase once data has come
	whole   countdown
	started bool      // data has come
	ending  bool      // the answer is complete, but for its usage
	since   time.Time // when the time began to count; zero while it does not
	timer   *time.Timer
	at      time.Time // when the timer fires; zero for never
}

// countdown is a time that passes only while it is counted. One without a limit never
// ends.
type countdown struct {
	limit, left      time.Duration
	message, setting string // of the error of a call that it ends, and what to change
	retryable        bool
}

// newStallWatch returns a watch that is running, as it should until there is
// data to process.
func newStallWatch(ctx context.Context, limits answerLimits) *stallWatch {
	w := &stallWatch{
		phase:   countdown{limits.first, limits.first, "no answer came within %s", stallFirst, true},
		between: countdown{limits.between, limits.between, "nothing came for %s in the middle of the answer", limits.silence, true},
		whole:   countdown{limits.whole, limits.whole, "the answer was not complete after %s", answerTime, false},
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.resume()
	return w
}

// expired returns why a call ends with the countdown.
func (c *countdown) expired() error {
	if c.message == "" {
		return nil
	}
	message := fmt.Sprintf(c.message, c.limit) + " (a model that needs longer needs a higher limit: " + c.setting + ")"
	return &Error{Message: message, Retryable: c.retryable}
}

// ends returns when the countdown ends that began to pass at a time; the zero time for
// never.
func (c *countdown) ends(since time.Time) time.Time {
	if c.limit <= 0 {
		return time.Time{}
	}
	return since.Add(c.left)
}

// resume continues to count the time.
func (w *stallWatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
		w.arm()
	}
}

// pause stops counting the time. The timer goes on, since setting it for each read
// would take longer than most reads: when it fires it looks at the time that is left.
func (w *stallWatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count()
}

// count takes the time that has passed from what is left. The caller holds mu.
func (w *stallWatch) count() {
	if !w.since.IsZero() {
		passed := time.Since(w.since)
		w.phase.left -= passed
		w.whole.left -= passed
		w.since = time.Time{}
	}
}

// next returns the countdown that ends first, and when; nil if none does.
func (w *stallWatch) next() (first *countdown, at time.Time) {
	for _, c := range []*countdown{&w.phase, &w.whole} {
		if ends := c.ends(w.since); !ends.IsZero() && (first == nil || ends.Before(at)) {
			first, at = c, ends
		}
	}
	return first, at
}

// arm has the timer fire no later than the time that counts ends. The caller holds mu.
func (w *stallWatch) arm() {
	first, at := w.next()
	if first == nil || !w.at.IsZero() && !at.Before(w.at) {
		return
	}
	w.at = at
	left := max(time.Until(at), 0)
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.fire)
	} else {
		w.timer.Reset(left)
	}
}

// fire cancels the call if no time is left.
func (w *stallWatch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Time{}
	if w.since.IsZero() {
		return // resume sets the timer
	}
	if first, at := w.next(); first != nil && !time.Now().Before(at) {
		w.cancel(first.expired())
		return
	}
	w.arm()
}

// moved records that data came.
func (w *stallWatch) moved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count()
	if !w.started {
		w.started, w.phase = true, w.between
	}
	w.phase.left = w.phase.limit
}

// restTime is how long a complete answer is waited on for its usage, and for the end of
// the stream. Servers send both at once; some then keep the connection open for ever.
const restTime = 3 * time.Second

// finished says whether the answer is complete, so that only its usage may follow. The
// countdown then ends the stream, and not the call.
func (w *stallWatch) finished(complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if complete == w.ending {
		return
	}
	w.ending = complete
	w.count()
	w.phase = w.between
	if complete {
		w.phase = countdown{limit: restTime, left: restTime}
	}
}

func (w *stallWatch) stop() {
	w.pause()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}

// stalled returns the error of a call that was cancelled by the watch.
func (w *stallWatch) stalled() error {
	var stall *Error
	if errors.As(context.Cause(w.ctx), &stall) {
		return stall
	}
	return nil
}

// reader returns r with the watch running during reads.
func (w *stallWatch) reader(r io.Reader) io.Reader {
	w.pause()
	return &watchedReader{w, r}
}

// drain reads the short rest that may follow a complete answer, so that the
// connection can be reused, but does not wait for it.
func (w *stallWatch) drain(r io.Reader) {
	const moment, enough = 50 * time.Millisecond, 4 << 10
	w.moved()
	w.mu.Lock()
	w.phase = countdown{limit: moment, left: moment}
	w.mu.Unlock()
	_, _ = io.CopyN(io.Discard, r, enough) // the answer is complete whatever comes
}

type watchedReader struct {
	watch *stallWatch
	r     io.Reader
}

// Read passes on what comes while the watch allows for it.
func (r *watchedReader) Read(p []byte) (int, error) {
	r.watch.resume()
	defer r.watch.pause()
	return r.r.Read(p)
}

// pulse reports each piece that is more than white space.
type pulse struct {
	r    io.Reader
	tell func()
}

// Read passes on what comes.
func (p pulse) Read(buf []byte) (int, error) {
	n, err := p.r.Read(buf)
	if len(bytes.TrimSpace(buf[:n])) > 0 {
		p.tell()
	}
	return n, err
}
