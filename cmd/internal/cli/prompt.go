package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// maxPrompt is the longest prompt that is read from standard input, in bytes.
const maxPrompt = 1 << 20

// inputWait is how long a program is waited for whose output might belong to a
// prompt that the arguments gave.
const inputWait = 3 * time.Second

// promptFrom joins the words of a prompt, and what standard input has: all that
// comes if a word is "-" or there is no other one, and otherwise what is piped in,
// if it begins to come soon. It says whether anything came.
func promptFrom(ctx context.Context, words []string, stdin *os.File) (prompt string, piped bool, err error) {
	asked := slices.Contains(words, "-")
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "-" })
	prompt = strings.Join(words, " ")
	if !asked && !isPiped(stdin) {
		return prompt, false, nil
	}
	patience := inputWait
	if asked || prompt == "" {
		patience = 0
	}
	input, err := readInput(ctx, stdin, patience)
	switch {
	case errors.Is(err, errNoInput):
		warn(fmt.Sprintf("nothing arrived on standard input within %s, so it is ignored; add - to the prompt to wait for it", inputWait))
		return prompt, false, nil
	case err != nil:
		return "", false, fmt.Errorf("read the prompt from standard input: %w", err)
	case strings.TrimSpace(input) == "":
		return prompt, false, nil
	case prompt == "":
		return input, true, nil
	}
	return prompt + "\n\n" + input, true, nil
}

// isPiped reports whether a file is a pipe, a socket or a regular file, and so
// perhaps meant for the prompt. A terminal is not, nor is /dev/null.
func isPiped(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

var errNoInput = errors.New("nothing came")

// readInput reads a file to its end. If nothing comes in the time of patience,
// it gives up; 0 waits for ever. A read that cannot be interrupted goes on when
// it returns, and ends with the process.
func readInput(ctx context.Context, file io.Reader, patience time.Duration) (string, error) {
	begun, done := make(chan struct{}), make(chan struct{})
	var text []byte
	var err error
	go func() {
		defer close(done)
		first := make([]byte, 1)
		var n int
		if n, err = io.ReadFull(file, first); err == io.EOF {
			err = nil
		}
		close(begun)
		if n > 0 {
			text, err = io.ReadAll(io.LimitReader(file, maxPrompt))
			text = append(first, text...)
		}
	}()
	var tooLate <-chan time.Time
	if patience > 0 {
		tooLate = time.After(patience)
	}
	select {
	case <-begun:
	case <-tooLate:
		return "", errNoInput
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if err == nil && len(text) > maxPrompt {
		err = fmt.Errorf("it is longer than %d bytes; put the text in a file of the workspace", maxPrompt)
	}
	return string(text), err
}
