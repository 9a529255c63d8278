package console

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/x/pygent/internal/console/lineinput"
)

// line is the result of reading a line.
type line struct {
	text string
	err  error
	at   int64     // how many questions had been asked when it was complete
	more bool      // whether more input was there already
	came time.Time // when it was complete
}

// readLines sends a line to c.lines for each value in c.wanted, until ctx ends.
// If it is blocked in a read then, it ends with the next line or the process.
func (c *Console) readLines(ctx context.Context) {
	for {
		select {
		case <-c.wanted:
		case <-ctx.Done():
			return
		}
		l := c.readLine()
		l.at = c.questions.Load()
		l.more = c.keys == nil && c.typed && (c.in.Buffered() > 0 || lineinput.More(c.file, 0))
		l.came = time.Now()
		select {
		case c.lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

// readLine reads a line. The last line of the input may lack its end. At most
// maxLine bytes of a long line are kept in memory.
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
		case c.typed && len(text) > lineinput.CutAt: // text includes the line's end
			return line{err: ErrCutLine}
		}
		return line{text: strings.TrimRight(string(text), "\r\n")}
	}
}

// Ask prompts for a line, such as a message, and returns it. A value in
// interrupts ends the prompt with [ErrInterrupted] and drops what was typed of
// the line; the channel may be nil.
func (c *Console) Ask(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	end, err := c.beginAsking(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	l, err := c.read(ctx, prompt, interrupts)
	return l.text, err
}

// beginAsking waits until nobody else asks, and keeps others from asking until
// end is called.
func (c *Console) beginAsking(ctx context.Context) (end func(), err error) {
	select {
	case <-c.asking:
		return func() { c.asking <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read prompts for a line. The caller has called beginAsking.
func (c *Console) read(ctx context.Context, prompt string, interrupts <-chan os.Signal) (line, error) {
	if c.person {
		c.aside.prompt(prompt)
	}
	c.shown()
	defer c.aside.endPrompt()
	wanted := c.wanted
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case l := <-c.lines:
			if c.person && l.err == nil {
				c.aside.typed()
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

// shown records that the user sees the prompt from now on. The caller has called
// beginAsking.
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
