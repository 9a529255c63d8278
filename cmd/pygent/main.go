// Command pygent is a coding agent for the terminal. It is a thin layer over
// package pygent: flags become options, and a session or a run does the rest.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/sirupsen/logrus"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
)

// The exit codes of pygent.
const (
	exitOK       = 0   // the work is done
	exitFailed   = 1   // the model or the runtime failed, or the answer could not be written
	exitUsage    = 2   // flags, configuration or set-up are wrong, or the container cannot start
	exitAwaiting = 3   // the model asks the user something
	exitLimit    = 4   // a limit ended the run: steps, tool calls, time, tokens, cost
	exitStuck    = 5   // the model made no progress: stuck, truncated, empty answers
	exitCancel   = 130 // interrupted, by Ctrl-C or a signal
)

const description = `A coding agent whose commands run in an isolated container.

Exit codes of run: 0 done, 1 failed, 2 wrong usage or set-up, 3 the model asks something, 4 a limit was reached, 5 no progress, 130 interrupted.`

type cli struct {
	settings

	Stamp   kong.VersionFlag `name:"version" help:"Print the version." hidden:""`
	Session sessionCmd       `cmd:"" default:"withargs" help:"Talk with the agent (the default)."`
	Run     runCmd           `cmd:"" help:"Work on PROMPT without asking until it is done; the answer goes to standard output."`
	Demo    demoCmd          `cmd:"" help:"Watch a scripted session: no key, no network."`
	Prune   pruneCmd         `cmd:"" help:"Show what a crash left behind, and remove it."`
	Version versionCmd       `cmd:"" help:"Print the version."`
}

func main() {
	pygent.HardenProcess() // the environment has the user's keys
	// If the reader of the output goes away, a write fails and is reported, but
	// the process is not killed before the clean-up. Commands do not inherit this.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) (code int) {
	log.SetOutput(screen.Stderr()) // libraries log what servers say
	logrus.SetOutput(screen.Stderr())
	out := newOutput(screen.Answers(), nil)
	defer func() {
		if p := recover(); p != nil {
			code = report(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), out)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("pygent"),
		kong.Description(description),
		kong.Vars{"version": "pygent " + version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
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
		return report(&exitError{exitUsage, fmt.Errorf("%w; %s", err, remedy(err))}, out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	return report(parsed.Run(&c.settings, out), out)
}

// remedy says what to do about arguments that were not understood.
func remedy(err error) string {
	if strings.HasPrefix(err.Error(), "unexpected argument") {
		return `pygent --help lists the commands, and pygent run "PROMPT" works on a prompt`
	}
	return "pygent --help lists the flags"
}

// interruptible returns a context that Ctrl-C ends. A second Ctrl-C ends the
// process at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// exitError is an error with an exit code of its own. If err is nil, there is
// nothing left to report, and only the code is set.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

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
	Resume bool     `help:"Go on with the interrupted run of the history."`
	Attach []string `help:"Send a file of this machine with the first message: text, a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 recording." placeholder:"FILE" sep:"none"`
}

// Run talks with the user until the session ends.
func (c sessionCmd) Run(ctx context.Context, s *settings) error {
	cfg, opts, err := s.options()
	if err == nil && c.Resume {
		err = checkResumable(cfg)
	}
	parts, attachErr := attached(c.Attach)
	if err = cmp.Or(err, attachErr); err != nil {
		return &exitError{exitUsage, err}
	}
	var over atomic.Bool // whether the session has ended; until then it shows its events itself
	show := warnings(pygent.EventPrinter(screen.Stderr()))
	agent, err := pygent.New(append(opts, pygent.WithResume(c.Resume), pygent.OnEvent(func(e pygent.Event) {
		if over.Load() {
			show(e)
		}
	}))...)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if len(parts) > 0 {
		_, err = agent.Say(pygent.UserMessage("", parts...)) // the first run hears it before the first message
	}
	if err == nil {
		err = agent.RunInteractive(ctx)
	}
	over.Store(true)
	tellCost(cfg, agent)
	err = errors.Join(err, cleanUp(agent))
	if err == nil && ctx.Err() != nil {
		err = &exitError{exitCancel, context.Cause(ctx)}
	}
	return err
}

// versionCmd prints the version.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(out *output) error {
	out.println("pygent", version())
	return nil
}

// version returns the version that the Go toolchain put into the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
