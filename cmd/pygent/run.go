package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/x/pygent"
)

// runCmd works on one prompt, without a person.
type runCmd struct {
	Prompt []string `arg:"" optional:"" help:"What to do; - or nothing reads it from standard input."`
	JSON   bool     `help:"Print events as JSON lines on standard output."`
	Quiet  bool     `help:"Show no progress." short:"q"`
}

// maxPrompt bounds a prompt from standard input, in bytes.
const maxPrompt = 1 << 20

// Run makes the run and ends with the exit code of its status.
func (r *runCmd) Run(ctx context.Context, s *settings) error {
	prompt, err := r.prompt(os.Stdin)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, opts, err := s.options()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	agent, err := pygent.New(append(opts, pygent.WithEventHandler(r.handler()))...)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := mayRunLocally(ctx, agent, cfg); err != nil {
		return &exitError{exitUsage, errors.Join(err, agent.Close())}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	result, err := agent.RunUntilStop(ctx, prompt)
	return errors.Join(r.finish(result, err), agent.Close())
}

// prompt joins the arguments, or reads standard input.
func (r *runCmd) prompt(stdin io.Reader) (string, error) {
	text := strings.Join(r.Prompt, " ")
	if text == "" || text == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxPrompt+1))
		if err == nil && len(data) > maxPrompt {
			err = fmt.Errorf("it is longer than %d bytes; put the text in a file of the workspace", maxPrompt)
		}
		if err != nil {
			return "", fmt.Errorf("read the prompt from standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New(`the prompt is empty; say what to do: pygent run "PROMPT"`)
	}
	return text, nil
}

// handler shows the events: as JSON on standard output, or as text on standard
// error, which keeps standard output for the answer.
func (r *runCmd) handler() func(pygent.Event) {
	switch {
	case r.JSON:
		enc := json.NewEncoder(os.Stdout)
		enc.SetEscapeHTML(false)
		return func(e pygent.Event) { _ = enc.Encode(e) }
	case r.Quiet:
		return func(pygent.Event) {}
	}
	return pygent.EventPrinter(os.Stderr)
}

// mayRunLocally refuses to run on this machine when nobody chose to: there is
// no one to ask.
func mayRunLocally(ctx context.Context, agent *pygent.Agent, cfg pygent.Config) error {
	d, ok := agent.Runtime().(pygent.Describer)
	if !ok || agent.Runtime().UseDocker() || cfg.Container.UseDocker != nil {
		return nil
	}
	return fmt.Errorf("%s, so commands would run on this machine without isolation; start Docker, or give --no-docker to allow it", d.Describe(ctx).Fallback)
}

// finish prints the answer and turns the outcome into an exit code.
func (r *runCmd) finish(result *pygent.Result, err error) error {
	if !r.JSON && result.Summary != "" {
		fmt.Println(result.Summary)
	}
	if result.Question != nil && !r.JSON {
		fmt.Println(result.Question.Prompt)
		for _, option := range result.Question.Options {
			fmt.Println("-", option)
		}
	}
	code := exitCode(result.Status)
	if code == exitOK {
		return nil
	}
	if err == nil && result.Reason != "" {
		err = errors.New(result.Reason)
	}
	return &exitError{code, err}
}

func exitCode(s pygent.Status) int {
	switch s {
	case pygent.StatusStopped, pygent.StatusReplied:
		return exitOK
	case pygent.StatusAwaitingUser:
		return exitAwaiting
	case pygent.StatusMaxSteps, pygent.StatusMaxToolCalls, pygent.StatusTimeout, pygent.StatusBudget:
		return exitLimit
	case pygent.StatusTruncated, pygent.StatusEmpty, pygent.StatusStuck:
		return exitStuck
	case pygent.StatusCancelled:
		return exitCancel
	}
	return exitFailed
}
