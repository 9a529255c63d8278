package web

import (
	"cmp"
	"crypto/rand"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/sessions"
)

// pageState is what the status line and the header of a page show.
type pageState struct {
	Words  string   `json:"words"` // what goes on or is waited for; empty for nothing
	Since  string   `json:"since,omitempty"`
	Busy   bool     `json:"busy"`
	Shell  bool     `json:"shell"`  // a command line of the person's goes on
	Errand bool     `json:"errand"` // a command, or a way back, goes on
	Needs  string   `json:"needs"`  // "approval", "question" or empty
	Queue  []queued `json:"queue"`
	Held   bool     `json:"held"` // what is queued waits for the person

	Context struct {
		Used   int64 `json:"used"`
		Window int64 `json:"window"`
	} `json:"context"`
	Tokens  int64           `json:"tokens"`
	Cost    float64         `json:"cost"`
	Title   string          `json:"title"`
	Runtime runtimeState    `json:"runtime"`
	Model   string          `json:"model"`
	Persona string          `json:"persona"`
	Set     int64           `json:"set"` // the number of the last change of a setting
	Can     map[string]bool `json:"can"`
}

// runtimeState says where commands run.
type runtimeState struct {
	Label     string `json:"label"`
	Warn      bool   `json:"warn"` // commands are not contained
	Directory string `json:"directory"`
}

// queued is a message that nobody has heard.
type queued struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func newEpoch() string { return strings.ToLower(rand.Text()[:8]) }

// runtimeState puts the place where commands run in words.
func (s *session) runtimeState() runtimeState {
	info := s.runtime
	switch info.Kind {
	case "docker":
		label := "Docker"
		if info.Image != "" {
			label += " · " + oneLine(info.Image)
		}
		return runtimeState{Label: label, Directory: oneLine(cmp.Or(info.HostDir, info.Workspace))}
	case "local":
		label := "local · not isolated"
		if info.Protection == "full" || info.Protection == "files" {
			label = "local · " + info.Protection + " protection"
		}
		return runtimeState{Label: label, Warn: true, Directory: oneLine(info.Workspace)}
	}
	return runtimeState{Label: oneLine(cmp.Or(info.Kind, "runtime")), Directory: oneLine(info.Workspace)}
}

// can says what the page offers.
func (s *session) can() map[string]bool {
	_, lists := pygent.RuntimeAs[pygent.FileLister](s.agent.Runtime())
	list := s.agent.Checkpoints()
	_, kept := sessions.Of(s.agent)
	may := s.server.opts.allowed()
	return map[string]bool{
		"commands": len(s.agent.Commands()) > 0, "files": lists, "changes": true, "tasks": true,
		"undo": len(list) > 0, "redo": len(list) > 0,
		"fork": len(list) > 0 && kept && s.server.opts.open != nil, "close": s.owned,
		"settings": may.Settings, "shell": may.Shell, "network": may.Network, "save": may.Snapshots,
	}
}

// title is what the session is called: what the user said first, or its beginning.
func (s *session) title() string {
	const longest = 80
	if info := s.agent.History().Info(); info.Title != "" {
		return oneLine(cut.Line(info.Title, longest))
	}
	return cmp.Or(oneLine(cut.Line(s.view.first, longest)), "New session")
}
