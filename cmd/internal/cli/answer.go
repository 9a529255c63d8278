package cli

import (
	"context"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/screen"
)

// ask asks a question on a terminal and returns the answer that is typed. ok is
// false if nobody sees the question, or if ctx ends.
func ask(ctx context.Context, question string) (string, bool) {
	return answerTo(ctx, console.Question{Prompt: question})
}

// answerTo is ask, of any question.
func answerTo(ctx context.Context, question console.Question) (string, bool) {
	if !seen() {
		return "", false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := console.New(os.Stdin, screen.Stdout(), slog.New(slog.DiscardHandler))
	defer c.Open(ctx)()
	answer, err := c.Question(ctx, question)
	return answer, err == nil // what was typed before an error is no answer
}

// seen reports whether somebody can read a question and type an answer.
func seen() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && screen.Stdout().Terminal()
}
