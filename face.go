package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/internal/spelling"
)

// Face is a way for a person to use an agent: it shows what the agent does, and
// passes on what the person says, until the person leaves or ctx ends. It uses
// the public methods of the agent alone, and gives lines that begin with "/" to
// [Agent.RunCommand]. It does not close the agent.
type Face func(ctx context.Context, s FaceSession) error

// FaceSession is what a [Face] is given.
type FaceSession struct {
	Agent *Agent
	// In and Out are what [WithIO] set, or else the process's standard input and
	// output. What is written to Out must not contain control characters of the
	// model or of a command.
	In  io.Reader
	Out io.Writer
	// Resume says that the session begins by resuming an interrupted run: see
	// [WithResume].
	Resume bool
	// Interrupted says that the conversation ends with a run that was interrupted,
	// so that there is something to resume.
	Interrupted bool
	// KeepHosts allows hosts for good, in the user's own configuration. It is nil
	// where there is no such file, and returns the name of the file.
	KeepHosts func(hosts []string) (file string, err error)
	// Notices are what [New] has told of in an [EventNotice], before there was a face:
	// that the files of a session are back, for example. The last one names the calls
	// that resuming would make again.
	Notices []string
	// First is what the user says first: see [WithFirstMessage]. It has no content
	// if the user is waited for.
	First Message
	// Follow has a function called with each event of the agent, by one goroutine for which
	// a run waits, until end is called. before is the last event of the runtime that the
	// function does not get. end first emits what there is to say of changes of git's
	// configuration. [Agent.Subscribe] does without a run that waits.
	Follow func(func(Event)) (before *RuntimeEvent, end func())
	// Lent says that the agent's runtime outlives it: see [LendRuntime].
	Lent bool
	// Logger is that of the agent, and never nil.
	Logger *slog.Logger
}

// FaceUser decides and answers in the name of the person at a face. A field is nil
// where the person cannot be asked.
type FaceUser struct {
	Approve ApprovalFunc
	Hosts   HostApprovalFunc
	Answer  AskFunc
}

// over returns the user that is asked about what u can be asked about, and below about
// the rest.
func (u FaceUser) over(below FaceUser) FaceUser {
	if u.Approve == nil {
		u.Approve = below.Approve
	}
	if u.Hosts == nil {
		u.Hosts = below.Hosts
	}
	if u.Answer == nil {
		u.Answer = below.Answer
	}
	return u
}

// Answers has the person at the face be asked, until end is called: about calls,
// hosts and the questions of tools. Whom the agent's options name for one of them
// keeps it. On the local runtime, where commands are not contained, bash calls
// then need approval, unless an option decided that. What the person allowed for
// the session ends with it.
//
// An agent may have several faces at once, which leave in any order. The person at the
// newest one is asked, of those who can be. Bash calls need approval as long as one of
// the faces requires it.
func (s FaceSession) Answers(ctx context.Context, user FaceUser) (end func()) {
	a := s.Agent
	var confirm *bool
	if a.opts.approve == nil {
		confirm = new(!a.UseDocker() && (user.Approve != nil || a.describe(ctx).Fallback != ""))
	}
	if !a.UseDocker() {
		user.Hosts = nil
	}
	return a.deciders.enterFace(user, confirm)
}

// WithResume has [Agent.RunInteractive] begin by resuming the run that the
// history ends with, as [Agent.Resume] does. In a session, /resume does the
// same.
func WithResume(resume bool) Option { return option(func(o *options) { o.resume = resume }) }

// WithFirstMessage has [Agent.RunInteractive] begin with a message, as if the user
// had typed it: the files that its Content mentions go along, as
// [Agent.AttachMentioned] finds them. A message without content is none.
func WithFirstMessage(msg Message) Option { return option(func(o *options) { o.first = msg }) }

// The faces that an agent's methods look for.
const (
	FaceTerminal = "terminal" // of RunInteractive
	FaceWeb      = "web"      // of RunGUI
)

// ErrNoFace is returned by [Agent.RunInteractive] and [Agent.RunGUI] when no imported package
// registered a face for it.
var ErrNoFace = errors.New("no such face is registered")

var faces struct {
	sync.RWMutex
	byName map[string]Face
}

