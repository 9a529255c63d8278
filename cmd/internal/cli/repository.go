package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/sandbox"
	config "github.com/x/pygent/internal/settings"
)

// askRepository asks whether commands may use the git repository that the workspace
// belongs to, where git does not work without it. Only the paths that the question names
// are allowed. It asks nothing where the repository does not know the workspace, since only
// a setting can allow that, and where a setting says "none".
func (s *settings) askRepository(ctx context.Context, cfg *pygent.Config) {
	unconfined := cfg.Container.Docker == pygent.DockerNever && (cfg.Local.Protection == pygent.ProtectionOff || runtime.GOOS != "linux")
	r := sandbox.FindRepository(sandbox.Config{Workspace: cfg.Workspace, Repositories: cfg.Repositories})
	if unconfined || r.Works() || r.Unproved || r.Broken != "" || slices.Contains(cfg.Repositories, sandbox.NoRepository) || !seen() {
		return
	}
	var does []string
	for _, p := range r.Needs {
		verb := "write"
		if p.ReadOnly {
			verb = "read"
		}
		does = append(does, fmt.Sprintf("%s %q", verb, p.Dir))
	}
	answer, ok := ask(ctx, fmt.Sprintf("The workspace belongs to a git repository outside of it. For git to work, commands must %s. Allow that? [y]es, [a]lways, [N]o ", strings.Join(does, ", ")))
	always := strings.EqualFold(answer, "a") || strings.EqualFold(answer, "always")
	if !ok || !always && !isYes(answer) {
		return
	}
	s.Repository = append(append(s.Repository, cfg.Repositories...), r.Allow()...)
	cfg.Repositories = s.Repository
	if always {
		keepRepository(r.Allow())
	}
}

// keepRepository allows paths for good, in the user's configuration.
func keepRepository(paths []string) {
	home, err := os.UserHomeDir()
	if err == nil {
		err = config.AddToList(filepath.Join(home, config.HomeFile), "git", "repositories", paths...)
	}
	if err != nil {
		warn(fmt.Sprintf("could not be saved, so it applies to this session only: %v", err))
		return
	}
	note("saved in ~/%s", config.HomeFile)
}
