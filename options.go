package pygent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"time"

	"github.com/x/pygent/internal/budget"
)

// Option configures an [Agent]. What no option sets comes from the
// environment, as [LoadConfig] describes, and then from the defaults. Of two
// options for the same thing the later one holds; two that contradict each
// other, such as [WithRuntime] and [WithImage], are an error of [New].
//
// A nil option, here and wherever options are taken, is left out. An option
// whose value is nil restores the default.
//
// The options of the parts that an agent makes are options of the agent too: a
// [RuntimeOption] configures its runtime, a [RunOption] is where each of its runs
// starts from, an [OpenAIOption] configures its model, and a [TaskManagerOption]
// the manager of its tasks:
//
//	pygent.New(pygent.WithImage("golang:1.26"), pygent.MaxSteps(50), pygent.OpenAIBaseURL(url), pygent.MaxTasks(5))
//
// What an option begins with says what it does. With… gives something, or says
// how it is; Max… and …Timeout are limits; On… is a function that hears; and what
// only one part knows begins with the part: OpenAI…, Task…, Bash…. Of every limit
// zero is the default and [NoLimit] is none.
type Option interface{ setAgent(*options) }

// option is an option of the agent itself.
type option func(*options)

func (opt option) setAgent(o *options) { opt(o) }

// The parts of an agent whose options are among its own.
const (
	partRuntime = "the runtime that the agent makes"
	partOpenAI  = "the model that the agent makes"
	partTasks   = "the manager that the agent makes"
)

// options is what [New] works from. Slices add up, everything else is
// overwritten by the later option.
type options struct {
	configured   bool              // a Config was given, so the environment has been read
	warnings     []string          // of the configuration
	given        map[string]string // the option by which the caller gave a thing or configured a part; see contradictions
	model        Model
	modelName    string
	openai       []OpenAIOption
	persona      *Persona
	prompt       PromptBuilder
	instructions bool
	history      *History
	historyFile  string
	runtime      Runtime
	runtimeOpts  []RuntimeOption
	registry     *Registry
	tools        []Tool
	disabled     []string
	banned       []string
	bannedApps   []string
	approve      ApprovalFunc
	approveAll   bool // somebody was given to decide: about all calls, unless approvalFor says which
	approvalFor  []string
	inheritedFor []string // those of approvalFor that were checked where they were given
	confirmBash  *bool    // nil: as the session sees fit
	approveHosts HostApprovalFunc
	homeFile     string // the user's configuration, in which hosts that are always allowed are kept; may be empty
	run          []RunOption
	retry        RetryPolicy
	onEvent      func(Event)
	id           string
	manager      *TaskManager // whoever gave it closes it
	tasks        []TaskManagerOption
	task         string // the id of the task the agent works on
	depth        int    // of that task; 0 for an agent of its own
	logger       *slog.Logger
	in           io.Reader
	out          io.Writer
	resume       bool // a session begins by resuming
}

func defaultOptions() options {
	return options{
		prompt:       DefaultPrompt,
		instructions: true,
		logger:       slog.New(slog.DiscardHandler),
	}
}

// apply applies options, of which some may be nil.
func apply[T any, O ~func(*T)](to *T, opts []O) {
	for _, opt := range opts {
		if opt != nil {
			opt(to)
		}
	}
}

// setAll is apply for options that are interfaces, by the method that sets them.
func setAll[T any, O comparable](to *T, opts []O, set func(O, *T)) {
	var none O
	for _, opt := range opts {
		if opt != none {
			set(opt, to)
		}
	}
}

// give notes the option by which the caller gave a thing, unless it is empty, or
// configured a part.
func (o *options) give(what, option string, isSet bool) {
	if !isSet {
		return
	}
	o.given = maps.Clone(o.given)
	if o.given == nil {
		o.given = make(map[string]string)
	}
	o.given[what] = option
}

func (o *options) isGiven(what string) bool { return o.given[what] != "" }

// contradictions are options of which the second would be ignored without a
// word: it configures what is made only where the first is not given.
var contradictions = [][2]string{
	{"WithModel", partOpenAI},
	{"WithHistory", "WithHistoryFile"},
	{"WithRuntime", partRuntime},
	{"WithTaskManager", partTasks},
}

// contradiction returns an error that names two options that do not go together.
// What a configuration says is no contradiction: options go before it.
func (o *options) contradiction() error {
	for _, pair := range contradictions {
		if o.isGiven(pair[0]) && o.isGiven(pair[1]) {
			return fmt.Errorf("options %s and %s: the second would be ignored; give one of them", o.given[pair[0]], o.given[pair[1]])
		}
	}
	return nil
}