// RegisterFace makes a face available by its name, to all agents of the process.
// A package calls it when it is imported, as a database driver registers itself:
// programs that do not import the package do not contain it. [FaceTerminal] is
// the face that [Agent.RunInteractive] shows, and [FaceWeb] that of
// [Agent.RunGUI]. No method shows one of another name.
//
// A face replaces an earlier one of the same name; nil removes it. RegisterFace
// may be called at any time. A session that goes on is not affected.
func RegisterFace(name string, f Face) {
	faces.Lock()
	defer faces.Unlock()
	if f == nil {
		delete(faces.byName, name)
		return
	}
	if faces.byName == nil {
		faces.byName = map[string]Face{}
	}
	faces.byName[name] = f
}

func faceOf(name string) (Face, bool) {
	faces.RLock()
	defer faces.RUnlock()
	f, ok := faces.byName[name]
	return f, ok
}

// RunInteractive talks with the user at a terminal, until the user leaves, the
// input ends or ctx ends. It shows the [FaceTerminal] that an imported package
// registered, as package terminal does; without one the error matches [ErrNoFace]. It reads
// from standard input, and writes to standard output, or to what [WithIO] set.
//
// The session takes the terminal out of its usual mode and gives it back when
// RunInteractive returns. Signals that end a process are the program's own: one that
// dies of SIGTERM or SIGHUP leaves the terminal as it is, without echo, for which
// `stty sane` is the cure. So end ctx at them, as [os/signal.NotifyContext] does, and
// return from main after RunInteractive has.
func (a *Agent) RunInteractive(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case a.isClosed():
		return ErrAgentClosed
	}
	f, ok := faceOf(FaceTerminal)
	if !ok {
		return fmt.Errorf("talk with the user: %w: import _ \"github.com/x/pygent/terminal\", or another package that calls RegisterFace(FaceTerminal, …)", ErrNoFace)
	}
	return a.FaceSession().run(ctx, f)
}

// RunGUI shows the agent in the user's browser, until the page is closed or ctx
// ends. It shows the [FaceWeb] that an imported package registered. Without one
// the error matches [ErrNoFace].
func (a *Agent) RunGUI(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case a.isClosed():
		return ErrAgentClosed
	}
	f, ok := faceOf(FaceWeb)
	if !ok {
		return fmt.Errorf("show the agent in a browser: %w: import _ \"github.com/x/pygent/web\", or another package that calls RegisterFace(FaceWeb, …)", ErrNoFace)
	}
	return a.FaceSession().run(ctx, f)
}

// FaceSession returns what a [Face] is given, for one that shows several agents.
func (a *Agent) FaceSession() FaceSession {
	s := FaceSession{Agent: a, In: a.opts.in, Out: a.opts.out, Resume: a.opts.resume, First: a.opts.first, Lent: a.opts.lent, Logger: a.log}
	s.Interrupted = a.tools.interrupted(a.history.ActiveMessages())
	s.Notices = slices.Clone(a.startup.texts)
	if again := a.runsAgain(); again != "" && !s.Resume {
		s.Notices = append(s.Notices, again)
	}
	s.Follow = func(f func(Event)) (*RuntimeEvent, func()) {
		before, end := a.events.follow(f)
		return before, func() { emitGitChanges(a.git, a.emit); end() }
	}
	if file := a.opts.homeFile; file != "" {
		s.KeepHosts = func(hosts []string) (string, error) {
			return "~/" + filepath.Base(file), settings.AddToList(file, "container", "allowed_hosts", hosts...)
		}
	}
	if s.In == nil {
		s.In = os.Stdin
	}
	if s.Out == nil {
		s.Out = screen.Stdout()
	}
	return s
}

// run shows a face. Its panic becomes an error.
func (s FaceSession) run(ctx context.Context, f Face) error {
	_, err := safecall.Catch(func() (struct{}, error) { return struct{}{}, f(ctx, s) })
	logPanic(s.Logger, "face", err)
	return err
}

