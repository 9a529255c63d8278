package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/plain"
)

// postCommand carries out a line of the user that begins with a slash. It answers when
// the command has ended.
func (s *Server) postCommand(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in struct {
		Line string `json:"line"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(in.Line, "/") {
		return nil, fail(http.StatusBadRequest, "bad_request", "a command starts with a slash")
	}
	name, _, _ := strings.Cut(in.Line, " ") // with its slash
	if one.interactive(name[1:]) {
		return nil, fail(http.StatusUnprocessableEntity, "interactive", oneLine(name)+" needs a terminal")
	}
	var answer map[string]any
	err = one.errand(c.Context(), "Running "+oneLine(head(name, maxFact)), func(ctx context.Context) error {
		result, err := one.agent.RunCommand(ctx, in.Line, nil)
		if err != nil && errors.Is(context.Cause(ctx), faces.ErrInterrupted) {
			err = faces.ErrInterrupted
		}
		result.Output = plain.Clean(result.Output)
		answer = map[string]any{"output": result.Output, "leave": result.Leave}
		return one.do(one.ctx, func() error { return one.endCommand(in.Line, result, err) })
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// endCommand shows a command that has ended, whose output is clean, and does what is left
// to do.
func (s *session) endCommand(line string, result pygent.CommandResult, err error) error {
	s.view.command(line, result.Output, err)
	switch {
	case err != nil:
		return fail(http.StatusUnprocessableEntity, "command", oneLine(err.Error()))
	case result.Message != nil:
		_, err := s.deliver(*result.Message, false)
		return err
	case result.Resume && s.turn == nil:
		s.startTurn(s.agent.Resume)
	}
	return nil
}

// interactive reports whether a command needs a terminal.
func (s *session) interactive(name string) bool {
	for _, c := range s.agent.Commands() {
		if c.Name == name {
			return c.Interactive
		}
	}
	return false
}

// getCompletions tells how a line of the user can go on.
func (s *Server) getCompletions(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	list, err := one.agent.CompleteCommand(c.Context(), c.URL.Query().Get("line"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"completions": append([]pygent.Completion{}, list...)}, nil
}

// command shows a command of the user and what it said.
func (v *view) command(line, output string, err error) {
	v.endMessage()
	class, sign, open := "", dot("ok", "✓", "done"), ""
	if err != nil {
		class, sign, output = " bad", dot("bad", "✕", "failed"), strings.TrimSpace(output+"\n"+err.Error())
	}
	var body strings.Builder
	if output = strings.Trim(output, "\n"); output != "" {
		open = " open"
		body.WriteString(`<pre class="out answer" tabindex="0">` + esc(head(output, maxShown)) +
			`</pre><div class="more"><span></span><button type="button" class="btn quiet" data-act="copy">Copy</button></div>`)
	}
	v.put(v.key("k"), fmt.Sprintf(
		`<details class="tool%s"%s><summary>%s<span class="verb">Command</span><span class="what">%s</span></summary><div class="body">%s</div></details>`,
		class, open, sign, exact(oneLine(head(line, 300))), body.String()))
}
