// Package slash reads and explains the commands that a person types in a
// conversation: lines such as "/name arguments".
package slash

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"

	"github.com/x/pygent/internal/numeral"
)

// Entry is a command as a list of commands shows it.
type Entry struct {
	Name    string // without the slash
	Usage   string // its arguments; may be empty
	Summary string // one line; may be empty
	Help    string // more detail; may be empty
}

// Split returns the name of the command in a line, and its arguments. It
// reports false for a line that does not begin with a slash, and for one whose first
// word has another slash, such as a path: that is a message.
func Split(line string) (name, args string, ok bool) {
	name, ok = strings.CutPrefix(strings.TrimSpace(line), "/")
	if !ok {
		return "", "", false
	}
	if i := strings.IndexFunc(name, unicode.IsSpace); i >= 0 {
		name, args = name[:i], strings.TrimSpace(name[i:])
	}
	if strings.Contains(name, "/") {
		return "", "", false
	}
	return name, args, true
}

// Is reports whether a line is a command, as [Split] does.
func Is(line string) bool {
	_, _, ok := Split(line)
	return ok
}

func (e Entry) label() string { return strings.TrimSpace(e.Name + " " + e.Usage) }

// Unknown returns the error for a name that no command has. like is the name that
// was meant, perhaps; it may be empty.
func Unknown(name, like string) error {
	if name == "" {
		return errors.New("the name of a command follows the /; /help lists them")
	}
	if like != "" {
		return fmt.Errorf("no command /%s, did you mean /%s? /help lists the commands", name, like)
	}
	return fmt.Errorf("no command /%s; /help lists the commands", name)
}

// Leaves reports whether a line says that a conversation is over, in the word of a shell.
// It is no command, and means something else where a question was asked.
func Leaves(line string) bool { return line == "exit" || line == "quit" }

// Output passes on what a command writes, until End is called. Without a writer
// it keeps the text, up to a limit. It is safe for concurrent use.
type Output struct {
	to    io.Writer
	limit int

	mu      sync.Mutex // guards what follows; held while to writes
	kept    strings.Builder
	dropped int
	over    bool
}

// NewOutput returns an output for a writer or, if that is nil, one that keeps at
// most limit bytes.
func NewOutput(to io.Writer, limit int) *Output { return &Output{to: to, limit: limit} }

// Live reports whether a writer gets the text as it comes.
func (o *Output) Live() bool { return o.to != nil }

// Columns is how many columns the lines of the writer may have; 0 for any number.
func (o *Output) Columns() int { return columnsOf(o.to) }

// Write passes on or keeps a text. After End it returns [io.ErrClosedPipe].
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.over:
		return 0, io.ErrClosedPipe
	case o.to != nil:
		return o.to.Write(b)
	}
	fits := b[:min(len(b), o.limit-o.kept.Len())]
	o.kept.Write(fits)
	o.dropped += len(b) - len(fits)
	return len(b), nil
}

// End refuses further text, and returns what was kept.
func (o *Output) End() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	text := strings.ToValidUTF8(o.kept.String(), "\uFFFD")
	if o.dropped > 0 {
		text += "\n… " + numeral.Count(o.dropped, "more byte") + " not shown …\n"
	}
	return text
}