// Command is a command of an agent, for the person who talks with it: a line
// "/name arguments". It has one of Run, Script and Message.
type Command struct {
	Name    string `json:"name"`              // without the slash: 1 to 64 letters, digits, _ or -
	Usage   string `json:"usage,omitempty"`   // its arguments for /help, such as "[FILE]"; may be empty
	Summary string `json:"summary,omitempty"` // one line for /help
	Help    string `json:"help,omitempty"`    // what /help NAME adds; may be empty

	// Output says what Run writes, for who shows it.
	Output CommandOutput `json:"output,omitempty"`
	// Interactive says that Run reads the process's standard input or draws on its
	// terminal, as an editor does. A session at a terminal steps aside meanwhile: the
	// terminal is in its usual mode, nothing else is shown, questions wait, and
	// Ctrl-C ends the context of Run. On Linux it ends a read of the standard input,
	// too, with an error; elsewhere such a read takes the next line that is typed.
	Interactive bool `json:"interactive,omitempty"`

	// Run carries the command out and writes its output for the user to out. Who
	// shows that makes control characters visible.
	Run func(ctx context.Context, a *Agent, args string, out io.Writer) error `json:"-"`
	// Script makes a shell command of the arguments. It runs in the agent's runtime,
	// without a question and without a time limit. The agent does not hear of it.
	Script func(ctx context.Context, a *Agent, args string) (string, error) `json:"-"`
	// Message makes a message of the arguments. The model gets it as if the user
	// had typed it.
	Message func(ctx context.Context, a *Agent, args string) (Message, error) `json:"-"`
	// Complete returns what the last of the words may become that are typed as
	// arguments; see [Agent.CompleteCommand]. The words are divided and unquoted as a
	// shell does, and there is at least one: the last is empty where a new one begins.
	// What does not begin with it is left out of the list, which may be any list of
	// known words. One that ends with "/" is a directory. After a tab may follow what
	// the word stands for, which is shown beside it. Complete may be nil. It may be
	// called at any time, several times at once, and has 2 s.
	Complete func(ctx context.Context, a *Agent, words []string) []string `json:"-"`
}

// CommandOutput says what a command writes. Text that is none of these is shown as
// it is.
type CommandOutput string

// What a command writes.
const (
	// OutputTable is text in columns with two or more spaces between them. Of a line
	// that is too long for the terminal, the rest may be shown below its last column.
	OutputTable CommandOutput = "table"
	// OutputDiff is a diff: lines that begin with "+" or "-" were added or removed.
	OutputDiff CommandOutput = "diff"
)

// builtinCommands are commands of every agent. What they do besides is up to
// whoever runs them: see [CommandResult].
var builtinCommands = []Command{
	{Name: "compact", Summary: "summarise the conversation to free context"},
	{Name: "exit", Summary: "end the session"},
	{Name: "help", Usage: "[NAME]", Summary: "list the commands, or describe one"},
	{Name: "new", Summary: "start a new conversation; the history keeps this one"},
	{Name: "resume", Summary: "continue an interrupted run"},
}

func isBuiltinCommand(name string) bool {
	return slices.ContainsFunc(builtinCommands, func(c Command) bool { return c.Name == name })
}

// registeredCommands are those of [RegisterCommand].
var registeredCommands struct {
	sync.RWMutex
	byName map[string]Command
}

// RegisterCommand adds a command to all agents that are created afterwards. It
// replaces one that was registered under the same name, but not /compact, /exit,
// /help, /new and /resume, which every agent has. It may be called at any time.
// [WithCommands] adds a command to one agent.
func RegisterCommand(c Command) error {
	if err := c.check(); err != nil {
		return err
	}
	registeredCommands.Lock()
	defer registeredCommands.Unlock()
	if registeredCommands.byName == nil {
		registeredCommands.byName = map[string]Command{}
	}
	registeredCommands.byName[c.Name] = c
	return nil
}

// WithCommands adds commands to the agent. A name that another command of the
// agent has already, a built-in or a registered one too, is an error of [New].
func WithCommands(commands ...Command) Option {
	return option(func(o *options) { o.commands = append(o.commands, commands...) })
}

