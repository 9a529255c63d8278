// Package cli is the command pygent. It is a thin layer over package pygent: flags
// become options, and a session, a page or a run does the rest.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/sirupsen/logrus"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/lines"
)

// The exit codes of pygent; exitCodes says what they mean.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitAwaiting = 3
	exitLimit    = 4
	exitStuck    = 5
	exitCancel   = 130 // 128 and the number of the signal
)

// ExitCode is an exit code of pygent, and what it means.
type ExitCode struct {
	Code    int
	Meaning string
}

// exitCodes are those of pygent run, for its help and the documentation.
var exitCodes = []ExitCode{
	{exitOK, "The work is done, and the answer is written."},
	{exitFailed, "The model failed, the conversation does not fit its context window, or the answer could not be written."},
	{exitUsage, "Wrong usage or setup, or the container cannot start."},
	{exitAwaiting, "The model asks a question that the work depends on."},
	{exitLimit, "A limit was reached: steps, tool calls, time, tokens or cost."},
	{exitStuck, "No progress: the model repeats itself, keeps failing, answers nothing, or describes work without doing it."},
	{exitCancel, "Interrupted by Ctrl-C."},
	{143, "Ended by SIGTERM."},
	{129, "Ended by SIGHUP."},
}

const description = "pygent: a coding agent whose commands run in an isolated container."

type cli struct {
	settings

	Stamp      kong.VersionFlag `name:"version" help:"Print the version in one line." hidden:""`
	Session    sessionCmd       `cmd:"" default:"withargs" help:"Talk with the agent; \"session\" can be left out."`
	UI         uiCmd            `cmd:"" name:"ui" help:"Open a session in your browser."`
	Run        runCmd           `cmd:"" help:"Work on PROMPT until it is done, without questions."`
	Demo       demoCmd          `cmd:"" help:"Watch a scripted session: no key, no network."`
	Sessions   sessionsCmd      `cmd:"" help:"List, show, export or remove stored sessions."`
	Config     configCmd        `cmd:"" help:"Show all settings and where each is set."`
	Doctor     doctorCmd        `cmd:"" help:"Check what a session needs, and say what to do."`
	Prune      pruneCmd         `cmd:"" help:"Find and remove what a crash left behind."`
	Startup    scriptCmd        `cmd:"" name:"script" help:"Test a start-up script."`
	Completion completionCmd    `cmd:"" help:"Print a shell completion script (bash, zsh, fish)."`
	Complete   completeCmd      `cmd:"" name:"complete-words" hidden:"" passthrough:""`
	Version    versionCmd       `cmd:"" help:"Print the version, and what a bug report needs."`
	Help       helpCmd          `cmd:"" help:"Show help on a topic."`
}

// Main runs the command with arguments and ends the process.
func Main(args ...string) {
	pygent.HardenProcess() // the environment has the user's keys
	// If the reader of the output goes away, a write fails and is reported, but
	// the process is not killed before the clean-up. Commands do not inherit this.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(args))
}

// run is Main with an exit code.
func run(args []string) (code int) {
	logs := newLibraryLog()
	log.SetOutput(logs)
	logrus.SetOutput(logs)
	out := newOutput(screen.Answers(), nil)
	defer func() {
		if p := recover(); p != nil {
			code = report(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), out)
		}
	}()
	var c cli
	parser, err := newParser(&c,
		kong.Help(printHelp),
		kong.Writers(out, screen.Stderr()),
		kong.Exit(func(code int) { os.Exit(report(&exitError{code: code}, out)) }), // after --help
	)
	if err != nil {
		return report(&exitError{exitUsage, err}, out)
	}
	parsed, err := parser.Parse(args)
	if out.lost() != nil { // the help could not be written
		return report(nil, out)
	}
	if err != nil {
		return report(&exitError{exitUsage, misunderstood(err)}, out)
	}
	ctx, stop := untilSignal(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(parsed, logs)
	err = parsed.Run(&c.settings, out)
	return exitBySignal(ctx, func() int { return report(err, out) })
}

