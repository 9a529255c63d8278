// Package pygent is an embeddable coding agent whose commands run in an
// isolated Docker container.
//
// An [Agent] is a conversation with a language model that can run tools. It
// sends what the user says to a [Model], runs the tools that the model calls
// in a [Runtime], hands the results back, and goes on until the work is done:
//
//	agent, err := pygent.New() // OPENAI_API_KEY, or OPENAI_BASE_URL
//	if err != nil {
//		return err
//	}
//	defer agent.Close()
//	result, err := agent.RunUntilStop(ctx, "Make the tests pass.")
//
// # Parts
//
//   - [Agent] holds the conversation, the loop, its limits and approvals.
//     [Agent.Step] makes one pass, [Agent.RunUntilStop] goes on to the end,
//     [Agent.Events] is the same as an iterator, and [Agent.RunInteractive]
//     talks with a person. All of them are one loop. [RunTyped] ends a run with
//     a value, and [Agent.Usage] tells what was used.
//   - [Runtime] is a workspace, and commands run in it: in a container, on
//     this machine, or wherever your own implementation runs them.
//   - [Model] answers a conversation. [openai.Model] speaks to every server
//     with OpenAI's chat completions or Responses API. Plug in another with
//     [WithModel] or [SetDefaultModel], and wrap any by [WithModelMiddleware].
//   - [Tool] is something the model can call. Add yours with [RegisterTool],
//     or typed with [NewTool].
//   - [TaskManager] has background agents work on tasks, each in a workspace of
//     its own. Models delegate to it by tools.
//   - [History] is the conversation, in memory, in a file or in a store of yours; package
//     chat has it, with messages, requests and answers.
//   - [Config] is what files and environment variables say.
//
// # Promises
//
// Every tool call gets exactly one result, whatever happens, so that the
// history is always a conversation that any provider accepts. Only model calls
// are ever repeated, never tools. Steps, tool calls and the time of a command
// are bounded by default. Cancelling a context stops the model call or the
// command in flight, with its processes. No panic of code that an agent is given,
// be it a tool, a model or an event handler, crosses the API, and none of it is
// waited for without end once its context has ended. Nothing prints: what happens
// is told by events ([OnEvent]) and a logger ([WithLogger]). Keys never
// reach the history, the logs, the events or the container.
//
// # A tool of your own
//
// A typed function becomes a tool by [NewTool]. It may ask the user ([Ask]), tell how
// far it is ([Progress]), find out whom it serves ([CallFrom]), and return text,
// images, values or the end of the run ([ToolResult]):
//
//	type release struct {
//		Version string `json:"version" jsonschema:"such as 1.2.0"`
//	}
//	tool := pygent.NewTool("release", "Release a version.",
//		func(ctx context.Context, rt pygent.Runtime, in release) (string, error) {
//			result, err := rt.Bash(ctx, `./release.sh "$VERSION"`, pygent.BashEnv("VERSION="+in.Version))
//			return result.String(), err
//		})
//	agent, err := pygent.New(pygent.WithTools(tool), pygent.WithApproval(approve))
//
// [WithApproval] sets who decides about calls: an [ApprovalRequest] shows the change
// that a call would make, and a [Decision] may change the call, or hold for the
// session. Tools that a server offers come from a [ToolSource].
//
// # Follow and steer
//
// What happens is a sequence of [Event] values. [OnEvent] gets them while a run waits
// for it; [Agent.Subscribe] follows an agent from any event on, as a page does that
// was loaded again. [Agent.State] tells what the agent does now. Meanwhile
// [Agent.Say] speaks to it, and [Agent.SetModel], [Agent.SetPersona],
// [Agent.SetApproval], [Agent.SetAsk] and [Registry.Disable] change it. A package that
// draws all this for people registers a [Face]; package lines prints it as plain text.
//
// # Errors
//
// A run ends with a [Status]. An error is returned if the model or the runtime failed,
// or the context ended; the errors to branch on are variables that begin with Err, and
// the types [*APIError], [*ToolError], [*TaskError], [*ConfigError] and
// [*NoValueError].
//
// # Where to look
//
//	one step, a whole run, an iterator   Agent.Step, Agent.RunUntilStop, Agent.Events
//	a value of a Go type                 RunTyped
//	images and files for the model       WithParts, Attach, FilePart
//	commands that people type            Command, WithCommands, Agent.RunCommand
//	go on after a crash                  WithHistoryFile, Agent.Resume, package sessions
//	undo, redo, forks                    package checkpoint, Agent.Undo, Agent.Fork
//	conversations in a database          HistoryStore, LoadHistory
//	conversations that become long       WithContextWindow, WithCompaction, Agent.Compact
//	AGENTS.md, skills, what is there     package project
//	limits                               Limits, MaxSteps, MaxTokens, MaxCost, MaxTime, StepTimeout
//	the container, or this machine       WithDocker, WithImage, WithWorkspace, WithAllowedHosts
//	a server as the model                WithOpenAI, docs/providers.md
//	a model of your own, a fallback      Model, ModelFunc, WithModelMiddleware, StreamFunc
//	background agents                    Agent.Tasks, NewTaskManager, TaskManager.StartTask
//	tokens, cost, spans                  Agent.Usage, WithPrices, package otel
//	what not every program wants         Extension, WithExtension
//	commands without an agent            NewRuntime, BashOutput, BashGoesOn, ProcessStarter, JobRunner
//	a runtime of your own                Runtime, RuntimeAs, pygenttest.TestRuntime
//	settings from files                  LoadConfig, Config.Options
//
// Package pygenttest helps to test programs that use this one. Each part has a program
// in the directory examples of the repository.
package pygent

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/openai"
)

