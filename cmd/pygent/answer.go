package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

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
	mode, err := lineinput.Open(os.Stdin)
	if err != nil { // this system hands over lines alone
		answer, err := askLine(stdout, question)
		return strings.TrimSpace(answer), err == nil
	}
	defer mode.Close()
	// An error of the terminal shows in the next read.
	_ = stdout.Control(screen.PasteOn)
	defer func() { _ = stdout.Control(screen.PasteOff) }()
	var answer string
	answered := make(chan struct{})
	go func() { // ends with the process at the latest
		defer close(answered)
		answer, err = typedLine(stdout, question)
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

// typedLine asks until the answer is not pasted.
func typedLine(stdout *screen.Screen, question string) (string, error) {
	keys := lineinput.NewReader(os.Stdin, maxAnswer, func(text string) {
		for i, part := range strings.Split(text, string(screen.Erase)) {
			if i > 0 {
				_ = stdout.Control(screen.Erase)
			}
			_, _ = stdout.Write([]byte(part))
		}
	})
	for {
		keys.ExpectAnswer(true)
		_ = keys.DropAhead(os.Stdin)
		_, _ = fmt.Fprint(stdout, question)
		answer, err := keys.ReadLine()
		switch {
		case errors.Is(err, lineinput.ErrPasted):
			_, _ = fmt.Fprintln(stdout, "\n(that came all at once, as a paste does; type the answer)")
		case errors.Is(err, lineinput.ErrBegun):
			_, _ = fmt.Fprintln(stdout, "(that line was begun before the question; type the answer)")
		default:
			return answer, err
		}
	}
}

// askLine reads a line, before which what was typed ahead is dropped.
func askLine(stdout *screen.Screen, question string) (string, error) {
	_ = lineinput.Flush(os.Stdin)
	_, _ = fmt.Fprint(stdout, question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil && lineinput.More(os.Stdin) {
		err = lineinput.ErrPasted
	}
	return answer, err
}