// settle drops what a configuration, or a parent agent, says of things for which
// the caller has options of their own, and puts defaults where there is nil.
func (o *options) settle() {
	if o.isGiven(partOpenAI) {
		o.model = nil
	}
	if o.isGiven("WithHistory") {
		o.historyFile = ""
	}
	if o.prompt == nil {
		o.prompt = DefaultPrompt
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
}

// fromConfig makes one option of those that a configuration stands for.
func fromConfig(opts ...Option) Option {
	return option(func(o *options) {
		given := o.given
		setAll(o, opts, Option.setAgent)
		o.given = given
	})
}

// WithModel sets the model. Default: the one of [SetDefaultModel], else an
// [OpenAIModel] from the environment.
func WithModel(m Model) Option {
	return option(func(o *options) {
		o.give("WithModel", "WithModel", m != nil)
		o.model = m
	})
}

// WithModelName names the model to ask for, as the provider calls it. Default:
// the model's own default.
func WithModelName(name string) Option { return option(func(o *options) { o.modelName = name }) }

// WithPersona sets who the agent is. Default: PYGENT_PERSONA_NAME and
// PYGENT_PERSONA.
func WithPersona(p Persona) Option { return option(func(o *options) { o.persona = &p }) }

// WithPrompt sets the function that writes the system message. Default: [DefaultPrompt].
func WithPrompt(b PromptBuilder) Option { return option(func(o *options) { o.prompt = b }) }

// WithInstructions says whether AGENTS.md of the workspace's root is added to
// the system message. Default: true.
func WithInstructions(on bool) Option { return option(func(o *options) { o.instructions = on }) }

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

// WithRuntime sets where commands run. The runtime becomes the agent's: Close
// cleans it up. Default: one made by [NewRuntime].
func WithRuntime(rt Runtime) Option {
	return option(func(o *options) {
		o.give("WithRuntime", "WithRuntime", rt != nil)
		o.runtime = rt
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
// name that is no tool's is an error of [New]; to hide a tool that is
// registered later, call [Registry.Disable].
func WithDisabledTools(names ...string) Option {
	return option(func(o *options) { o.disabled = append(o.disabled, names...) })
}

// WithBannedCommands has the bash tool refuse scripts that run one of the
// commands: "rm" bans a program, "rm -rf" the program with these flags, in any
// order and combination, "git push" with these words among its arguments. The
// directory of a program does not count. Scripts are parsed, so the command is
// seen in lists, substitutions and functions, behind sudo, env, xargs, find
// -exec and their like, and in what is given to eval or to a shell; a mere word
// is none. What cannot be decided, a command whose name is in a variable say,
// is refused.
//
// It keeps a model from mistakes and is no boundary against a determined one:
// script files and programs of other languages are not looked into. The
// boundary is the container.
func WithBannedCommands(commands ...string) Option {
	return option(func(o *options) { o.banned = append(o.banned, commands...) })
}

// WithBannedApps has the bash tool refuse scripts that run one of the programs,
// or name it in any word, as "which curl" does. Otherwise it is like
// [WithBannedCommands].
func WithBannedApps(names ...string) Option {
	return option(func(o *options) { o.bannedApps = append(o.bannedApps, names...) })
}

// ApprovalFunc decides whether a tool call may run. An error denies it. It must
// honour ctx. It may be called by two goroutines at once: for the agent itself,
// and for one of its tasks. The time it takes does not count against a
// [StepTimeout], the agent's or the task's, but against [MaxTime].
type ApprovalFunc func(ctx context.Context, call ToolCall) (Decision, error)

// Decision is the answer of an [ApprovalFunc]. The zero value denies.
type Decision struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason,omitempty"` // told to the model when the call is denied
}

// WithApproval sets who decides about calls: about every call of a tool that is
// not ReadOnly, unless [WithApprovalFor] says of which tools. [WithConfirmBash]
// decides for bash. The rules hold for the agent's tasks as well. Without
// WithApproval, calls that need approval are denied, which those of tools with
// NeedsApproval do, and those that WithApprovalFor and WithConfirmBash name.
func WithApproval(f ApprovalFunc) Option {
	return option(func(o *options) { o.approve, o.approveAll = f, f != nil })
}

// WithApprovalFor makes calls of exactly the named tools need approval, besides
// those whose [Tool] says so. "*" stands for every tool, those that only read
// included. A name that is no tool's is an error of [New].
func WithApprovalFor(tools ...string) Option {
	return option(func(o *options) { o.approvalFor = append(o.approvalFor, tools...) })
}

// WithConfirmBash says whether bash calls need approval, which a terminal
// session asks the user for. Outside of a container, where writing a file is as
// good as running a command, true holds for write_file, edit_file and
// collect_file as well. Default: as [WithApproval] and [WithApprovalFor] say;
// without them, in terminal sessions on the local runtime only.
//
// Whatever is said, those three tools need approval on the local runtime where
// they write below a .git directory of a workspace that is kept: git runs
// programs that are named there.
func WithConfirmBash(on bool) Option { return option(func(o *options) { o.confirmBash = &on }) }

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
	resume     bool // see Agent.Resume
	onEvent    func(Event)
	account    *budget.Account[Usage] // of a task, when the run is that of one
}

// The limits of a run for which none was given. toolCallsFor grows with the
// steps, so that who raises the one does not run into the other.
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
	setAll(&o, opts, RunOption.setRun)
	if err := cmp.Or(o.Limits.check(), checkLimit("MaxReplies", o.maxReplies)); err != nil {
		return o, fmt.Errorf("option %w", err)
	}
	o.MaxSteps = limitOr(o.MaxSteps, defaultMaxSteps)
	o.MaxToolCalls = limitOr(o.MaxToolCalls, toolCallsFor(o.MaxSteps))
	o.maxReplies = limitOr(o.maxReplies, defaultMaxReplies)
	o.MaxTokens, o.StepTimeout, o.MaxTime = max(o.MaxTokens, 0), max(o.StepTimeout, 0), max(o.MaxTime, 0)
	return o, nil
}

// MaxSteps limits the steps of a run: model calls with the tool calls that
// follow. Default 20. The model is told when few are left. At the limit, and at
// that of [MaxToolCalls], it is asked once more, to sum up without tools, unless
// MaxTokens or a time limit is reached. A run of one step is not summed up.
func MaxSteps(n int) RunOption { return runOption(func(o *runOptions) { o.MaxSteps = n }) }

// MaxToolCalls limits the tool calls of a run. Default 100, or five times
// [MaxSteps] where that is more.
func MaxToolCalls(n int) RunOption { return runOption(func(o *runOptions) { o.MaxToolCalls = n }) }

// MaxReplies sets how many replies in a row, without a tool call, end a run.
// Default 2: after the first one the model is told to go on, or to call stop.
func MaxReplies(n int) RunOption { return runOption(func(o *runOptions) { o.maxReplies = n }) }

// WithEndOnReply makes a reply without a tool call end the run, as in a chat.
func WithEndOnReply() RunOption { return runOption(func(o *runOptions) { o.replyEnds = true }) }

// MaxTokens limits the tokens of a run, prompts and completions together, as
// the provider reports them. Those of the tasks that it delegates count as well:
// see [TaskManager]. The call that crosses the limit is the last.
// Default: no limit.
func MaxTokens(n int64) RunOption { return runOption(func(o *runOptions) { o.MaxTokens = n }) }

// StepTimeout limits a step: its model call, retries included, and its tool
// calls. The time that somebody takes to approve a call does not count. Default:
// no limit but those of commands.
func StepTimeout(d time.Duration) RunOption {
	return runOption(func(o *runOptions) { o.StepTimeout = d })
}

// MaxTime limits the run as a whole, with the time that approvals take. Default:
// no limit.
func MaxTime(d time.Duration) RunOption { return runOption(func(o *runOptions) { o.MaxTime = d }) }

// OnEvent sets a function that sees events: given to [New] every event of the
// agent, those of the runtime between runs included, and given to a run those of
// the run, besides. It is called with one event at a time, in their order. It may
// call the agent, except for Close.
//
// A run waits for the function before it goes on, unless the event is a piece of
// text, or comes from the runtime or a task. When the run's time is over it no
// longer waits. A panic of the function ends the run with StatusFailed.
func OnEvent(f func(Event)) RunOption { return onEvent(f) }

type onEvent func(Event)

func (f onEvent) setAgent(o *options)  { o.onEvent = f }
func (f onEvent) setRun(o *runOptions) { o.onEvent = f }

// errClosing is the cause with which a run ends when its agent is closed.
var errClosing = fmt.Errorf("the run was cancelled: %w", ErrAgentClosed)