// newParser returns the parser of the command's arguments.
func newParser(c *cli, opts ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(opts,
		kong.Name("pygent"),
		kong.Description(description),
		kong.Vars{"version": "pygent " + version()})...)
}

// misunderstood adds what to do to an error of the parser about the arguments, and
// puts those that talk of tokens in words for people.
func misunderstood(err error) error {
	text := err.Error()
	flag, _, noValue := strings.Cut(text, ": expected ")
	command := commandOf(err)
	word, unexpected := strings.CutPrefix(text, "unexpected argument ")
	switch {
	case unexpected && command != nil && len(command.Children) > 0:
		word, _, _ = strings.Cut(word, ",") // the parser suggests a name only if there is no default command
		return noSuch("pygent "+topicOf(command)+" has no command "+word, word, namesOf(command))
	case unexpected:
		return fmt.Errorf("%w; \"pygent help\" lists the commands", err)
	case text == `expected "<shell>"`:
		return errors.New("which shell? Run \"pygent completion bash\" (or zsh, or fish)")
	case strings.HasPrefix(text, "expected ") && command != nil && len(command.Children) > 0:
		return fmt.Errorf("something is missing: pygent %s %s; see \"pygent help %s\"", topicOf(command), strings.Join(namesOf(command), " or "), topicOf(command))
	case strings.HasPrefix(text, `expected "<`) && command != nil:
		return fmt.Errorf("something is missing: %s; see \"pygent help %s\"", synopsis(command), topicOf(command))
	case noValue && strings.Contains(text, "EOL"):
		return needsValue(flag)
	case noValue && strings.Contains(text, "; perhaps try "): // which the parser quotes for no shell
		_, value, _ := strings.Cut(text, "got \"")
		value, _, _ = strings.Cut(value, "\" (")
		return fmt.Errorf("%s: the value %q starts with a dash; write %s=%s", flag, value, flag, value)
	}
	if flag, _, found := strings.Cut(text, ": missing value"); found { // of a flag that may be repeated
		return needsValue(flag)
	}
	if arg, given := oneOf(command, text); arg != nil {
		return noSuch("there is no "+arg.Name+" "+given, given, strings.Split(arg.Enum, ","))
	}
	if command != nil && strings.HasPrefix(text, "<") { // an argument
		return fmt.Errorf("%w; see \"pygent help %s\"", err, topicOf(command))
	}
	if flag, _, _ := strings.Cut(text, ","); flag == "unknown flag -v" { // the parser suggests short flags
		return errors.New("unknown flag -v. Did you mean --version?")
	}
	if unknown, like, found := strings.Cut(text, ", did you mean "); found {
		return fmt.Errorf("%s. Did you mean %s \"pygent help flags\" lists the flags", unknown, like)
	}
	return fmt.Errorf("%w; \"pygent help flags\" lists the flags", err)
}

// commandOf returns the command that the arguments name for which the parser returned
// an error, or nil if they name none.
func commandOf(err error) *kong.Node {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return nil
	}
	var named *kong.Node
	for _, at := range parse.Context.Path {
		if c := at.Command; c != nil && (named == nil || c != named.DefaultCmd) && c != parse.Context.Model.DefaultCmd {
			named = c
		}
	}
	return named
}

// noSuch says that a word is none of those that exist, which it lists after the one that
// was probably meant.
func noSuch(fault, word string, names []string) error {
	hint := "; choose one of: "
	if like := spelling.Nearest(word, names); like != "" {
		hint = ". Did you mean " + like + "? Choose one of: "
	}
	return errors.New(fault + hint + strings.Join(names, ", "))
}

