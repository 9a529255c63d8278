package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/x/pygent/internal/lineinput"
	"github.com/x/pygent/internal/screen"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 10

// ask asks on a terminal, and takes only what is typed for an answer. Where nobody
// sees the question there is none, and neither when ctx ends.
func ask(ctx context.Context, question string) (string, bool) {
	stdout := screen.Stdout()
	if !seen() {
		return "", false
	}
	put := func() (string, error) { return askLine(stdout, question) }
	mode, err := lineinput.Open(os.Stdin)
	if err == nil { // or this system hands over lines alone
		defer mode.Close()
		// An error of the terminal shows in the next read.
		_ = stdout.Control(screen.PasteOn)
		defer func() { _ = stdout.Control(screen.PasteOff) }()
		keys := newKeys(stdout)
		put = func() (string, error) { return askKeys(keys, stdout, question) }
	}
	var answer string
	answered := make(chan struct{})
	go func() { // ends with the process at the latest
		defer close(answered)
		answer, err = lineinput.Answer(put, func(why string) { _, _ = fmt.Fprintln(stdout, why) })
	}()
	select {
	case <-answered:
		return strings.TrimSpace(answer), err == nil // what was typed before an error is no answer
	case <-ctx.Done():
		return "", false
	}
}

// seen reports whether somebody can read a question and type an answer.
func seen() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && screen.Stdout().Terminal()
}

// newKeys returns a reader of answers that shows what is typed.
func newKeys(stdout *screen.Screen) *lineinput.Reader {
	return lineinput.NewReader(os.Stdin, maxAnswer, func(text string) {
		for i, part := range strings.Split(text, string(screen.Erase)) {
			if i > 0 {
				_ = stdout.Control(screen.Erase)
			}
			_, _ = stdout.Write([]byte(part))
		}
	})
}

// askKeys puts a question and reads the answer key by key.
func askKeys(keys *lineinput.Reader, stdout *screen.Screen, question string) (string, error) {
	keys.ExpectAnswer(true)
	_ = keys.DropAhead(os.Stdin)
	_, _ = fmt.Fprint(stdout, question)
	keys.Asked()
	return keys.ReadLine()
}

// askLine puts a question and reads a line, before which what was typed ahead is
// dropped.
func askLine(stdout *screen.Screen, question string) (string, error) {
	_ = lineinput.Flush(os.Stdin)
	_, _ = fmt.Fprint(stdout, question)
	asked := time.Now()
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	switch {
	case err != nil:
		return "", err
	case lineinput.More(os.Stdin):
		return "", lineinput.ErrPasted
	case lineinput.TooSoon(asked, time.Now()):
		return "", lineinput.ErrTooSoon
	}
	return answer, nil
}
