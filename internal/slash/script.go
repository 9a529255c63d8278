package slash

import (
	"fmt"
	"io"
	"sync"
)

// Script writes what the script of a command prints, and ends it with a line feed. It is
// safe for concurrent use.
type Script struct {
	to io.Writer

	mu    sync.Mutex // guards what follows; held while to writes, since a call of Add may be left behind
	began bool
	last  byte
}

// NewScript returns a Script that writes to a writer.
func NewScript(to io.Writer) *Script { return &Script{to: to} }

// Add writes a piece of the output. skipped is how many bytes were left out before it.
func (s *Script) Add(skipped int64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if skipped > 0 {
		s.endLine()
		s.write(fmt.Sprintf("… %d bytes not shown …\n", skipped))
	}
	s.write(text)
}

// End writes the whole output if nothing of it came before, as from a runtime that
// has no live output, and names the file with all of it; file is empty if that is all.
func (s *Script) End(output, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began {
		s.write(output)
	}
	s.endLine()
	if file != "" {
		s.write("[the output is in " + file + "]\n")
	}
}

func (s *Script) write(text string) {
	if text != "" {
		s.began, s.last = true, text[len(text)-1]
		_, _ = io.WriteString(s.to, text)
	}
}

func (s *Script) endLine() {
	if s.began && s.last != '\n' {
		s.write("\n")
	}
}
