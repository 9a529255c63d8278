package sandbox

import (
	"slices"
	"sync"
)

// Notes are what does not work in a sandbox, and what helps, each a sentence for people
// and models. What is found only when a container starts is also told with the result
// of the next command.
type Notes struct {
	mu   sync.Mutex // guards what follows
	all  []string
	news []string // not yet told with a result
}

// Add adds notes that were known from the beginning.
func (n *Notes) Add(texts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, texts...)
}

// Learn adds a note that was found late. It reports whether it is new.
func (n *Notes) Learn(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.all, text) {
		return false
	}
	n.all, n.news = append(n.all, text), append(n.news, text)
	return true
}

// All returns the notes.
func (n *Notes) All() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// takeNews returns what was found late, once.
func (n *Notes) takeNews() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.news
	n.news = nil
	return news
}
