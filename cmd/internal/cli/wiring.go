package cli

import (
	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/project"
	"github.com/x/pygent/sessions"

	_ "github.com/x/pygent/terminal" // the face of Agent.RunInteractive
)

// wired are the options of an agent for what lies in packages above the root: the commands
// that people type, what the agent reads of its workspace, and what is kept of a session in
// its directory, with checkpoints in that of trees; session is empty for none. A program that wants an agent as the command has
// it copies this function, and adds script.Load for start-up scripts, which [settings.options]
// does here, and web.New for a page, as [uiCmd.Run] does.
func wired(typed []pygent.Command, session, trees string) []pygent.Option {
	opts := []pygent.Option{pygent.WithCommands(typed...), project.Read()}
	if session == "" {
		return opts
	}
	return append(opts, sessions.Keep(session), checkpoint.Keep(trees))
}
