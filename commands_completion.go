package pygent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/slash"
)

// Completion is a way to go on with a line that is being typed.
type Completion struct {
	Line    string `json:"line"`              // the whole line then
	Word    string `json:"word"`              // the command's name or the argument that ends it, without quotes
	Summary string `json:"summary,omitempty"` // what the word stands for; may have control characters
}

// Bounds of completions.
const (
	maxCompletions = 1000
	completeWithin = 2 * time.Second
)

// CompleteCommand returns how a line that begins with "/", and that a person has
// typed up to its end, can go on: with the name of a command, or with an argument
// that [Command].Complete of the command offers. There are at most 1,000, in the
// order in which they are to be shown, and none if nothing is known.
//
// Names come at once. For arguments CompleteCommand waits 2 s; a Complete that takes
// longer, or that panics, is an error. Any number of calls may be made at the same
// time.
func (a *Agent) CompleteCommand(ctx context.Context, line string) ([]Completion, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case a.isClosed():
		return nil, ErrAgentClosed
	}
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "/")
	if !ok {
		return nil, errors.New(`a command begins with "/"`)
	}
	at := strings.IndexFunc(rest, unicode.IsSpace)
	if at < 0 {
		return a.completeName(rest), nil
	}
	words, from := slash.Typed(rest[at:])
	all, err := a.argumentsOf(ctx, rest[:at], words)
	if err != nil {
		return nil, fmt.Errorf("complete /%s: %w", rest[:at], err)
	}
	typed, before := words[len(words)-1], line[:len(line)-len(rest)+at+from]
	var list []Completion
	for _, word := range all {
		word, summary, _ := strings.Cut(word, "\t")
		if strings.HasPrefix(word, typed) && len(list) < maxCompletions {
			list = append(list, Completion{Line: before + argumentLine(word), Word: word, Summary: summary})
		}
	}
	return list, nil
}

// completeName returns the commands whose names begin with a text.
func (a *Agent) completeName(typed string) (list []Completion) {
	for _, c := range a.Commands() {
		if !strings.HasPrefix(c.Name, typed) {
			continue
		}
		line := "/" + c.Name
		if c.Usage != "" || c.Complete != nil || c.Name == "help" {
			line += " "
		}
		list = append(list, Completion{Line: line, Word: c.Name, Summary: c.Summary})
	}
	return list
}

// argumentsOf returns what a command offers for the last of its arguments.
func (a *Agent) argumentsOf(ctx context.Context, name string, words []string) ([]string, error) {
	if name == "help" {
		return a.namesForHelp(words), nil
	}
	c := a.commands[name]
	if c.Complete == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	list, err := guard.Outlive(ctx, func() ([]string, error) { return c.Complete(ctx, a, slices.Clone(words)), nil })
	a.logPanic("completion of /"+name, err)
	return list, err
}

func (a *Agent) namesForHelp(words []string) (names []string) {
	if len(words) > 1 {
		return nil
	}
	slash := ""
	if strings.HasPrefix(words[0], "/") {
		slash = "/"
	}
	for _, c := range a.Commands() {
		names = append(names, slash+c.Name)
	}
	return names
}

// argumentLine is a word as it is written in a line, with what follows it. A
// directory is not finished: what is in it may follow.
func argumentLine(word string) string {
	quoted := slash.Quote(word)
	if !strings.HasSuffix(word, "/") {
		return quoted + " "
	}
	return strings.TrimSuffix(quoted, `"`)
}