func (c Command) check() error {
	switch {
	case !toolName.MatchString(c.Name):
		return fmt.Errorf("command %q: a name has 1 to 64 letters, digits, _ or -", c.Name)
	case isBuiltinCommand(c.Name):
		return fmt.Errorf("command %s: built in, and cannot be replaced", c.Name)
	}
	switch ways := c.ways(); {
	case ways == 0:
		return fmt.Errorf("command %s: Run is nil, and so are Script and Message", c.Name)
	case ways > 1:
		return fmt.Errorf("command %s: it has %d of Run, Script and Message; give one of them", c.Name, ways)
	case c.Interactive && c.Run == nil:
		return fmt.Errorf("command %s: Interactive is for commands with Run", c.Name)
	}
	return nil
}

// ways counts the ways in which a command can be carried out.
func (c Command) ways() (n int) {
	for _, given := range []bool{c.Run != nil, c.Script != nil, c.Message != nil} {
		if given {
			n++
		}
	}
	return n
}

// commandSet has the commands of an agent that are not built in, by name. It never changes.
type commandSet map[string]Command

// commandSet returns the registered commands and those of the options.
func (o *options) commandSet() (commandSet, error) {
	registeredCommands.RLock()
	all := maps.Clone(registeredCommands.byName)
	registeredCommands.RUnlock()
	if all == nil {
		all = map[string]Command{}
	}
	registered := maps.Clone(all)
	for _, c := range o.commands {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("option WithCommands: %w", err)
		}
		if other, taken := registered[c.Name]; taken {
			return nil, fmt.Errorf("option WithCommands: command %s (%s): RegisterCommand added one of that name (%s)", c.Name, c.Summary, other.Summary)
		}
		if other, taken := all[c.Name]; taken {
			return nil, fmt.Errorf("option WithCommands: command %s (%s): there is another one of that name (%s)", c.Name, c.Summary, other.Summary)
		}
		all[c.Name] = c
	}
	return all, nil
}

// Commands returns the agent's commands, sorted by name. Those that every agent
// has, /compact, /exit, /help, /new and /resume, have neither Run, Script nor Message.
func (a *Agent) Commands() []Command { return a.commands.all() }

