package console

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/x/pygent/internal/lineinput"
)

// line is what was read.
type line struct {
	text string
	err  error
	at   int64 // how many questions had been put when it was complete
	more bool  // more came with it
	came time.Time
}

// readLines feeds c.lines on demand. It ends with ctx, except while a read of
// the terminal waits: that goroutine ends with the process or the next line.
func (c *Console) readLines(ctx context.Context) {
	for {
		select {
		case <-c.wanted:
		case <-ctx.Done():
			return
		}
		l := c.readLine()
		l.at = c.questions.Load()
		l.more = c.keys == nil && c.person && (c.in.Buffered() > 0 || lineinput.More(c.file))
		l.came = time.Now()
		select {
		case c.lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

// readLine reads a line, whose end may be missing at the end of the input.
// Keeps at most maxLine bytes of a long line.
func (c *Console) readLine() line {
	if c.keys != nil {
		text, err := c.keys.ReadLine()
		if errors.Is(err, lineinput.ErrTooLong) {
			err = ErrLongLine
		}
		return line{text: text, err: err}
	}
	var text []byte
	for {
		piece, err := c.in.ReadSlice('\n')
		text = append(text, piece[:min(len(piece), maxLine+1-len(text))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(text) == 0:
			return line{err: err}
		case len(text) > maxLine:
			return line{err: ErrLongLine}
		case c.person && len(text) > lineinput.CutAt: // with its end
			return line{err: ErrCutLine}
		}
		return line{text: strings.TrimRight(string(text), "\r\n")}
	}
}

// Ask prompts for a line, a message say, and returns it. A value in interrupts
// ends that with [ErrInterrupted], and drops what was typed of the line; a nil
// channel leaves interrupts to others.
func (c *Console) Ask(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	end, err := c.ask(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	l, err := c.read(ctx, prompt, interrupts)
	return l.text, err
}

// ask waits until nobody else asks, until end is called.
func (c *Console) ask(ctx context.Context) (end func(), err error) {
	select {
	case <-c.asking:
		return func() { c.asking <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read prompts for a line. Its caller is who asks.
func (c *Console) read(ctx context.Context, prompt string, interrupts <-chan os.Signal) (line, error) {
	if c.person {
		c.prompt(prompt)
	}
	c.shown()
	defer c.unask()
	wanted := c.wanted
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case l := <-c.lines:
			if c.person && l.err == nil {
				c.typed()
			}
			return l, l.err
		case <-interrupts:
			c.discard()
			return line{}, ErrInterrupted
		case <-ctx.Done():
			c.discard()
			return line{}, context.Cause(ctx)
		}
	}
}

// shown notes that the user sees a question from now on. Its caller is who asks.
func (c *Console) shown() {
	c.shownAt = time.Now()
	if c.keys != nil {
		c.keys.Asked()
	}
}

// discard drops what was typed, as the terminal does.
func (c *Console) discard() {
	if c.keys != nil {
		c.keys.Discard()
	}
}
