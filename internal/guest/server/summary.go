package server

import "github.com/x/pygent/internal/plain"

// summary keeps the head and the tail of what a filter leaves of an output. A
// capture calls its methods with its mutex held.
type summary struct {
	filter *plain.Progress
	ends   *capture
}

func newSummary(head, tail int) *summary {
	ends := newCapture(head, tail, nil)
	ends.spilled = true // or it would make a summary of its own
	return &summary{filter: plain.NewProgress(ends), ends: ends}
}

func (s *summary) write(p []byte) { _, _ = s.filter.Write(p) }

// kept returns the head and the tail, the line that is being written included,
// and how much of the output was left out before.
func (s *summary) kept() (head, tail []byte, gone int64) {
	ends := s.ends.clone()
	filter := s.filter.Clone(ends)
	_ = filter.Close()
	return ends.head, ends.tail(), filter.Overwritten()
}
