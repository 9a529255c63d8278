package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/mount"

	"github.com/x/pygent/internal/sandbox"
)

// view is what containers see of this machine besides the workspace at [Workspace].
type view struct {
	own        string        // the path that the workspace has here, where they see it too; or empty
	begin      string        // where commands begin, which is the workspace in any case
	repository []mount.Mount // what git needs of the repository, if that lies outside; not from an engine elsewhere
}

// newView decides what containers see. Scripts, virtual environments, stack traces and
// git's own files have absolute paths, so the workspace is also at its path on this
// machine, unless that could hide something of an image or of the user's mounts. notes
// are what does not work for that reason.
func newView(dir string, repository sandbox.Repository, c Config) (v view, notes []string) {
	v.begin = Workspace
	if c.Workspace == "" {
		return v, nil
	}
	err := checkOwnPath(dir, c.Mounts)
	for _, p := range repository.Shown() {
		if err == nil && coversMount(p.Dir, c.Mounts) {
			err = fmt.Errorf("something else is mounted in %s", p.Dir)
		}
	}
	switch {
	case err != nil:
		notes = append(notes, fmt.Sprintf("In the container the workspace is only %s: its path on the user's machine, %s, does not exist there, since %v", Workspace, dir, err))
		if repository.OwnPath {
			notes = append(notes, "git does not work in the workspace: files of the repository have that path")
		}
		return v, notes
	case repository.OwnPath && repository.Works():
		v.begin = dir
	}
	v.own = dir
	for _, p := range repository.Shown() {
		v.repository = append(v.repository, mount.Mount{Type: mount.TypeBind, Source: p.Dir, Target: p.Dir, ReadOnly: p.ReadOnly})
	}
	return v, sentence(repository.Note())
}

// see decides what the containers of a commander see, and takes what they can change of
// it before they may.
func (c *commander) see(ctx context.Context, dir string, repository sandbox.Repository) {
	v, notes := newView(dir, repository, c.config)
	if !c.shared && len(v.repository) > 0 {
		v.repository = nil
		notes = append(notes, noRepository)
	}
	c.repository = repository
	c.spec.view, c.spec.config.WorkingDir = v, v.begin
	c.notes.Add(notes...)
	var claimed []string
	for _, m := range v.repository {
		dir := m.Source
		if within(dir, repository.Common) {
			dir = repository.Common // one container gives back all of it
		}
		if !m.ReadOnly && !slices.Contains(claimed, dir) {
			claimed = append(claimed, dir)
			config := c.config.Config
			config.Workspace = dir
			c.beside = append(c.beside, claimWorkspace(ctx, c.engine, Config{Config: config, Host: c.config.Host, Image: c.config.Image, SharedFiles: c.config.SharedFiles, NoGuest: c.config.NoGuest}))
		}
	}
}

// startShowing starts a container that shows what git needs of the repository. An engine
// mounts what is at a path when the container starts. Commands of another sandbox, whose
// workspace has the main repository, may have put a link to anything there since it was
// found, so the container has to see the very same directories before a command runs in it.
func (c *commander) startShowing(ctx context.Context, p place, name string, know func(string)) (*Container, error) {
	box, err := c.startHeard(ctx, p, name, know)
	if err != nil || p.volume != "" || len(c.spec.view.repository) == 0 {
		return box, err
	}
	moved := box.sees(ctx, c.repository)
	if moved == "" {
		return box, nil
	}
	if err := box.discard(); err != nil {
		return nil, err
	}
	c.learn(sandbox.MovedNote(moved))
	c.spec.view.repository = nil
	return c.startHeard(ctx, p, name, know)
}

// seeTime is how long a container may take to say what it sees.
const seeTime = 10 * time.Second

