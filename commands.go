package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/internal/spelling"
)

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
	{Name: "compact", Summary: "make room: let a summary take the place of what was said so far"},
	{Name: "exit", Summary: "end the session"},
	{Name: "help", Usage: "[NAME]", Summary: "list the commands, or tell more of one"},
	{Name: "new", Summary: "begin a new conversation; the history keeps this one"},
	{Name: "resume", Summary: "go on with a run that was interrupted"},
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
