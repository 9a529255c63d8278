package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/toolbox"
	"github.com/x/pygent/internal/workspace"
)

// Protection says whether the commands of a local runtime are kept from the
// rest of this machine.
type Protection int

// The protections. The zero value is ProtectionAuto.
const (
	ProtectionAuto     Protection = iota // as much as this machine allows, which may be nothing; see [RuntimeInfo]
	ProtectionRequired                   // at least that of files, or an error
	ProtectionOff                        // none: commands have the rights of this process
)

// ErrUnprotected is the error of a machine that cannot confine commands, where
// [ProtectionRequired] asks for it. It comes with [ErrRuntimeStart].
var ErrUnprotected = errors.New("commands cannot be confined on this machine")

// String returns "auto", "required" or "off".
func (p Protection) String() string {
	switch p {
	case ProtectionAuto:
		return "auto"
	case ProtectionRequired:
		return "required"
	case ProtectionOff:
		return "off"
	}
	return "Protection(" + strconv.Itoa(int(p)) + ")"
}

// MarshalText encodes the protection as its name.
func (p Protection) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText accepts the names. An empty text is ProtectionAuto.
func (p *Protection) UnmarshalText(text []byte) error {
	switch s := strings.ToLower(strings.TrimSpace(string(text))); s {
	case "", "auto":
		*p = ProtectionAuto
	case "required":
		*p = ProtectionRequired
	case "off":
		*p = ProtectionOff
	default:
		return fmt.Errorf("protection %q: want auto, required or off", s)
	}
	return nil
}

// WithLocalProtection says whether the commands of a local runtime are
// confined. The default is [ProtectionAuto].
//
// Confined commands reach their workspace, a directory for temporary files and
// caches of their own, and may read the system's programs and settings, the
// tools that PATH and the like lead to, and the configuration of git.
// [WithLocalReadable] and [WithLocalWritable] add to it. They can gain no rights,
// as with sudo. The network stays open. On other systems than Linux there is no
// protection.
func WithLocalProtection(p Protection) RuntimeOption {
	return func(o *runtimeOptions) { o.protection = p }
}

// WithLocalReadable lets the commands of a confined local runtime read and
// execute more files and directories.
func WithLocalReadable(paths ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.readable = append(o.readable, paths...) }
}

// WithLocalWritable lets the commands of a confined local runtime write more
// files and directories, which must exist when the first command runs.
func WithLocalWritable(paths ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.writable = append(o.writable, paths...) }
}

// WithLocalEnv lets the commands of a local runtime inherit more variables of
// this process, by their names. Unlike [WithEnv] it says nothing of containers.
func WithLocalEnv(names ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.inherit = append(o.inherit, names...) }
}

// HardenProcess keeps other processes of the user from reading this process's
// memory and environment, where keys are, and from tracing it. A program whose
// local commands may not be confined should call it first of all, as the command
// pygent does. The library does not do it by itself, since it concerns the whole
// process: debuggers cannot attach, and there are no core dumps. It has no effect
// on systems other than Linux.
func HardenProcess() { supervise.Harden() }

// The levels of [RuntimeInfo].Protection.
const (
	protectionFull  = "full"
	protectionFiles = "files"
	protectionNone  = "none"
)

// protectionOf decides how far commands are confined, in a workspace.
func protectionOf(ctx context.Context, o *runtimeOptions, dir string) (confine.Support, error) {
	s := confine.Support{Why: "it is turned off"}
	if o.protection != ProtectionOff {
		s = o.confinement(ctx)
	}
	if filepath.Dir(dir) == dir && s.Level != confine.None {
		s = confine.Support{Why: "the workspace is the whole file system"}
	}
	if o.protection == ProtectionRequired && s.Level == confine.None {
		return s, fmt.Errorf("%w: %w: %s", ErrRuntimeStart, ErrUnprotected, s.Why)
	}
	return s, nil
}

// describeProtection says in a note what a level leaves open, what does not work,
// and why it is not a higher one. Commands reach the given paths besides the
// workspace.
func describeProtection(s confine.Support, dir string, paths []string) (level, note string) {
	var notes []string
	if s.Level != confine.None {
		notes = append(notes, "open: "+strings.Join(append([]string{"the network"}, s.Gaps()...), ", "))
	}
	if home, err := os.UserHomeDir(); err == nil && s.Level != confine.None && holds(dir, home) {
		notes = append(notes, "the workspace holds your home directory, with all that is in it")
	}
	if at := outerRepository(dir); at != "" && s.Level != confine.None && !slices.ContainsFunc(paths, func(p string) bool { return holds(p, at) }) {
		notes = append(notes, fmt.Sprintf("git does not work, for the repository of the workspace is %q: start there, or name it in local.readable", at))
	}
	if s.Why != "" {
		notes = append(notes, "no more protection: "+s.Why)
	}
	return s.Level.String(), strings.Join(notes, "; ")
}