// oneOf returns the argument of a command that has one of a few values, and what was
// given instead, if that is what the parser's error says.
func oneOf(command *kong.Node, text string) (arg *kong.Positional, given string) {
	name, rest, found := strings.Cut(text, " must be one of ")
	if command == nil || !found {
		return nil, ""
	}
	for _, arg := range command.Positional {
		if arg.Summary() == name {
			_, given, _ = strings.Cut(rest, " but got ")
			return arg, strings.Trim(given, `"`)
		}
	}
	return nil, ""
}

func needsValue(flag string) error {
	return fmt.Errorf("%s needs a value; \"pygent help flags\" lists the flags", flag)
}

// interruptible returns a context that Ctrl-C ends. A second Ctrl-C ends the
// process at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	context.AfterFunc(ctx, func() { time.AfterFunc(onePress, stop) })
	return ctx, stop
}

// unlessInterrupted returns what a set-up under ctx has returned, unless a signal has
// ended it: the agent is closed then. What an error tells besides stays.
func unlessInterrupted(ctx context.Context, agent *pygent.Agent, err error) (*pygent.Agent, error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return agent, err
	}
	switch rest := withoutInterrupt(err); {
	case rest == nil:
		err = interrupted(ctx)
	case errors.Is(err, context.Canceled):
		err = errors.Join(interrupted(ctx), rest)
	}
	if agent != nil {
		err = errors.Join(err, agent.Close())
	}
	return nil, err
}

