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

// confirm asks on a terminal, and takes only a typed yes for one. Where nobody
// sees the question the answer is no, and so it is when ctx ends.
func confirm(ctx context.Context, question string) bool {
	stdout := screen.Stdout()
	if !term.IsTerminal(int(os.Stdin.Fd())) || !stdout.Terminal() {
		return false
	}
	mode, err := lineinput.Open(os.Stdin)
	if err != nil { // this system hands over lines alone
		return isYes(confirmLine(stdout, question))
	}
	defer mode.Close()
	answered := make(chan bool, 1)
	go func() { answered <- isYes(typedLine(stdout, question)) }() // ends with the process at the latest
	select {
	case yes := <-answered:
		return yes
	case <-ctx.Done():
		return false
	}
}

// typedLine asks until the answer is not pasted.
func typedLine(stdout *screen.Screen, question string) (string, error) {
	// An error of the terminal shows in the next read.
	keys := lineinput.NewReader(os.Stdin, maxAnswer, func(text string) {
		for i, part := range strings.Split(text, string(screen.Erase)) {
			if i > 0 {
				_ = stdout.Control(screen.Erase)
			}
			_, _ = stdout.Write([]byte(part))
		}
	})
	_ = stdout.Control(screen.PasteOn)
	defer func() { _ = stdout.Control(screen.PasteOff) }()
	for {
		keys.ExpectAnswer(true)
		_ = lineinput.Flush(os.Stdin)
		_, _ = fmt.Fprint(stdout, question)
		answer, err := keys.ReadLine()
		if !errors.Is(err, lineinput.ErrPasted) {
			return answer, err
		}
		_, _ = fmt.Fprintln(stdout, "\n(that came all at once, as a paste does; type the answer)")
	}
}

// confirmLine reads a line, before which what was typed ahead is dropped.
func confirmLine(stdout *screen.Screen, question string) (string, error) {
	_ = lineinput.Flush(os.Stdin)
	_, _ = fmt.Fprint(stdout, question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil && lineinput.More(os.Stdin) {
		err = lineinput.ErrPasted
	}
	return answer, err
}

// isYes takes nothing for a yes that came with an error.
func isYes(answer string, err error) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes")
}