// sees names a directory of a repository that a container does not see as it was found;
// empty for none. A container with a kernel of its own numbers files in its own way: there
// this machine looks at the paths again.
func (b *Container) sees(ctx context.Context, r sandbox.Repository) (moved string) {
	script := "cat /proc/sys/kernel/random/boot_id; stat -c %d:%i --"
	for _, p := range r.Shown() {
		script += " '" + strings.ReplaceAll(p.Dir, "'", `'\''`) + "'"
	}
	res, err := b.commands.Run(ctx, sandbox.Command{Script: script, Dir: ".", Timeout: seeTime, MaxOutput: 64 << 10})
	said := strings.Split(strings.TrimSpace(res.Output), "\n")
	if err == nil && said[0] != "" && !sameKernel(said[0]) {
		return r.Moved()
	}
	for i, p := range r.Shown() {
		id := r.Identity(p.Dir)
		if err != nil || i+1 >= len(said) || said[i+1] != fmt.Sprintf("%d:%d", id.Dev, id.Ino) {
			return p.Dir
		}
	}
	return ""
}

const (
	// maxElsewhere is how many worktrees elsewhere a container is told of.
	maxElsewhere = 64
	// worktreeText is what a container has as the file .git of one. It is no such file for
	// git, which would take all files of the worktree for deleted.
	worktreeText = "this worktree is on the user's machine, outside of the workspace\n"
)

// worktreesElsewhere is a file of ours for each worktree of the repository that lies where
// containers do not see it. So git does not take it for removed: what it knows of it stays,
// and so do the objects that only its index holds.
func (c *commander) worktreesElsewhere() (files []mount.Mount) {
	for _, name := range c.repository.Elsewhere(c.files.tree.Dir()) {
		shown := func(m mount.Mount) bool { return within(name, m.Source) }
		if checkOwnPath(path.Dir(name), c.config.Mounts) != nil || slices.ContainsFunc(c.spec.view.repository, shown) || len(files) == maxElsewhere {
			continue
		}
		source, err := keepForMount("worktree", worktreeText)
		if err != nil {
			return nil
		}
		files = append(files, mount.Mount{Type: mount.TypeBind, Source: source, Target: name, ReadOnly: true})
	}
	return files
}

// learn adds a note that could not be given before a container was started.
func (c *commander) learn(note string) {
	if c.notes.Learn(note) {
		c.emit(sandbox.Event{Kind: sandbox.Limited, Text: note})
	}
}

// noRepository says why an engine elsewhere shows no repository.
const noRepository = "git does not work in the workspace: its repository is outside, and the Docker Engine is on another machine, which gets the workspace alone. Start at the root of a repository instead"

// endBeside gives what containers have made of git's files to the owners of these.
func (c *commander) endBeside(alone bool) (err error) {
	for _, claim := range c.beside {
		if claim == nil {
			continue
		}
		given := error(nil)
		if c.proved && c.volume == "" {
			ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(c.spec.pace.Cleanup, cleanupTime))
			given = giveBack(ctx, c.engine, c.config, claim)
			cancel()
		}
		if given != nil {
			given = fmt.Errorf("files in %s may still be the container's: %w", claim.Path, given)
		}
		err = errors.Join(err, given, claim.Release(given == nil && (alone || claim.Fresh())))
	}
	return err
}

// sentence is a list of one text, or of none.
func sentence(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// imageDirs are directories of an image that have its own files. Something of this
// machine there could take their place.
var imageDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr",
	"/var/cache", "/var/lib", "/var/lock", "/var/run", "/var/spool", Workspace,
}

// checkOwnPath says why a container cannot have the workspace at its path on this machine.
func checkOwnPath(dir string, mounts []Mount) error {
	at := filepath.ToSlash(dir)
	switch {
	case !path.IsAbs(at):
		return errors.New("a container has no such paths")
	case path.Dir(at) == "/", path.Dir(at) == "/home", at == "/var/log":
		return errors.New("an image may have something of its own there")
	case slices.ContainsFunc(imageDirs, func(d string) bool { return within(at, d) }):
		return errors.New("images have files of their own there")
	case coversMount(at, mounts):
		return errors.New("something else is mounted there")
	}
	return nil
}

// coversMount reports whether a mount of the user's is in a directory, or that in the
// mount.
func coversMount(dir string, mounts []Mount) bool {
	return slices.ContainsFunc(mounts, func(m Mount) bool {
		target := path.Clean(m.Target)
		return within(target, dir) || within(dir, target)
	})
}

// within reports whether a path is a directory, or in it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
