package pygent

import (
	"context"
	"strings"
)

type question struct{ head, text, prompt string }

const errUnclear = "(answer with one of the letters, or say in a few words why not)"

func (s *session) question(ctx context.Context, q question) (string, error) {
	a, err := s.ask(ctx, q.head+" "+q.text+"\n"+q.prompt, nil)
	return strings.TrimSpace(a), err
}
