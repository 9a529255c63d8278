package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
)

// Talk is a conversation on a [Console]. Each message of the user is acted upon
// before the next one is read. Make one with [NewTalk], and Open it. Only one
// goroutine may call its own methods.
type Talk struct {
	*Console
	interrupts chan os.Signal
	warned     bool     // whether the user was told that another Ctrl-C leaves
	asked      bool     // whether the next message answers a question
	options    []string // the answers that can be given by number
	failed     error    // the first
}

// ErrLeave ends the conversation when acting on a message returns it.
var ErrLeave = errors.New("leave the session")

// NewTalk returns a conversation on a console.
func NewTalk(c *Console) *Talk { return &Talk{Console: c, interrupts: make(chan os.Signal, 2)} }

// Open is [Console.Open], and handles Ctrl-C until end is called.
func (t *Talk) Open(ctx context.Context) (end func()) {
	signal.Notify(t.interrupts, os.Interrupt)
	restore := t.Console.Open(ctx)
	return func() {
		restore()
		signal.Stop(t.interrupts)
	}
}

// Hold passes every message to act until ctx or the input ends, act returns
// [ErrLeave], or Ctrl-C is pressed twice at the prompt. While act runs, Ctrl-C
// cancels its context. Hold shows the errors of act to the user.
func (t *Talk) Hold(ctx context.Context, act func(ctx context.Context, message string) error) error {
	for {
		message, err := t.next(ctx)
		if errors.Is(err, ErrLeave) {
			return nil
		}
		if err != nil {
			return err
		}
		if !t.Do(ctx, func(ctx context.Context) error { return act(ctx, message) }) {
			return nil
		}
	}
}

// next returns the next message that is not empty, or [ErrLeave] if there is
// none.
func (t *Talk) next(ctx context.Context) (string, error) {
	for {
		if err := t.Err(); err != nil {
			return "", err
		}
		text, err := t.Ask(ctx, "> ", t.interrupts)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, ErrInterrupted) && t.warned:
			return "", ErrLeave
		case errors.Is(err, ErrInterrupted):
			t.warned = true
			t.Aside("(Ctrl-C again, or /exit, to leave)")
		case errors.Is(err, ErrLongLine), errors.Is(err, ErrCutLine):
			t.Fail(err)
			t.Aside("error: %v", err)
		case err != nil:
			return "", fmt.Errorf("read the input: %w", err)
		}
		if text = strings.TrimSpace(text); err == nil && text != "" {
			t.warned = false
			return text, nil
		}
	}
}

// Do calls f with a context that Ctrl-C cancels, and shows its error to the user.
// It returns false if f returned [ErrLeave].
func (t *Talk) Do(ctx context.Context, f func(context.Context) error) bool {
	err := t.interruptible(ctx, f)
	if errors.Is(err, ErrLeave) {
		return false
	}
	if err != nil && ctx.Err() == nil {
		t.Fail(err)
		t.Aside("error: %v", err)
	}
	return true
}

// Fail notes what went wrong in the conversation. The first counts: what follows may come
// of it.
func (t *Talk) Fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// Failed returns what Fail noted, or nil.
func (t *Talk) Failed() error { return t.failed }

// interruptible calls f with a context that Ctrl-C cancels. It returns nil if f
// was interrupted.
func (t *Talk) interruptible(outer context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-t.interrupts:
			cancel(ErrInterrupted)
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel(nil)
	err := f(ctx)
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		t.Aside("(interrupted)")
		return nil
	}
	return err
}

// Offer asks a question that the next message answers: with one of the options,
// with its number, or in other words. Without a question and options it
// withdraws the last offer.
func (t *Talk) Offer(question string, options ...string) {
	t.asked, t.options = question != "" || len(options) > 0, options
	var lines []string
	if question != "" {
		lines = append(lines, "? "+question)
	}
	for i, option := range options {
		lines = append(lines, fmt.Sprintf("  %d. %s", i+1, option))
	}
	if t.asked {
		t.Aside("%s", strings.Join(lines, "\n")) // as one text, into which no news can come
	}
}

// Offers reports whether the next message answers a question of [Talk.Offer].
func (t *Talk) Offers() bool { return t.asked }

// Chosen returns the option whose number a message is, or the message itself.
func (t *Talk) Chosen(message string) string {
	if n, err := strconv.Atoi(message); err == nil && n >= 1 && n <= len(t.options) {
		return t.options[n-1]
	}
	return message
}
