package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/internal/workspace"
)

// externalEdit lets the person edit the draft in a program of their own. The session
// waits for it: what the agent does meanwhile is shown afterwards, and nothing that
// is typed there answers a question.
func (s *session) externalEdit() {
	s.input.completion = completion{}
	words, err := editorCommand(os.Getenv, exec.LookPath)
	if err != nil {
		s.hint(oneLine(err.Error()))
		return
	}
	draft := s.input.editor.message()
	var text string
	s.outside(func() (killed bool) {
		text, err = editOutside(s.ctx, words, draft, s.tty.in)
		_ = lineinput.Flush(s.tty.in) // what was typed there and not read is not meant for the session
		return errors.Is(err, errKilled)
	})
	for _, m := range s.menus {
		m.shownAt = time.Time{} // it appears anew
	}
	switch {
	case err != nil:
		s.hint(oneLine(err.Error()))
	case text != draft && len(text) > maxDraft:
		s.hint("too long for a message; put it in a file")
	case text != draft:
		s.input.editor.set(text)
	}
}

// editorCommand returns the user's editor as words of a command line.
func editorCommand(env func(string) string, find func(string) (string, error)) ([]string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if env(name) == "" {
			continue
		}
		words, err := slash.Fields(env(name))
		if err != nil {
			return nil, fmt.Errorf("$%s: %w", name, err)
		}
		if len(words) > 0 {
			return words, nil
		}
	}
	for _, name := range fallbackEditors {
		if path, err := find(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, errors.New("no editor is set: set the environment variable EDITOR")
}

// errKilled is the error of a program that a signal has ended.
var errKilled = errors.New("it was ended by a signal")

// editOutside has a program change a text, in a file that only the user can read. If this
// process is killed meanwhile, a later one removes it.
func editOutside(ctx context.Context, words []string, text string, terminal *os.File) (changed string, err error) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return "", fmt.Errorf("edit the draft: %w", err)
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(dir)) }()
	file := filepath.Join(dir, "message.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("edit the draft: %w", err)
	}
	cmd := exec.Command(words[0], append(words[1:len(words):len(words)], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := runInFront(ctx, cmd, terminal); err != nil {
		return "", fmt.Errorf("the draft is unchanged: %s: %w", words[0], err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the draft is unchanged: %w", err)
	}
	return strings.TrimSuffix(typed(string(data)), "\n"), nil
}
