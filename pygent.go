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
//	images and files for the model       WithParts, chat.Attach, chat.FilePart
//	commands that people type            Command, WithCommands, Agent.RunCommand
//	go on after a crash                  WithHistoryFile, Agent.Resume, package sessions
//	undo, redo, forks                    package checkpoint, Agent.Undo, Agent.Fork
//	conversations in a database          chat.HistoryStore, chat.LoadHistory, WithHistory
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
//	all that the command pygent adds     cmd/internal/cli/wiring.go
//
// Package pygenttest helps to test programs that use this one. Each part has a program
// in the directory examples of the repository.
package pygent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"time"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/budget"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/sessiondir"
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

// Secret is text that must not be shown: see [openai.Secret].
type Secret = openai.Secret

// Option configures an [Agent]. What no option sets comes from the environment,
// as [LoadConfig] describes, and then from the defaults. When two options set
// the same thing, the later one wins. Two that contradict each other, such as
// [WithRuntime] and [WithImage], are an error of [New].
//
// Nil options are ignored, here and wherever options are taken. An option whose
// value is nil restores the default. A nil pointer or function behind an interface,
// such as WithModel((*openai.Model)(nil)), is an error.
//
// The options of the parts of an agent are options of the agent too: a
// [RuntimeOption] configures its runtime, a [RunOption] sets a default for each
// of its runs, a [TaskManagerOption] configures the manager of its tasks, and
// [WithOpenAI] passes options to its model:
//
//	pygent.New(pygent.WithImage("golang:1.26"), pygent.MaxSteps(50), pygent.WithOpenAI(openai.BaseURL(url)), pygent.MaxTasks(5))
//
// The first word of an option's name says what it does. With… provides a part
// or sets a property; Max… and …Timeout are limits; On… sets a function that
// gets events. Options of a single part begin with its name: Task…,
// Bash…. For every limit zero means the default and [NoLimit] means none.
type Option interface{ setAgent(*options) }

// option is an option of the agent itself.
type option func(*options)

func (opt option) setAgent(o *options) { opt(o) }

// environmentIncluded is an option without effect of its own. It says that the
// options beside it include the settings of the environment.
type environmentIncluded struct{}

func (environmentIncluded) setAgent(*options) {}

// The parts of an agent that have options of their own.
const (
	partRuntime = "the runtime that the agent makes"
	partOpenAI  = "the model that the agent makes"
	partTasks   = "the manager that the agent makes"
)

// options is what [New] works from. Options that give a slice add to it; for
// everything else the later option wins.
type options struct {
	warnings    []string          // of the configuration
	given       map[string]string // the option with which the caller gave or configured a part; see contradictions
	model       Model
	wrapping    // by middleware
	modelName   string
	openai      []openai.Option
	persona     *Persona
	prompt      PromptBuilder
	project     bridge.Project
	history     *History
	historyFile string
	saved       savedOptions
	session     sessionOption
	runtime     Runtime
	prices      map[string]Price
	spends      *meter // of the agent that delegates; nil for none
	lent        bool   // the runtime stays the caller's
	runtimeOpts []RuntimeOption
	registry    *Registry
	tools       []Tool
	sources     []namedSource
	ask         AskFunc
	commands    []Command // besides the registered ones
	askAbove    *Agent    // asked where ask is nil: the agent that delegates
	gate        taskGate  // by which the agent of a task gets decisions and answers

	// parentListens reports whether the model of the agent that delegates can be asked;
	// the channel is closed when that ends. Nil for an agent without a task.
	parentListens func() (gone <-chan struct{}, listens bool)
	disabled      []string
	forbidden     []string // disabled too, by the rules of a task, and perhaps names of no tool
	banned        []string
	bannedApps    []string
	approve       ApprovalFunc
	approveAll    bool // approve decides about all calls, unless approvalFor names some
	approvalFor   []string
	inheritedFor  []string      // names in approvalFor that the parent agent has checked already
	confirmBash   *bool         // nil: the session decides
	asksManager   bool          // approve asks the manager of the agent's task
	allowed       *sessionRules // shared with the agent that delegates; nil for the agent's own
	homeFile      string        // the user's configuration file, to which hosts allowed for good are written; may be empty
	run           []RunOption
	retry         RetryPolicy
	window        int64 // of the model's context, in tokens; 0 if it is not given
	parentsWindow bool  // the window was given for the model of the agent that delegates
	compaction    CompactionPolicy
	onEvent       func(Event)
	id            string
	manager       *TaskManager // closed by the caller who gave it
	tasks         []TaskManagerOption
	task          string    // id of the task that the agent works on
	taskInfo      *TaskInfo // what it is told of it
	depth         int       // of that task; 0 for an agent without one
	rules         TaskRules // that it has to keep to
	logger        *slog.Logger
	in            io.Reader
	out           io.Writer
	resume        bool    // a session begins by resuming the last run
	first         Message // what a session begins with
}