// all returns the commands and those that are built in, sorted by name.
func (s commandSet) all() []Command {
	all := slices.AppendSeq(slices.Clone(builtinCommands), maps.Values(s))
	slices.SortFunc(all, func(a, b Command) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// CommandResult is what is left to do after a command, for the face that ran it.
type CommandResult struct {
	// Output is what the command wrote, up to 1 MiB, unless a writer got it. It may
	// contain control characters.
	Output string `json:"output,omitempty"`
	// Bash is what came of the shell command of a [Command] with a Script; nil if
	// there was none. What a writer got while it ran may leave out pieces of its
	// output.
	Bash *BashResult `json:"bash,omitempty"`
	// Message is what to send to the model, by [Agent.Say] or as the message of a
	// run; nil for nothing.
	Message *Message `json:"message,omitempty"`
	// Resume asks to call [Agent.Resume].
	Resume bool `json:"resume,omitempty"`
	// Leave asks to end the session.
	Leave bool `json:"leave,omitempty"`
}

// maxCommandOutput bounds the output that a [CommandResult] holds, in bytes.
const maxCommandOutput = 1 << 20

// RunCommand carries out a line of the user that begins with "/", unless its first
// word has another one: that is a path, which begins a message. Every face uses
// it, so that a command is the same at a terminal and in a page. What the command
// writes goes to out as it comes or, if out is nil, into the result; it may contain
// control characters. The result says what is left for the caller to do.
//
// Errors are those of the command, an unknown name, whose error names the nearest
// one, and [ErrAgentClosed]. A panic of the command is an error, too. A command that
// goes on although ctx has ended is left behind, and what it writes then is lost.
//
// RunCommand begins no run. It may be called during one, and several times at once;
// only /compact and /new are errors during a run, as [Agent.Compact] and
// [Agent.NewConversation] are. It does not return while out is written to.
func (a *Agent) RunCommand(ctx context.Context, line string, out io.Writer) (CommandResult, error) {
	switch {
	case ctx == nil:
		return CommandResult{}, errNilContext
	case a.isClosed():
		return CommandResult{}, ErrAgentClosed
	}
	name, args, ok := slash.Split(line)
	if !ok {
		return CommandResult{}, errNoCommandLine
	}
	to := slash.NewOutput(out, maxCommandOutput)
	result, err := a.commands.run(ctx, a, name, args, to)
	result.Output = to.End()
	return result, err
}

// errNoCommandLine refuses a line that is a message.
var errNoCommandLine = errors.New(`a command begins with "/", and its name has no other`)

// run carries out a command of an agent.
func (s commandSet) run(ctx context.Context, a *Agent, name, args string, out *slash.Output) (CommandResult, error) {
	name = s.canonicalName(name)
	switch {
	case name == "help":
		return CommandResult{}, s.help(strings.TrimPrefix(args, "/"), out)
	case isBuiltinCommand(name):
		return runBuiltinCommand(ctx, a, name, args, out)
	}
	c, ok := s[name]
	if !ok {
		return CommandResult{}, slash.Unknown(name, s.nearestName(name))
	}
	result, err := safecall.Outlive(ctx, func() (CommandResult, error) { return c.run(ctx, a, args, out) })
	a.logPanic("command /"+name, err)
	if err != nil {
		err = fmt.Errorf("/%s: %w", name, err)
	}
	return result, err
}

// canonicalName returns the name of a command as it is listed: /quit is /exit, unless it
// was registered as another one.
func (s commandSet) canonicalName(name string) string {
	if _, other := s[name]; name == "quit" && !other {
		return "exit"
	}
	return name
}

// nearestName returns the name of the command that a misspelt one may mean.
func (s commandSet) nearestName(name string) string {
	names := s.names("")
	if other := otherNames[strings.ToLower(name)]; slices.Contains(names, other) {
		return other
	}
	return spelling.Nearest(name, names)
}

// otherNames are what commands are called elsewhere.
var otherNames = map[string]string{
	"clear": "new", "reset": "new",
	"q": "exit", "bye": "exit",
	"cost": "usage", "tokens": "usage", "context": "usage",
}

// run carries out a command that is not built in.
func (c Command) run(ctx context.Context, a *Agent, args string, out *slash.Output) (CommandResult, error) {
	if c.Run != nil {
		return CommandResult{}, c.Run(ctx, a, args, out)
	}
	if c.Script != nil {
		return c.runScript(ctx, a, args, out)
	}
	msg, err := c.Message(ctx, a, args)
	if err != nil {
		return CommandResult{}, err
	}
	if msg.Role == "" {
		msg.Role = chat.RoleUser
	}
	if err := sayable(msg); err != nil {
		return CommandResult{}, err
	}
	return CommandResult{Message: &msg}, nil
}

// runBuiltinCommand carries out one that every agent has, but for /help.
func runBuiltinCommand(ctx context.Context, a *Agent, name, args string, out io.Writer) (CommandResult, error) {
	switch {
	case args != "":
		return CommandResult{}, fmt.Errorf("/%s: it takes no arguments", name)
	case name == "compact":
		if _, err := a.Compact(ctx); err != nil { // else the event tells
			return CommandResult{}, fmt.Errorf("/compact: %w", err)
		}
	case name == "new":
		if err := a.NewConversation(ctx); err != nil {
			return CommandResult{}, fmt.Errorf("/new: %w", err)
		}
	case name == "resume":
		if again := a.runsAgain(); again != "" {
			fmt.Fprintln(out, again)
		}
	}
	return CommandResult{Resume: name == "resume", Leave: name == "exit"}, nil
}

// help explains a command or, without a name, lists all of them.
func (s commandSet) help(name string, out io.Writer) error {
	var entries []slash.Entry
	for _, c := range s.all() {
		entries = append(entries, slash.Entry{Name: c.Name, Usage: c.Usage, Summary: c.Summary, Help: c.Help})
	}
	name = s.canonicalName(name)
	if name != "" && !slices.ContainsFunc(entries, func(e slash.Entry) bool { return e.Name == name }) {
		return slash.Unknown(name, s.nearestName(name))
	}
	return slash.Help(entries, name, out)
}

// Completion is a way to go on with a line that is being typed.
type Completion struct {
	Line    string `json:"line"`              // the whole line then
	Word    string `json:"word"`              // the command's name or the argument that ends it, without quotes
	Summary string `json:"summary,omitempty"` // what the word stands for; may have control characters
}

// Bounds of completions.
const (
	maxCompletions = 1000
	completeWithin = 2 * time.Second
)

// CompleteCommand returns how a line that begins with "/", and that a person has
// typed up to its end, can go on: with the name of a command, or with an argument
// that [Command].Complete of the command offers. There are at most 1,000, in the
// order in which they are to be shown, and none if nothing is known.
//
// Names come at once. For arguments CompleteCommand waits 2 s; a Complete that takes
// longer, or that panics, is an error. Any number of calls may be made at the same
// time.
func (a *Agent) CompleteCommand(ctx context.Context, line string) ([]Completion, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case a.isClosed():
		return nil, ErrAgentClosed
	}
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "/")
	if !ok {
		return nil, errors.New(`a command begins with "/"`)
	}
	at := strings.IndexFunc(rest, unicode.IsSpace)
	if at < 0 {
		return a.commands.completeName(rest), nil
	}
	words, from := slash.Typed(rest[at:])
	all, err := a.commands.completeArgument(ctx, a, rest[:at], words)
	if err != nil {
		return nil, fmt.Errorf("complete /%s: %w", rest[:at], err)
	}
	typed, before := words[len(words)-1], line[:len(line)-len(rest)+at+from]
	var list []Completion
	for _, word := range all {
		word, summary, _ := strings.Cut(word, "\t")
		if strings.HasPrefix(word, typed) && len(list) < maxCompletions {
			list = append(list, Completion{Line: before + argumentLine(word), Word: word, Summary: summary})
		}
	}
	return list, nil
}