// holds reports whether a directory is, or holds, a path.
func holds(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// tellMissingPaths tells of paths by which commands get nothing.
func tellMissingPaths(o *runtimeOptions) {
	for _, path := range slices.Concat(o.readable, o.writable) {
		if _, err := os.Stat(path); err != nil {
			o.queue.tell(RuntimeEvent{Kind: RuntimeLimited, Text: fmt.Sprintf("commands cannot be given a path of local.readable or local.writable: %v", err)})
		}
	}
}

// outerRepository returns where the git repository is that a directory belongs
// to, if that lies outside of it; otherwise "".
func outerRepository(dir string) string {
	const name = ".git"
	isRepository := func(at string) bool {
		info, err := os.Stat(filepath.Join(at, "HEAD"))
		return err == nil && info.Mode().IsRegular()
	}
	info, err := os.Lstat(filepath.Join(dir, name))
	switch {
	case err == nil && info.Mode().IsRegular() && info.Size() < 1<<16: // a worktree or a submodule
		data, err := os.ReadFile(filepath.Join(dir, name))
		at, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
		if err != nil || !ok {
			return ""
		}
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		if parent := filepath.Dir(at); filepath.Base(parent) == "worktrees" {
			at = filepath.Dir(parent)
		}
		if isRepository(at) && !holds(dir, at) {
			return at
		}
	case errors.Is(err, fs.ErrNotExist):
		for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
			if isRepository(filepath.Join(at, name)) {
				return at
			}
			if filepath.Dir(at) == at {
				break
			}
		}
	}
	return ""
}

// protection tells people of the protection, or nothing where there is no word
// of it.
func (info RuntimeInfo) protection() string {
	switch info.Protection {
	case "":
		return ""
	case protectionNone:
		return "; protection: none, so they can do whatever you can (" + info.ProtectionNote + ")"
	}
	return "; protection: " + info.Protection + " (" + info.ProtectionNote + ")"
}

// confined is how a guest is started: its environment, what it may reach, and
// where its temporary files are.
type confined struct {
	env    []string
	policy *confine.Policy // nil for everything
	temp   string          // removed when the guest has ended; may be empty
}

// confineGuest prepares the start of a guest. What it makes is for remove.
func (c *localCommander) confineGuest() (confined, error) {
	if c.level == confine.None {
		return confined{env: c.env}, nil
	}
	if now, err := os.Lstat(c.dir); err != nil || !os.SameFile(now, c.was) {
		// Who may write the directory above can put a link to anything there.
		return confined{}, errMoved
	}
	temp, err := workspace.MakeTemp(false)
	if err != nil {
		return confined{}, err
	}
	cache, err := localCache()
	if err != nil {
		cache = filepath.Join(temp, "cache")
		if err := os.Mkdir(cache, 0o700); err != nil {
			return confined{}, errors.Join(err, workspace.RemoveTemp(temp))
		}
	}
	policy := guest.NewPolicy(c.level, temp)
	policy.Write = slices.Concat([]string{c.dir, cache}, c.writable)
	tools := toolbox.Find(c.env, cache, policy.Write...)
	policy.Read = slices.Concat(tools.Read, c.readable)
	env := slices.Concat(c.env, tools.Env, []string{"TMPDIR=" + temp})
	if c.level == confine.Files { // /tmp is the machine's
		env = append(env, toolbox.Temporary(env, temp)...)
	}
	return confined{env: env, policy: policy, temp: temp}, nil
}

// errMoved is the error of a workspace whose path leads to something else.
var errMoved = errors.New("the workspace is not the directory any more that it was")

// remove removes the temporary files.
func (c confined) remove() error {
	if c.temp == "" {
		return nil
	}
	return workspace.RemoveTemp(c.temp)
}

// localCache makes the directory where tools of confined commands keep what
// they have downloaded and built. It is not the user's own: what a command puts
// there reaches other commands, but nothing that the user runs.
func localCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "pygent", "local")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err == nil && !owner.Private(info, 0o022) {
		// Root has been here in our place, or another user is.
		err = &os.PathError{Op: "use", Path: dir, Err: os.ErrPermission}
	}
	return dir, err
}