func defaultOptions() options {
	return options{
		prompt: DefaultPrompt,
		logger: slog.New(slog.DiscardHandler),
	}
}

// apply applies options, some of which may be nil.
func apply[T any, O ~func(*T)](to *T, opts []O) {
	for _, opt := range opts {
		if opt != nil {
			opt(to)
		}
	}
}

// setAll is apply for options that are interfaces; set calls their method.
func setAll[T any, O comparable](to *T, opts []O, set func(O, *T)) {
	var none O
	for _, opt := range opts {
		if opt != none {
			set(opt, to)
		}
	}
}

// give records the option with which the caller gave or configured a part. One
// that is not set takes back what was given before.
func (o *options) give(what, option string, isSet bool) {
	if !isSet {
		delete(o.given, what)
		return
	}
	if o.given == nil {
		o.given = make(map[string]string)
	}
	o.given[what] = option
}

func (o *options) isGiven(what string) bool { return o.given[what] != "" }

// contradictions are pairs of options of which the second would silently have
// no effect: it configures a part that is made only if the first is not given.
var contradictions = [][2]string{
	{"WithModel", partOpenAI},
	{"WithHistory", "WithHistoryFile"},
	{"sessions.Keep", "WithHistory"}, {"sessions.Keep", "WithHistoryFile"},
	{"WithRuntime", partRuntime},
	{"WithTaskManager", partTasks},
}

// check refuses limits of runs that are none, and options that contradict each
// other.
func (o *options) check() error {
	_, err := newRunOptions(o.run, nil)
	return cmp.Or(err, o.contradiction(), o.checkRuntime(), checkPrices(o.prices), o.compaction.check(), checkWindow(o.window))
}

// checkRuntime refuses a runtime that is nil behind its interface.
func (o *options) checkRuntime() error {
	if o.runtime != nil && isNil(o.runtime) {
		return fmt.Errorf("option %s: the runtime is a nil %T", o.given["WithRuntime"], o.runtime)
	}
	return nil
}

// isNil reports whether an interface holds a nil pointer or function. It is not nil
// itself then, so it does not stand for the default, and its methods would panic: it
// comes from a constructor whose error was not looked at.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// contradiction returns an error that names two options which contradict each
// other. Settings of a configuration never do, because options override them.
func (o *options) contradiction() error {
	for _, pair := range contradictions {
		if o.isGiven(pair[0]) && o.isGiven(pair[1]) {
			return fmt.Errorf("options %s and %s: the second would be ignored; give one of them", o.given[pair[0]], o.given[pair[1]])
		}
	}
	return nil
}

