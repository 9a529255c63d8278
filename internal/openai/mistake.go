package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/loopdetect"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/thought"
)

// Mistake is the cause of an error that the model made, and not the request: the server
// could not read its call, or it repeated itself without end. The same request may
// succeed, since another answer is drawn; if not, the model has to be told.
type Mistake struct {
	Wrote   string // by the model, as far as the server passes it on; may be empty
	Thought string // of it, before that
	Why     string // the server could not read it
	Repeats string // what it wrote without end; empty for an answer that could not be read
}

// Error says what the model did.
func (m *Mistake) Error() string {
	if m.Repeats != "" {
		return fmt.Sprintf("the model repeated itself without end: %q", m.Repeats)
	}
	return "the server could not read what the model wrote"
}

// MistakeOf returns the mistake of the model that an error is about; nil for none.
func MistakeOf(err error) *Mistake {
	var m *Mistake
	errors.As(err, &m)
	return m
}

// mistakenCodes and mistakenPhrases tell errors of a model's output from those of a
// request, in the words of Groq, llama.cpp, Ollama and Gemini.
var (
	mistakenCodes   = []string{"tool_use_failed", "output_parse_failed"}
	mistakenPhrases = []string{
		"failed to call a function", "tool call validation failed", // Groq
		"failed to parse tool call arguments as json", "failed to parse input at pos", // llama.cpp
		"error parsing tool call", // Ollama
	}
	writtenInWords = regexp.MustCompile(`(?is)(?:raw='(.*)', err=|failed to parse input at pos \d+: (.*))`)
)

// maxWrote bounds what is kept of an answer that could not be read.
const maxWrote = 16 << 10

// mistake returns the mistake of the model that the error is about; nil for none.
func (f errorFields) mistake() *Mistake {
	message := strings.ToLower(f.message)
	if f.generation == "" && !slices.Contains(mistakenCodes, f.code) &&
		!slices.ContainsFunc(mistakenPhrases, func(phrase string) bool { return strings.Contains(message, phrase) }) {
		return nil
	}
	wrote := f.generation
	if match := writtenInWords.FindStringSubmatch(f.message); match != nil && wrote == "" {
		wrote = cmp.Or(match[1], match[2])
	}
	before, text := thought.Split(cut.Head(wrote, maxWrote))
	return &Mistake{Wrote: strings.TrimSpace(text), Thought: thought.Inside(before), Why: cut.Head(f.message, snippetSize)}
}

// loops follows what an answer says, and notices what is repeated without end.
type loops struct{ text, thought, call loopdetect.TextFinder }

// add returns an error once a piece of an answer repeats what came before it without end.
func (l *loops) add(d *chatstream.Delta) error {
	l.call.File = true
	period := cmp.Or(l.text.Add(d.Text), l.thought.Add(d.Reasoning), l.call.Add(d.Arguments))
	if period == "" {
		return nil
	}
	const enough = 120 // of a period, to know it by
	m := &Mistake{Repeats: cut.Head(cmp.Or(strings.TrimSpace(period), period), enough)}
	return &Error{Status: http.StatusOK, Code: "repetition", Message: m.Error(), Retryable: true, Err: m}
}
