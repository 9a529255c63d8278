package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	stallFirst   = "openai.stall_first of the configuration, PYGENT_OPENAI_STALL_FIRST, or OpenAIStallTimeouts"
	stallBetween = "openai.stall_between of the configuration, PYGENT_OPENAI_STALL_BETWEEN, or OpenAIStallTimeouts"
	answerTime   = "openai.answer_time of the configuration, PYGENT_OPENAI_ANSWER_TIME, or OpenAIAnswerTime"
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
	ctx     context.Context
	cancel  context.CancelCauseFunc
	phase   countdown // until the next data
	between countdown // the phase once data has come
	whole   countdown
	started bool // data has come
}

// newStallWatch returns a watch that is running, as it should until there is
// data to process.
func newStallWatch(ctx context.Context, limits answerLimits) *stallWatch {
	w := &stallWatch{}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.phase = w.limit(limits.first, true, "no answer came within %s", stallFirst)
	w.between = w.limit(limits.between, true, "nothing came for %s in the middle of the answer", limits.silence)
	w.whole = w.limit(limits.whole, false, "the answer was not complete after %s", answerTime)
	w.resume()
	return w
}

// limit returns a countdown that cancels the call with an error that names the
// setting to change.
func (w *stallWatch) limit(limit time.Duration, retryable bool, message, setting string) countdown {
	return countdown{limit: limit, left: limit, expire: func() {
		message := fmt.Sprintf(message, limit) + " (a model that needs longer needs a higher limit: " + setting + ")"
		w.cancel(&Error{Message: message, Retryable: retryable})
	}}
}

// resume continues to count the time.
func (w *stallWatch) resume() {
	w.phase.start()
	w.whole.start()
}

// pause stops counting the time.
func (w *stallWatch) pause() {
	w.phase.stop()
	w.whole.stop()
}

// moved records that data came.
func (w *stallWatch) moved() {
	w.pause()
	if !w.started {
		w.started, w.phase = true, w.between
	}
	w.phase.left = w.phase.limit
}

func (w *stallWatch) stop() {
	w.pause()
	w.cancel(nil)
}

// countdown counts a time that can be stopped. One without a limit never ends.
type countdown struct {
	limit, left time.Duration
	expire      func()
	timer       *time.Timer
	since       time.Time // when it was started; zero while it is stopped
}

func (c *countdown) start() {
	switch {
	case c.limit <= 0 || !c.since.IsZero():
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(max(c.left, 0), c.expire)
	default:
		c.timer.Reset(max(c.left, 0))
	}
	c.since = time.Now()
}

func (c *countdown) stop() {
	if !c.since.IsZero() {
		c.timer.Stop()
		c.left -= time.Since(c.since)
		c.since = time.Time{}
	}
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
	w.phase = countdown{limit: moment, left: moment, expire: func() { w.cancel(nil) }}
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
