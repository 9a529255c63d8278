package terminal

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/sessions"
)

// The signs in front of the draft. A command line of the person's own has one of its
// own.
const (
	prompt      = "› "
	shellPrompt = "$ "
)

func (s *session) prompt() string {
	if strings.HasPrefix(s.input.editor.text, "!") {
		return shellPrompt
	}
	return prompt
}

// shownName is how much of a name the banner shows, in columns.
const shownName = 100

// banner shows who the agent is, where commands run, and where the files are.
func (s *session) banner() {
	info := s.describe()
	s.hostDir = info.HostDir
	title := s.theme.bold(livearea.Cut(oneLine(s.agent.Persona().Name), shownName))
	settings := s.agent.State().Settings
	if model := cmp.Or(settings.Model, s.doing.Model, settings.DefaultModel); model != "" {
		title += s.theme.dim(" · ") + livearea.Cut(oneLine(model), shownName)
	}
	lines := append([]string{title, ""}, s.fact("commands", s.where(info))...)
	lines = append(lines, s.fact("network", s.network(info))...)
	lines = append(lines, s.files(info)...)
	lines = append(lines, s.fact("history", sessions.Recap(s.agent))...)
	lines = append(lines, s.lastSaid()...)
	if info.Fallback != "" {
		lines = append(lines, "", s.warning("! NOT in a container: "+told(info.Fallback)))
	}
	for _, note := range info.Notes {
		lines = append(lines, "", s.warning("! "+told(note)))
	}
	for _, notice := range s.face.Notices {
		lines = append(lines, "", s.wrapped(s.theme.dim("· "+told(notice))))
	}
	for _, repair := range s.agent.History().Repairs() {
		lines = append(lines, s.warning("! history: "+told(repair)))
	}
	switch {
	case s.face.Interrupted && !s.face.Resume:
		lines = append(lines, "", s.warning("The last run was interrupted. Use /resume to continue it."))
	case s.agent.History().Len() == 0:
		lines = append(lines, "", s.wrapped(s.theme.dim("Type a message. /help lists the commands, ? lists the keys, Ctrl-D leaves.")))
	}
	s.say(kindNews, strings.Join(lines, "\n"))
}

// describe asks the runtime what it is.
func (s *session) describe() pygent.RuntimeInfo { return faces.Describe(s.ctx, s.agent) }

// factMargin is how far the facts of the banner are indented, behind their names.
const factMargin = 12

// fact lays out a fact of the banner under its name.
func (s *session) fact(name, text string) []string {
	if text == "" {
		return nil
	}
	width, _ := s.display.area.Size()
	rows := livearea.Wrap(text, max(width-factMargin, 20))
	for i, row := range rows {
		rows[i] = strings.Repeat(" ", factMargin) + row
	}
	rows[0] = "  " + s.theme.dim(fmt.Sprintf("%-*s", factMargin-2, name)) + strings.TrimLeft(rows[0], " ")
	return rows
}

// where says where commands run, and how they are confined there.
func (s *session) where(info pygent.RuntimeInfo) string {
	note := func(text string) string {
		if text = oneLine(text); text != "" {
			text = s.theme.dim(" (" + text + ")")
		}
		return text
	}
	switch {
	case s.agent.UseDocker():
		return s.theme.good("in a container") + " of " + livearea.Cut(oneLine(info.Image), shownName) + note(info.ProtectionNote)
	case info.Protection == "full": // its note says that the network is open, as the next line does
		return "on this machine, " + s.theme.good("sandboxed to the workspace") + note("protection: full")
	case info.Protection == "none":
		return s.theme.warn("on this machine, not sandboxed") + note(info.ProtectionNote)
	case info.Protection != "":
		return s.theme.warn("on this machine, partly sandboxed") + note("protection: "+info.Protection+"; "+info.ProtectionNote)
	case info.Kind == "" || info.Kind == "local":
		return s.theme.warn("on this machine")
	}
	return "in the runtime " + livearea.Cut(oneLine(info.Kind), shownName)
}

// network says what commands can reach.
func (s *session) network(info pygent.RuntimeInfo) string {
	asks := ""
	if info.AsksHosts {
		asks = s.theme.dim("; others need your approval")
	}
	switch {
	case info.Network || info.Protection != "":
		return "open"
	case len(info.AllowedHosts) > 0:
		return hosts(info.AllowedHosts) + asks
	case info.AsksHosts:
		return "none" + s.theme.dim("; hosts need your approval")
	case s.agent.UseDocker():
		return "none"
	}
	return ""
}

// hosts names hosts, and counts those that there is no room for.
func hosts(names []string) string {
	const most = 20
	rest := ""
	if n := len(names) - most; n > 0 {
		names, rest = names[:most], " and "+count(n, "other")
	}
	return oneLine(strings.Join(names, ", ")) + rest
}

func (s *session) warning(text string) string { return s.wrapped(s.theme.warn(text)) }

// files says where the files are. The directory is in a line of its own, so that it
// can be copied, and begins one if it does not fit beside its name.
func (s *session) files(info pygent.RuntimeInfo) []string {
	dir := visible(cmp.Or(info.HostDir, info.Workspace))
	if info.HostDir == "" && s.agent.UseDocker() {
		dir += s.theme.dim(" in the container")
	}
	begin := "  " + s.theme.dim(fmt.Sprintf("%-*s", factMargin-2, "files"))
	if width, _ := s.display.area.Size(); factMargin+livearea.Width(dir) > width {
		begin = "  " + s.theme.dim("files") + "\n  "
	}
	lines := []string{begin + dir}
	if info.Temporary {
		lines = append(lines, s.fact("", s.theme.warn("temporary; you can keep its files at the end"))...)
	}
	return lines
}

// lastSaid shows what was said last in a conversation that goes on.
func (s *session) lastSaid() (rows []string) {
	user, model := sessions.LastSaid(s.agent)
	if len(user)+len(model) > 0 {
		rows = append(rows, "")
	}
	for i, line := range append(user, model...) {
		margin := "  "
		if i < len(user) {
			margin = "  > "
		}
		for row := range strings.SplitSeq(s.wrapped(line), "\n") {
			rows = append(rows, s.theme.dim(strings.TrimRight(othersBar+margin+row, " ")))
		}
	}
	return rows
}
