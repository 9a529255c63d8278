package cli

import (
	"context"
	"log/slog"

	"github.com/x/pygent"
	"github.com/x/pygent/cmd/internal/doctor"
)

// doctorCmd checks what a session needs.
type doctorCmd struct {
	JSON    bool `help:"Print the checks as JSON."`
	NoModel bool `help:"Send the model no request, which costs tokens; its server is asked only for the list of its models."`
}

// Help says what is checked, and when the exit code is another one than 0.
func (doctorCmd) Help() string {
	return `It prints one line each for the engine, image, network, key and model, for the
protection of commands on this machine, the disk and leftovers, with what to do. The
model is asked two small questions, which cost a few hundred tokens: whether it calls
tools and sees images. All of it takes at most ten seconds.

The exit code is 1 if something is a problem, and 0 if there are only warnings.`
}

// Run makes the checks.
func (c doctorCmd) Run(ctx context.Context, s *settings, out *output) error {
	cfg, _, err := s.configure(ctx, func(pygent.Config) (*slog.Logger, error) { return nil, nil })
	if err != nil {
		return &exitError{exitUsage, err}
	}
	for _, warning := range cfg.Warnings {
		warn(warning)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if !c.NoModel {
		note("the model is asked two small questions, which cost a few hundred tokens; --no-model leaves them out")
	}
	var findings []doctor.Finding
	failed := false
	err = doctor.Examine(ctx, cfg, !c.NoModel, func(f doctor.Finding) {
		failed = failed || f.State == doctor.Problem
		if findings = append(findings, f); !c.JSON {
			out.println(f)
		}
	})
	if err != nil {
		return interrupted(ctx)
	}
	if c.JSON {
		err = writeJSON(out, struct {
			OK     bool             `json:"ok"`
			Checks []doctor.Finding `json:"checks"`
		}{!failed, findings})
	}
	if err == nil && failed {
		err = &exitError{code: exitFailed}
	}
	return err
}
