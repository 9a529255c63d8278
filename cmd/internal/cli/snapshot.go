package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/project"
	"github.com/x/pygent/snapshot"
)

// goOn adds the options of the snapshot that the configuration names, and those of
// the command line, which override them. It tells that the snapshot is loaded,
// unless that is to be quiet.
func (s *settings) goOn(ctx context.Context, cfg pygent.Config, opts []pygent.Option, quiet bool) ([]pygent.Option, error) {
	if cfg.Snapshot == "" {
		return opts, nil
	}
	if cfg.HistoryFile != "" {
		if info, err := os.Stat(cfg.HistoryFile); err == nil && info.Size() > 0 {
			return nil, fmt.Errorf("snapshot %s: its conversation cannot continue in %s, which already has one; give a new file with --history FILE, or unset PYGENT_HISTORY_FILE", short(cfg.Snapshot), short(cfg.HistoryFile))
		}
	}
	if entries, err := os.ReadDir(cfg.Workspace); cfg.Workspace != "" && err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("snapshot %s: its files cannot be copied to %s, which is not empty; give a new directory with --workspace DIR, or leave it out for a temporary one", short(cfg.Snapshot), short(cfg.Workspace))
	}
	snap, err := loadSnapshot(ctx, cfg.Snapshot, quiet)
	if err != nil {
		return nil, err
	}
	if !quiet {
		note("loaded the snapshot %s, saved on %s", short(filepath.Clean(cfg.Snapshot)), snap.Saved().Local().Format("2006-01-02 at 15:04"))
		for _, name := range snap.LeftOut() {
			note("not in the snapshot: %s", name)
		}
	}
	return append(append(opts, snap.Options()...), s.overSnapshot(cfg, snap.Setup())...), nil
}

// loadSnapshot reads a snapshot, which Ctrl-C interrupts, and shows how far it is if that
// takes a while.
func loadSnapshot(ctx context.Context, dir string, quiet bool) (*snapshot.Snapshot, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	bar := screen.Stderr()
	if !quiet && bar.Overwrites() {
		begun := time.Now()
		to := progress.NewThrottle(barEvery, func(percent int64) {
			_ = bar.Control(screen.ClearLine)
			_, _ = fmt.Fprintf(bar, "· loading the snapshot: %d %%, Ctrl-C skips it", percent)
		})
		defer func() { to.End(); _ = bar.Control(screen.ClearLine) }()
		ctx = progress.With(ctx, func(done, total int64) {
			if time.Since(begun) >= barAfter {
				to.Put(100 * done / total)
			}
		})
	}
	snap, err := snapshot.Load(ctx, dir)
	if err != nil && ctx.Err() != nil {
		err = &exitError{exitCancel, fmt.Errorf("interrupted: %w", err)}
	}
	return snap, err
}

// When the bar of a load appears, and how often it moves.
const (
	barAfter = 300 * time.Millisecond
	barEvery = 100 * time.Millisecond
)

// insteadOfSnapshot leaves out a snapshot that the environment or a file names, if a
// session or a run is to go on. One of --load is an error.
func (g goesOn) insteadOfSnapshot(cfg *pygent.Config) error {
	if !g.given() || cfg.Snapshot == "" {
		return nil
	}
	if slices.ContainsFunc(cfg.Sources(), func(s pygent.ConfigSetting) bool { return s.Key == "snapshot" && s.Source == "-e" }) {
		return fmt.Errorf("--load starts from the snapshot %s, --continue and --resume continue a session: leave one of them out (in a session, /resume continues an interrupted run)", short(cfg.Snapshot))
	}
	cfg.Snapshot = ""
	return nil
}

// overSnapshot are the options that the command line sets and a snapshot does too.
func (s *settings) overSnapshot(cfg pygent.Config, of pygent.Setup) (opts []pygent.Option) {
	set := func(key string, opt pygent.Option) {
		if s.asksFor(cfg, key) {
			opts = append(opts, opt)
		}
	}
	set("model", pygent.WithModelName(cfg.Model))
	set("persona", pygent.WithPersona(cfg.Persona))
	set("persona_name", pygent.WithPersona(cfg.Persona))
	set("context_window", pygent.WithContextWindow(cfg.ContextWindow))
	for _, key := range []string{"task_personas", "PYGENT_TASK_PERSONAS_JSON"} {
		set(key, pygent.TaskPersonas(cfg.TaskPersonas...))
	}
	compact := func(on bool) pygent.Option {
		policy := of.Compaction
		policy.Disabled = !on
		return pygent.WithCompaction(policy)
	}
	for _, of := range []struct {
		key   string
		given *bool
		opt   func(bool) pygent.Option
	}{
		{"compaction", cfg.Compaction, compact},
		{"instructions", cfg.Instructions, reading(project.Instructions)},
		{"survey", cfg.Survey, reading(project.Survey)},
		{"skills", cfg.Skills, reading(project.WorkspaceSkills)},
		{"confirm_bash", cfg.ConfirmBash, pygent.WithConfirmBash},
	} {
		if of.given != nil {
			set(of.key, of.opt(*of.given))
		}
	}
	return append(opts, s.limitsOverSnapshot(cfg)...)
}

// reading makes an option of an agent of one for what it reads.
func reading(opt func(bool) project.Option) func(bool) pygent.Option {
	return func(on bool) pygent.Option { return project.Read(opt(on)) }
}

// limitsOverSnapshot are those of the limits.
func (s *settings) limitsOverSnapshot(cfg pygent.Config) (opts []pygent.Option) {
	set := func(key string, opt pygent.Option) {
		if s.asksFor(cfg, "limits."+key) {
			opts = append(opts, opt)
		}
	}
	set("max_steps", pygent.MaxSteps(cfg.Limits.MaxSteps))
	set("max_tool_calls", pygent.MaxToolCalls(cfg.Limits.MaxToolCalls))
	set("max_tokens", pygent.MaxTokens(cfg.Limits.MaxTokens))
	set("max_cost", pygent.MaxCost(cfg.Limits.MaxCost))
	set("max_time", pygent.MaxTime(cfg.Limits.MaxTime))
	set("step_timeout", pygent.StepTimeout(cfg.Limits.StepTimeout))
	set("max_tasks", pygent.MaxTasks(cfg.MaxTasks))
	set("task_timeout", pygent.TaskDefaults(pygent.Limits{MaxTime: cfg.TaskLimits.MaxTime}))
	return opts
}
