package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
)

// settings is how an agent is set up, for people.
type settings struct {
	Model        string              `json:"model"`         // that is asked for; empty for the default
	DefaultModel string              `json:"default_model"` // empty if it is not known
	Models       []string            `json:"models"`        // the names that are known
	Persona      pygent.Persona      `json:"persona"`
	ConfirmBash  bool                `json:"confirm_bash"` // bash calls need approval
	Tools        []toolSetting       `json:"tools"`
	Runtime      *pygent.RuntimeInfo `json:"runtime"`
}

// toolSetting is a tool that can be switched on and off.
type toolSetting struct {
	Name    string `json:"name"`
	About   string `json:"about"` // a sentence; empty for one that is off
	Enabled bool   `json:"enabled"`
	Note    string `json:"note"` // why the model is not offered it although it is on
}

// modelsWithin is how long the model's server is waited for that lists its models.
const modelsWithin = time.Second

// getSettings tells how the agent is set up.
func (s *Server) getSettings(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return one.settings(c.Context())
}

// settings describes how the agent is set up now.
func (s *session) settings(ctx context.Context) (settings, error) {
	within, cancel := context.WithTimeout(ctx, modelsWithin)
	defer cancel()
	models, _ := s.agent.ModelNames(within)
	now := s.agent.State().Settings
	set := settings{
		Model: now.Model, DefaultModel: now.DefaultModel, Models: append([]string{}, models...),
		Persona: now.Persona, ConfirmBash: now.Confirm, Tools: s.tools(now),
	}
	return set, s.do(ctx, func() error {
		info := s.runtime
		set.Runtime = &info
		return nil
	})
}

// tools lists the tools, sorted by name.
func (s *session) tools(now pygent.Settings) []toolSetting {
	list := []toolSetting{}
	about := map[string]string{}
	for _, t := range s.agent.Tools().Tools() {
		about[t.Name] = firstSentence(t.Description)
	}
	for _, name := range now.Tools {
		list = append(list, toolSetting{Name: name, About: about[name], Enabled: true, Note: s.agent.Tools().WhyUnoffered(name, s.agent.Runtime())})
	}
	for _, name := range now.Disabled {
		list = append(list, toolSetting{Name: name})
	}
	slices.SortFunc(list, func(a, b toolSetting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// firstSentence is what there is room for of a tool's description.
func firstSentence(description string) string {
	line, _, _ := strings.Cut(description, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}

// newSettings is what is to be changed. What is missing stays as it is.
type newSettings struct {
	Model       *string         `json:"model"` // empty for the default
	Persona     *pygent.Persona `json:"persona"`
	ConfirmBash *bool           `json:"confirm_bash"`
	Tools       map[string]bool `json:"tools"` // whether they are on, by their names
}

// patchSettings changes settings, all of those that are given or none of them. An
// event of the agent tells of each change, so that every page shows it.
func (s *Server) patchSettings(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	if !s.opts.allowed().Settings {
		return nil, errNoRight
	}
	var in newSettings
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if err := in.check(one.agent.State().Settings); err != nil {
		return nil, err
	}
	if err := in.apply(one.agent); err != nil {
		return nil, err
	}
	return one.settings(c.Context())
}

// check refuses what does not fit the agent.
func (n newSettings) check(now pygent.Settings) error {
	const longestName, longest = 200, 16 << 10
	if n.Model != nil && (len(*n.Model) > longestName || strings.ContainsFunc(*n.Model, isBlank)) {
		return fail(http.StatusBadRequest, "bad_model", "the name of a model has no spaces and at most 200 bytes")
	}
	if p := n.Persona; p != nil && (len(p.Name) > longestName || strings.Contains(p.Name, "\n") || len(p.Description) > longest) {
		return fail(http.StatusBadRequest, "bad_persona", "the name of a persona is one line of at most 200 bytes, and its description has at most 16 KiB")
	}
	for name := range n.Tools {
		if !slices.Contains(now.Tools, name) && !slices.Contains(now.Disabled, name) {
			return fail(http.StatusNotFound, "no_tool", "there is no tool "+oneLine(name))
		}
	}
	return nil
}

// isBlank reports whether a character cannot be in a name.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// apply changes the agent. Only the first change, of tools that were off, can fail
// while the agent is open.
func (n newSettings) apply(a *pygent.Agent) error {
	var on, off []string
	for name, enabled := range n.Tools {
		if enabled {
			on = append(on, name)
		} else {
			off = append(off, name)
		}
	}
	if len(on) > 0 {
		if err := a.Tools().Enable(on...); err != nil {
			return fail(http.StatusConflict, "fixed", oneLine(err.Error()))
		}
	}
	if n.Model != nil {
		if err := a.SetModel(nil, *n.Model); err != nil {
			return err
		}
	}
	if len(off) > 0 {
		a.Tools().Disable(off...)
	}
	if n.Persona != nil {
		a.SetPersona(*n.Persona)
	}
	if n.ConfirmBash != nil {
		a.SetConfirmBash(*n.ConfirmBash)
	}
	return nil
}
