package terminal

import (
	"cmp"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

// prompt is in front of the draft.
const prompt = "› "

func (s *session) prompt() string { return prompt }

// banner shows who the agent is, where commands run, and where the files are.
func (s *session) banner() {
	var info pygent.RuntimeInfo
	if d, ok := pygent.RuntimeAs[pygent.Describer](s.agent.Runtime()); ok {
		info = d.Describe(s.ctx)
	}
	state := s.agent.State()
	title := s.theme.bold(oneLine(s.agent.Persona().Name))
	if model := cmp.Or(state.Settings.Model, s.doing.model); model != "" {
		title += " · " + oneLine(model)
	}
	lines := []string{title, "  " + s.where(info), "  " + s.files(info)}
	if info.Fallback != "" {
		lines = append(lines, s.theme.warn("! NOT in a container: "+visible(info.Fallback)))
	}
	for _, repair := range s.agent.History().Repairs() {
		lines = append(lines, s.theme.warn("! history: "+visible(repair)))
	}
	if s.face.Interrupted && !s.face.Resume {
		lines = append(lines, "The conversation was interrupted; /resume goes on with it.")
	}
	lines = append(lines, s.resumed()...)
	if s.agent.History().Len() == 0 {
		lines = append(lines, s.theme.dim("  Type a message; /help lists the commands, Ctrl-D leaves."))
	}
	s.say(kindNews, strings.Join(lines, "\n"))
}

// resumed says what there is of an earlier conversation: how many messages, and the
// last one.
func (s *session) resumed() []string {
	entries := s.agent.History().Entries()
	for i := len(entries) - 1; i >= 0; i-- {
		msg := entries[i].Message
		text := oneLine(msg.Text())
		if text == "" || msg.Role != pygent.RoleUser && msg.Role != pygent.RoleAssistant {
			continue
		}
		who := "the model said: "
		if msg.Role == pygent.RoleUser {
			who = "you said: "
		}
		const shown = 200
		return []string{"  goes on after " + numeral.Count(s.agent.State().Messages, "message") + s.theme.dim(" · last, "+who+cut.Head(text, shown))}
	}
	return nil
}

// where says where commands run, and what they can reach.
func (s *session) where(info pygent.RuntimeInfo) string {
	var facts []string
	switch {
	case s.agent.UseDocker():
		facts = append(facts, s.theme.good("commands run in a container")+" ("+oneLine(info.Image)+")")
	case info.Protection == "none":
		facts = append(facts, s.theme.warn("commands run on this machine, without protection"))
	case info.Protection != "":
		facts = append(facts, s.theme.warn("commands run on this machine")+", protection: "+info.Protection)
	default:
		facts = append(facts, s.theme.warn("commands run on this machine"))
	}
	if info.ProtectionNote != "" {
		facts[0] += " (" + oneLine(info.ProtectionNote) + ")"
	}
	switch {
	case info.Network:
		facts = append(facts, "network")
	case len(info.AllowedHosts) > 0:
		facts = append(facts, "network: "+oneLine(strings.Join(info.AllowedHosts, ", ")))
	case s.agent.UseDocker():
		facts = append(facts, "no network")
	}
	return strings.Join(facts, " · ")
}

// files says where the files are.
func (s *session) files(info pygent.RuntimeInfo) string {
	dir := cmp.Or(info.HostDir, info.Workspace)
	switch {
	case info.Temporary:
		return "files: " + visible(dir) + s.theme.warn(" (temporary: removed at the end; --workspace DIR or --cwd keeps them)")
	case info.HostDir == "" && s.agent.UseDocker():
		return "files: " + visible(dir) + " in the container"
	}
	return "files: " + visible(dir)
}
