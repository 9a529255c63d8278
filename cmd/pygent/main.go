// Command pygent is a coding agent for the terminal. It is a thin layer over
// package pygent: flags become options, and a session or a run does the rest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/x/pygent"
)

// The exit codes of pygent.
const (
	exitOK       = 0   // the work is done
	exitFailed   = 1   // the model or the runtime failed
	exitUsage    = 2   // flags, configuration or set-up are wrong
	exitAwaiting = 3   // the model asks the user something
	exitLimit    = 4   // a limit ended the run: steps, tool calls, time, tokens
	exitStuck    = 5   // the model got nowhere: stuck, truncated, empty answers
	exitCancel   = 130 // interrupted
)

type cli struct {
	settings

	Session sessionCmd `cmd:"" default:"1" help:"Talk with the agent (the default)."`
	Run     runCmd     `cmd:"" help:"Work on PROMPT without asking until it is done; the answer goes to standard output."`
	Demo    demoCmd    `cmd:"" help:"Watch a scripted session: no key, no network."`
	Prune   pruneCmd   `cmd:"" help:"Show what a crash left behind, and remove it."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main with an exit code.
func run(args []string) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("pygent"),
		kong.Description("A coding agent whose commands run in an isolated container.\n\nExit codes of run: 0 done, 1 failed, 2 wrong usage or set-up, 3 the model asks something, 4 a limit was reached, 5 no progress, 130 interrupted."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return report(err, exitUsage)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return report(err, exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	return report(parsed.Run(&c.settings), exitFailed)
}

// exitError is an error with an exit code of its own. A nil err only sets the
// code: everything has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// report prints an error and returns the exit code for it.
func report(err error, code int) int {
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "pygent:", err)
	return code
}

// sessionCmd is an interactive session.
type sessionCmd struct{}

// Run talks with the user until the session ends.
func (sessionCmd) Run(ctx context.Context, s *settings) error {
	agent, err := s.agent()
	if err != nil {
		return err
	}
	return errors.Join(agent.RunInteractive(ctx), agent.Close())
}

// versionCmd prints the version.
type versionCmd struct{}

// Run prints the version that the Go toolchain stamped into the binary.
func (versionCmd) Run() error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	fmt.Println("pygent", version)
	return nil
}

// agent makes an agent from the settings. Errors are of set-up.
func (s *settings) agent() (*pygent.Agent, error) {
	_, opts, err := s.options()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	agent, err := pygent.New(opts...)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return agent, nil
}