// withoutInterrupt leaves out of an error what was only interrupted. Joined with that may
// be what a clean-up has left.
func withoutInterrupt(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(several.Unwrap()...).Error() {
		var rest []error
		for _, one := range several.Unwrap() {
			rest = append(rest, withoutInterrupt(one))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// interrupted is the error of a set-up that a signal has ended.
func interrupted(ctx context.Context) error {
	err := errors.New("interrupted")
	if isSignalled(ctx) {
		err = context.Cause(ctx)
	}
	return &exitError{exitCancel, err}
}

// exitError is an error with an exit code of its own. If err is nil, there is
// nothing left to report, and only the code is set.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// asUsage is an error of the set-up, unless it has an exit code of its own.
func asUsage(err error) error {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return err
	}
	return &exitError{exitUsage, err}
}

// report prints an error and returns the exit code for it. Output that could not
// be written is always a failure.
func report(err error, out *output) int {
	code := exitOK
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case err != nil:
		code = exitFailed
	}
	if err != nil && (exit == nil || exit.err != nil) {
		complain(withHint(err))
	}
	if lost := out.lost(); lost != nil {
		complain(lost)
		code = exitFailed
	}
	return code
}

// sessionCmd has an interactive session.
type sessionCmd struct {
	Message []string `arg:"" optional:"" help:"The first message. Piped input is added to it."`
	Attach  []string `help:"Attach a file to the first message: text, a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 recording." placeholder:"FILE" sep:"none"`
	goesOn
}

// Help says when the exit code is another one than 0.
func (sessionCmd) Help() string {
	return `Without a terminal, the session reads lines. It continues after an error, and
ends with the exit code that "pygent run" has for the first turn that did not
end well, with 1 after a command that failed, or with 3 if the last question was
not answered. At a terminal with TERM=dumb, only the last turn counts. At any
other terminal, the session ends with 0.`
}

// Run talks with the user until the session ends.
func (c sessionCmd) Run(ctx context.Context, s *settings, parsed *kong.Context, logs *libraryLog) error {
	err := c.check(parsed)
	var kept keeping
	cfg, opts, optsErr := s.options(ctx, func(cfg *pygent.Config) (err error) {
		unset := hasNoModel(*cfg)
		if err = c.checkResumable(*cfg, c.Message); err == nil {
			kept, err = c.choose(ctx, cfg, s, c.Message)
		}
		if err == nil && unset {
			err = offerModel(ctx, cfg)
		}
		if err == nil {
			s.askRepository(ctx, cfg)
		}
		return err
	})
	err = cmp.Or(optsErr, err)
	parts, attachErr := attached(c.Attach)
	if err = cmp.Or(err, attachErr); err != nil {
		return &exitError{exitUsage, err}
	}
	first, err := c.first(ctx, parts)
	if err == nil {
		opts, err = s.goOn(ctx, cfg, opts, false)
	}
	if err != nil {
		return asUsage(err)
	}
	var over atomic.Bool // whether the session has ended; until then it shows its events itself
	show := lines.EventPrinter(screen.Stderr())
	opts = append(opts, first, pygent.WithResume(c.goesOnWithFile(cfg)), pygent.OnEvent(func(e pygent.Event) {
		if over.Load() && (e.Type == pygent.EventWarning || e.Type == pygent.EventNotice) {
			show(e)
		}
	}))
	made, company := newWorkspace(cfg), kept.company(cfg)
	agent, err := kept.newAgent(tellingOfEngine(ctx), sessionCommands(), opts)
	if err != nil {
		return asUsage(s.nameOmitted(cfg, err))
	}
	defer kept.prune(ctx, cfg.SessionLimits)()
	if len(parts) > 0 && len(c.Message) == 0 {
		_, err = agent.Say(chat.UserMessage("", parts...)) // the first run hears it before the first message
	}
	if err == nil {
		s.scripts.tell()
		tellIf(made)
		tellIf(company())
		tellUnasked(ctx, cfg, agent)
		release := logs.hold()
		inside, failed := lines.WithFailure(ctx)
		if err = agent.RunInteractive(inside); err == nil && ctx.Err() == nil {
			err = exitOf(failed())
		}
		release()
	}
	over.Store(true)
	tellCost(cfg, agent)
	kept.tell(agent)
	if ctx.Err() != nil { // whoever leaves by a signal is not asked about the files
		tellFiles(ctx, agent)
	}
	err = join(err, cleanUp(agent))
	if err == nil && ctx.Err() != nil {
		err = &exitError{exitCancel, context.Cause(ctx)}
	}
	return err
}

// exitOf returns the exit code of a run for what failed in a session, which has shown it.
func exitOf(failed *lines.Failure) error {
	switch {
	case failed == nil:
		return nil
	case failed.Result == nil:
		return &exitError{code: exitFailed}
	}
	return &exitError{code: codeOf(failed.Result, failed.Err)}
}

// check refuses a message that is a misspelt command.
func (c sessionCmd) check(parsed *kong.Context) error {
	if len(c.Message) == 0 {
		return nil
	}
	names := namesOf(parsed.Model.Node)
	word := c.Message[0]
	like := spelling.Nearest(word, names)
	if len(like) != len(word) { // hello is a greeting, and not help
		like = spelling.Within(word, names, 1)
	}
	if len(word) <= 2 && !spelling.Swapped(word, like) { // hi is one, too, and not ui
		like = ""
	}
	if like != "" && !slices.Contains(parsed.Args, "session") {
		said, meant := c.commands(like)
		return fmt.Errorf("unknown command %s. Did you mean `%s`? To send it to the agent as a message: %s", word, meant, said)
	}
	return nil
}

// commands are the command lines that send the message, and that run a command with its
// other words. A long message is not repeated.
func (c sessionCmd) commands(name string) (said, meant string) {
	words := ""
	for _, word := range c.Message[1:] {
		words += " " + escape.Word(word)
	}
	if len(words) > 100 {
		words = " ..."
	}
	return "pygent session " + escape.Word(c.Message[0]) + words, "pygent " + name + words
}

// first returns the option for the first message.
func (c sessionCmd) first(ctx context.Context, parts []pygent.Part) (pygent.Option, error) {
	if len(c.Message) == 0 {
		return pygent.WithFirstMessage(pygent.Message{}), nil
	}
	text, piped, err := promptFrom(ctx, c.Message, os.Stdin)
	if err != nil {
		return nil, err
	}
	if piped { // a part is not looked through for files that the person mentions
		text, parts = "", append([]pygent.Part{{Text: text}}, parts...)
	}
	return pygent.WithFirstMessage(chat.UserMessage(text, parts...)), nil
}