// resolve drops those settings of a configuration, or of a parent agent, that
// the caller's own options replace, and fills in defaults for nil values.
func (o *options) resolve() {
	if o.isGiven(partOpenAI) {
		o.dropParentsWindow()
		o.model = nil
	}
	if o.isGiven("WithHistory") {
		o.historyFile = ""
	}
	if o.session.dir != "" { // from which the agent's id is derived
		o.historyFile = filepath.Join(o.session.dir, sessiondir.HistoryFile)
	}
	if o.prompt == nil {
		o.prompt = DefaultPrompt
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
}

// fromConfig makes a single option of all those that a configuration stands
// for.
func fromConfig(opts ...Option) Option {
	return option(func(o *options) {
		given := maps.Clone(o.given)
		setAll(o, opts, Option.setAgent)
		o.given = given
	})
}

// WithModel sets the model. Default, also for nil: the one of [SetDefaultModel], else
// an [openai.Model] from the environment; where that has neither a key nor an address,
// [New] returns [ErrNoModel].
func WithModel(m Model) Option {
	return option(func(o *options) {
		o.give("WithModel", "WithModel", m != nil)
		o.dropParentsWindow()
		o.model = m
	})
}

// WithOpenAI configures the model that the agent makes, as [openai.New] does.
func WithOpenAI(opts ...openai.Option) Option {
	return option(func(o *options) {
		if len(opts) > 0 {
			o.give(partOpenAI, "WithOpenAI", true)
			o.openai = append(o.openai, opts...)
		}
	})
}

// WithModelName names the model to ask for, as the provider calls it. Default:
// the model's default.
func WithModelName(name string) Option { return option(func(o *options) { o.nameModel(name) }) }

// WithPersona sets who the agent is. Default: PYGENT_PERSONA_NAME and
// PYGENT_PERSONA.
func WithPersona(p Persona) Option { return option(func(o *options) { o.persona = &p }) }

// WithPrompt sets the function that writes the system message. Default: [DefaultPrompt].
func WithPrompt(b PromptBuilder) Option { return option(func(o *options) { o.prompt = b }) }

// WithHistory continues a conversation. The history stays the caller's to
// close. Default: a new one in memory.
func WithHistory(h *History) Option {
	return option(func(o *options) {
		o.give("WithHistory", "WithHistory", h != nil)
		o.history = h
	})
}

// WithHistoryFile keeps the conversation in a file, continuing what the file
// holds. Default: PYGENT_HISTORY_FILE, else in memory only.
func WithHistoryFile(path string) Option {
	return option(func(o *options) {
		o.give("WithHistoryFile", "WithHistoryFile", path != "")
		o.historyFile = path
	})
}

// WithRegistry sets the tools from which the agent takes its copy. Default:
// the default registry.
func WithRegistry(r *Registry) Option { return option(func(o *options) { o.registry = r }) }

// WithTools adds tools to the agent's own registry.
func WithTools(tools ...Tool) Option {
	return option(func(o *options) { o.tools = append(o.tools, tools...) })
}

// WithDisabledTools hides tools from the model and refuses calls of them. A
// name that no tool has is an error of [New]; to hide a tool that is registered
// later, call [Registry.Disable].
func WithDisabledTools(names ...string) Option {
	return option(func(o *options) { o.disabled = append(o.disabled, names...) })
}

// WithBannedCommands has the bash tool refuse scripts that run one of the
// commands. "rm" bans a program, "rm -rf" the program with these flags in any
// order and combination, "git push" the program with these words among its
// arguments. The directory of a program does not matter. Scripts are parsed, so
// commands are found in lists, substitutions and functions, behind sudo, env,
// xargs, find -exec and the like, and in the arguments of eval and of a shell;
// a word that is not run does not count. A command that cannot be determined,
// because its name is in a variable for example, is refused.
//
// It protects against a model's mistakes and not against a determined model:
// script files and programs in other languages are not checked. The boundary
// for those is the container.
func WithBannedCommands(commands ...string) Option {
	return option(func(o *options) { o.banned = append(o.banned, commands...) })
}

// WithBannedApps has the bash tool refuse scripts that run one of the programs,
// or mention it in any word, as "which curl" does. Otherwise it is like
// [WithBannedCommands].
func WithBannedApps(names ...string) Option {
	return option(func(o *options) { o.bannedApps = append(o.bannedApps, names...) })
}

// WithRetry sets how model calls are repeated. Default: the zero policy.
func WithRetry(p RetryPolicy) Option { return option(func(o *options) { o.retry = p }) }

// WithID names the agent. The ids of the tasks it delegates are derived from
// its own, so an agent that resumes a run finds them again under the same id.
// Default: one derived from the path of the history's file, else a new one.
func WithID(id string) Option { return option(func(o *options) { o.id = id }) }

// WithTaskManager has the agent delegate to a manager that others use as well,
// or that outlives it. The manager stays the caller's to close. Default: one of
// the agent's own.
func WithTaskManager(m *TaskManager) Option {
	return option(func(o *options) {
		o.give("WithTaskManager", "WithTaskManager", m != nil)
		o.manager = m
	})
}

// WithLogger sets the logger, of an agent with its runtime or of a runtime.
// Default: logs are discarded.
func WithLogger(l *slog.Logger) RuntimeOption { return logger{l} }

type logger struct{ *slog.Logger }

func (l logger) setAgent(o *options)          { o.logger = l.Logger }
func (l logger) setRuntime(o *runtimeOptions) { o.logger = l.Logger }

// WithIO sets what RunInteractive reads and writes. Default: the process's
// standard input and output.
func WithIO(in io.Reader, out io.Writer) Option {
	return option(func(o *options) { o.in, o.out = in, out })
}

// RunOption adjusts one run of an agent or, given to [New], every one.
type RunOption interface {
	Option
	setRun(*runOptions)
}

type runOption func(*runOptions)

func (opt runOption) setAgent(o *options)  { o.run = append(o.run, opt) }
func (opt runOption) setRun(o *runOptions) { opt(o) }

type runOptions struct {
	Limits
	maxReplies int
	replyEnds  bool
	answerEnds bool       // a reply ends the run once it has worked
	startEnds  bool       // a start of the runtime that fails for good ends the run
	parts      []Part     // of the user\'s message, besides its text
	final      *finalTool // takes the value of a typed run; nil in any other
	resume     bool       // set by Agent.Resume
	onEvent    func(Event)
	account    *budget.Account[spending] // the budget of the task that the run belongs to, if any
	before     *Result                   // what the run did where it was carried out before; nil if it begins here
	yield      <-chan struct{}           // closed when it is to stop at its next step, to go on elsewhere; nil for never
	inbox      func() []taskMessage      // returns what was sent to the task that the run belongs to; nil for none
}

// The limits of a run that is given none. The limit of tool calls,
// toolCallsFor, grows with that of steps, so that raising the one does not lead
// to reaching the other.
const (
	defaultMaxSteps   = 20
	defaultMaxReplies = 2
)

func toolCallsFor(steps int) int {
	return 5 * min(max(steps, defaultMaxSteps), math.MaxInt/5)
}

func newRunOptions(defaults, opts []RunOption) (runOptions, error) {
	var o runOptions
	setAll(&o, defaults, RunOption.setRun)
	ofAgent := len(o.parts)
	setAll(&o, opts, RunOption.setRun)
	if err := cmp.Or(o.checkParts(ofAgent), o.Limits.check(), settings.CheckLimit("MaxReplies", o.maxReplies)); err != nil {
		return o, fmt.Errorf("option %w", err)
	}
	o.MaxSteps = limitOr(o.MaxSteps, defaultMaxSteps)
	o.MaxToolCalls = limitOr(o.MaxToolCalls, toolCallsFor(o.MaxSteps))
	o.answerEnds = o.answerEnds && !o.replyEnds && o.maxReplies == 0 && o.final == nil
	o.maxReplies = limitOr(o.maxReplies, defaultMaxReplies)
	o.MaxTokens, o.MaxCost = max(o.MaxTokens, 0), max(o.MaxCost, 0)
	o.StepTimeout, o.MaxTime = max(o.StepTimeout, 0), max(o.MaxTime, 0)
	return o, nil
}

// MaxSteps limits the steps of a run: model calls with the tool calls that
// follow. Default 20. The model is told when few are left. At this limit, and
// at that of [MaxToolCalls], it is asked once more to sum up without tools,
// unless MaxTokens, MaxCost or a time limit is reached as well. A run of one step gets
// no summary.
func MaxSteps(n int) RunOption { return runOption(func(o *runOptions) { o.MaxSteps = n }) }

// MaxToolCalls limits the tool calls of a run. Default 100, or five times
// [MaxSteps] where that is more.
func MaxToolCalls(n int) RunOption { return runOption(func(o *runOptions) { o.MaxToolCalls = n }) }

// MaxReplies sets how many replies in a row, without a tool call, end a run.
// Default 2: after the first one the model is told to go on, or to call stop.
func MaxReplies(n int) RunOption { return runOption(func(o *runOptions) { o.maxReplies = n }) }

// WithEndOnReply makes a reply without a tool call end the run, as in a chat. If work was
// asked for and the reply only announces a step, as "I'll do it now." does, the model is
// told once to go on. Without this option a run goes on until the model calls stop.
// [WithEndOnAnswer] is between the two.
func WithEndOnReply() RunOption { return runOption(func(o *runOptions) { o.replyEnds = true }) }

// WithEndOnAnswer makes a reply end the run if it is an answer, so that a program can
// rely on [StatusReplied]: once a tool has run, or where the prompt asks for words only.
// One that ends with a question the work depends on ends it with [StatusAwaitingUser]; to
// offer more is no question. If the prompt asks for work and no tool has run, or a reply
// announces a step, the model is told to act or to stop, then it has to call a tool, and a
// third reply ends the run with [StatusStuck]. A stop is refused once before any work, and
// when it leaves a question without an answer. Tasks
// and "pygent run" end so. [WithEndOnReply] and [MaxReplies] go before it.
func WithEndOnAnswer() RunOption { return runOption(func(o *runOptions) { o.answerEnds = true }) }

// WithEndOnStartFailure makes a run end with [ErrRuntimeStart] as soon as it is known
// that the runtime cannot start, also while the model is asked: no command of its answer
// could run, so nobody waits and pays for it. The next run tries again to start. Without
// it the first command returns the error, so a model that runs none never meets it; nor
// does one that is given no bash. Of runtimes, only those of this package tell.
func WithEndOnStartFailure() RunOption {
	return runOption(func(o *runOptions) { o.startEnds = true })
}

// MaxTokens limits the tokens of a run, prompts and completions together, as
// the provider reports them. Those of the tasks that it delegates count as well:
// see [TaskManager]. The call that crosses the limit is the last, and an answer that
// streams is cut off once it has surely spent what was left. Default: no limit.
func MaxTokens(n int64) RunOption { return runOption(func(o *runOptions) { o.MaxTokens = n }) }

// MaxCost limits what a run costs, with the tasks that it delegates, in the
// currency of [WithPrices]. The call that crosses the limit is the last, and an answer
// that streams is cut off as by [MaxTokens]. What has no price cannot be limited: a run
// does not start if the model that it asks has none, and ends with [StatusBudget] after an
// answer of a model that has none, or whose tokens the server does not say, or wrongly.
// For models whose provider says what an answer costs, as OpenRouter does in US
// dollars, no price is needed; a model of your own is one if it has the method
// ReportsCost() bool and that returns true. Default: no limit.
func MaxCost(amount float64) RunOption { return runOption(func(o *runOptions) { o.MaxCost = amount }) }

// StepTimeout limits a step: its model call, retries included, and its tool
// calls. The time that somebody takes to approve a call does not count. Default:
// no limit but those of commands.
func StepTimeout(d time.Duration) RunOption {
	return runOption(func(o *runOptions) { o.StepTimeout = d })
}

// MaxTime limits the run as a whole, with the time that approvals take. Default:
// no limit.
func MaxTime(d time.Duration) RunOption { return runOption(func(o *runOptions) { o.MaxTime = d }) }

// OnEvent sets a function that gets events. Given to [New], it gets every event
// of the agent, including those of the runtime between runs. Given to a run, it
// gets those of the run, in addition to the agent's function. It is called with
// one event at a time, in order. It may call the agent's methods, except for
// Close.
//
// A run waits for the function before it continues, unless the event is a piece
// of text, or comes from the runtime or a task. It no longer waits when its
// time is over. A panic of the function ends the run with StatusFailed.
func OnEvent(f func(Event)) RunOption { return onEvent(f) }

type onEvent func(Event)

func (f onEvent) setAgent(o *options)  { o.onEvent = f }
func (f onEvent) setRun(o *runOptions) { o.onEvent = f }