// NoLimit switches a limit off, in options and in structs. A task without a
// limit of its own is still bound by that of its parent's run.
const NoLimit = -1

// Limits bounds a run, or a task that is delegated. A zero field is not set:
// the more general setting applies, or else the default. JSON has times as
// numbers of seconds, with fractions.
type Limits struct {
	MaxSteps     int           `json:"max_steps,omitempty"`                        // default 20; the command pygent sets 100
	MaxToolCalls int           `json:"max_tool_calls,omitempty"`                   // default as for [MaxToolCalls]
	MaxTokens    int64         `json:"max_tokens,omitempty"`                       // prompts and answers together; default none; for a task a share of the run's limit: see [TaskManager]
	MaxCost      float64       `json:"max_cost,omitempty"`                         // in the currency of [WithPrices]; default as for MaxTokens: see [MaxCost]
	StepTimeout  time.Duration `json:"-" seconds:"step_timeout_seconds,omitempty"` // for each step; default none, for a task 5 minutes
	MaxTime      time.Duration `json:"-" seconds:"max_time_seconds,omitempty"`     // default none, for a task 20 minutes, including its start
}

// MarshalJSON encodes the times in seconds.
func (l Limits) MarshalJSON() ([]byte, error) {
	type plain Limits
	return jsonobj.MarshalSeconds(plain(l))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Limits) UnmarshalJSON(data []byte) error {
	in := l.decoding()
	return json.Unmarshal(data, &in)
}

type plainLimits Limits // has no methods, and so no recursion

// limitsJSON is the JSON of [Limits] that it points to.
type limitsJSON struct {
	*plainLimits
	StepTimeout *jsonobj.Seconds `json:"step_timeout_seconds"`
	MaxTime     *jsonobj.Seconds `json:"max_time_seconds"`
}

// decoding returns a value to decode the limits into.
func (l *Limits) decoding() limitsJSON {
	return limitsJSON{(*plainLimits)(l), (*jsonobj.Seconds)(&l.StepTimeout), (*jsonobj.Seconds)(&l.MaxTime)}
}

// or fills the fields of l that are zero with those of m.
func (l Limits) or(m Limits) Limits {
	return Limits{
		MaxSteps:     cmp.Or(l.MaxSteps, m.MaxSteps),
		MaxToolCalls: cmp.Or(l.MaxToolCalls, m.MaxToolCalls),
		MaxTokens:    cmp.Or(l.MaxTokens, m.MaxTokens),
		MaxCost:      cmp.Or(l.MaxCost, m.MaxCost),
		StepTimeout:  cmp.Or(l.StepTimeout, m.StepTimeout),
		MaxTime:      cmp.Or(l.MaxTime, m.MaxTime),
	}
}

func (l Limits) check() error {
	return cmp.Or(
		settings.CheckLimit("MaxSteps", l.MaxSteps),
		settings.CheckLimit("MaxToolCalls", l.MaxToolCalls),
		settings.CheckLimit("MaxTokens", l.MaxTokens),
		settings.CheckLimit("MaxCost", l.MaxCost),
		settings.CheckLimit("StepTimeout", l.StepTimeout),
		settings.CheckLimit("MaxTime", l.MaxTime),
	)
}

// option turns the limits into an option of a run.
func (l Limits) option() RunOption {
	return runOption(func(o *runOptions) { o.Limits = l.or(o.Limits) })
}

// limitOr returns the number that a limit stands for: byDefault where it is not
// set.
func limitOr(limit, byDefault int) int {
	switch limit {
	case 0:
		return byDefault
	case NoLimit:
		return math.MaxInt
	}
	return limit
}

// withDefaultLimits fills in the limits that are not set but have a default. A
// limit that is zero afterwards does not exist.
func (c Config) withDefaultLimits() Config {
	l := &c.Limits
	l.MaxSteps = cmp.Or(l.MaxSteps, defaultMaxSteps)
	l.MaxToolCalls = cmp.Or(l.MaxToolCalls, toolCallsFor(l.MaxSteps))
	l.StepTimeout = cmp.Or(l.StepTimeout, DefaultTaskStepTimeout) // the default for the steps of tasks
	c.MaxTasks = cmp.Or(c.MaxTasks, DefaultMaxTasks)
	c.TaskLimits.MaxTime = cmp.Or(c.TaskLimits.MaxTime, DefaultTaskMaxTime)
	return c
}

// Secret is text that must not be shown: a key, or a header's value.
type Secret = openai.Secret
