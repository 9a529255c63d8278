// Package bridge leads packages of this module that add to an agent to what only they need
// of it, so that the root's documentation is not full of it. It imports nothing of the root,
// which imports it: what it hands over is asserted on the other side, as grpc's internal
// package does.
package bridge

import (
	"context"
	"errors"

	"github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/settings"
)

// OpenAISettings returns the settings of an *openai.Config. Package openai sets it.
var OpenAISettings func(config any) []settings.Setting

// Package chat sets these.
var (
	// History returns a *chat.History as the agent sees it that goes on with it; history.go of
	// package pygent has the interface.
	History func(history any) (inside any)
	// OpenHistoryBeside opens the *chat.History of a file that may lie in a directory that
	// commands can write to.
	OpenHistoryBeside func(dirs []string, path string) (history any, err error)
	// EncodeMessages returns []chat.Message as servers with OpenAI's APIs get them.
	EncodeMessages func(messages any) (openai.Messages, error)
	// AnswerMessage returns the chat.Message of an answer.
	AnswerMessage func(*chatstream.Answer) (message any, err error)
)

// ErrReassigned ends the context of a task's run that is carried out elsewhere by now. From
// then on the run leaves no trace: no event, no message, no outcome.
var ErrReassigned = errors.New("the task was taken over elsewhere")

// Reassigned returns ErrReassigned if that ended the context, which may be nil.
func Reassigned(ctx context.Context) error {
	if ctx != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrReassigned) {
		return ErrReassigned
	}
	return nil
}

// Package pygent sets these; bridge.go there has the interfaces of what they take, and the
// methods of inside, which is an agent as packages of this module see it.
var (
	// Keep gives a *pygent.Agent what keeps its checkpoints, in Open of an extension.
	Keep func(agent, keeper any) (inside any)
	// WithSession returns the pygent.Option that keeps the session of an agent in a
	// directory. open makes what keeps it, before there is a history.
	WithSession func(dir string, open func(inside any) (keeper any, err error)) (option any)
	// GoOnFrom returns the pygent.Option of an agent that goes on as one was saved in the
	// directory of a snapshot: with a pygent.Setup and the messages of a *pygent.History.
	GoOnFrom func(dir string, setup, history any) (option any)
	// WithProject returns the pygent.Option that changes what package project reads, and
	// has the effect of others, each a pygent.Option.
	WithProject func(change func(*Project), others ...any) (option any)
	// Settings returns the table of all settings, which are bound to no configuration.
	Settings func() []settings.Setting
	// Inside returns what keeps the session of a *pygent.Agent, too; nil for none.
	Inside func(agent any) (inside, session any)
)

// Project says what package project reads. It is among the options of package pygent, because
// settings, setups and tasks have it. The zero value is the default: all but skills of this
// machine.
type Project struct {
	NoInstructions, NoSurvey, NoWorkspaceSkills bool

	SkillDirs []string // of this machine, whose folders are skills
}

// SkillDirs are the directories of a workspace whose folders are skills, and those of the
// user's home. SkillCopies is where a workspace has copies of the user's, which each agent
// makes anew.
var SkillDirs = []string{".pygent/skills", ".agents/skills"}

const SkillCopies = ".pygent/user-skills"

// Turn is a run of an agent as its checkpoints see it. Only the run's goroutine uses it.
type Turn interface {
	// Before is called before a call that may change files.
	Before(ctx context.Context)
	// After is called after one. Commands says that it ran some and did nothing else, and
	// changed are the files that it says it has changed, if that is all it can do.
	After(ctx context.Context, commands bool, changed []string)
	// End begins the checkpoint at the end. It reports whether the run has to wait for it.
	End(ctx context.Context) (waits bool)
}

// Start is how a turn begins.
type Start struct {
	Resumes bool   // one goes on that had ended
	Words   string // of the user
}