// completeName returns the commands whose names begin with a text.
func (s commandSet) completeName(typed string) (list []Completion) {
	for _, c := range s.all() {
		if !strings.HasPrefix(c.Name, typed) {
			continue
		}
		line := "/" + c.Name
		if c.Usage != "" || c.Complete != nil || c.Name == "help" {
			line += " "
		}
		list = append(list, Completion{Line: line, Word: c.Name, Summary: c.Summary})
	}
	return list
}

// completeArgument returns what a command offers for the last of its arguments.
func (s commandSet) completeArgument(ctx context.Context, a *Agent, name string, words []string) ([]string, error) {
	c := s[name]
	switch {
	case name == "help" && len(words) == 1:
		if strings.HasPrefix(words[0], "/") {
			return s.names("/"), nil
		}
		return s.names(""), nil
	case c.Complete == nil:
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	list, err := safecall.Outlive(ctx, func() ([]string, error) { return c.Complete(ctx, a, slices.Clone(words)), nil })
	a.logPanic("completion of /"+name, err)
	return list, err
}

// names returns the names of all commands, each after a prefix.
func (s commandSet) names(prefix string) (names []string) {
	for _, c := range s.all() {
		names = append(names, prefix+c.Name)
	}
	return names
}

// argumentLine is a word as it is written in a line, with what follows it. A
// directory is not finished: what is in it may follow.
func argumentLine(word string) string {
	quoted := slash.Quote(word)
	if !strings.HasSuffix(word, "/") {
		return quoted + " "
	}
	return strings.TrimSuffix(quoted, `"`)
}

// runScript carries out a command with a Script. What it prints goes to out while
// it runs or, if that only keeps it, whole at the end. A status other than zero is
// an error.
func (c Command) runScript(ctx context.Context, a *Agent, args string, out *slash.Output) (CommandResult, error) {
	script, err := c.Script(ctx, a, args)
	if err != nil {
		return CommandResult{}, err
	}
	shown := slash.NewScript(out)
	opts := []BashOption{BashTimeout(NoLimit)}
	if out.Live() {
		opts = append(opts, BashOutput(func(c OutputChunk) { shown.Add(c.Skipped, c.Text) }))
	}
	r, err := a.runtime.Bash(ctx, script, opts...)
	if err != nil {
		return CommandResult{Bash: &r}, err
	}
	shown.End(r.Output, r.FullPath)
	if r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d after %s", r.ExitCode, r.Duration.Round(time.Millisecond))
	}
	return CommandResult{Bash: &r}, err
}
