package pygent

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/tempname"
)

// NewLocalRuntime makes a runtime whose commands run on this machine. On Linux
// they are confined, as far as the machine allows: see [WithLocalProtection], and
// [RuntimeInfo] for what came of it. Elsewhere they have the rights of this
// process. Options of the container, such as [WithMemory] and [WithNetwork], have
// no effect. Files are confined to the workspace.
//
// Commands inherit the variables that tools need, such as PATH, HOME, LANG and
// those of compilers and package managers, but no others, and none whose value is
// an address with a password. Give those that commands need besides with
// [WithEnv] or [WithLocalEnv].
//
// A process of pygent supervises the commands. It ends when nothing has run for half a
// minute, no background job was started and no long output is kept, and the next
// command starts another one. With full protection, files in /dev/shm end with it;
// those in $TMPDIR and /tmp stay until Cleanup.
//
// ctx bounds the copying of the initial files only. Call Cleanup at the end.
func NewLocalRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	return newLocalRuntime(ctx, o, "")
}

// newLocalRuntime makes a runtime on this machine. fallback says why commands
// do not run in a container, if that was tried first.
func newLocalRuntime(ctx context.Context, o *runtimeOptions, fallback string) (Runtime, error) {
	box, protection, err := sandbox.NewLocal(ctx, o.sandboxConfig(), o.localConfig())
	if err != nil {
		return nil, err
	}
	if len(o.allowedHosts) > 0 {
		o.queue.Tell(sandbox.Event{Kind: sandbox.Limited, Text: "commands run on this machine and use its network: allowed hosts have no effect"})
	}
	info := RuntimeInfo{
		Kind:           kindLocal,
		Workspace:      box.Dir(),
		Network:        true,
		Temporary:      o.workspace == "",
		Protection:     protection.Level,
		ProtectionNote: protection.Note,
		Fallback:       fallback,
	}
	return &workspaceRuntime{Sandbox: box, info: info, options: o}, nil
}

// localConfig is what the options say about commands on this machine.
func (o *runtimeOptions) localConfig() sandbox.LocalConfig {
	return sandbox.LocalConfig{
		Inherit:     o.inherit,
		Unprotected: o.protection == ProtectionOff,
		MustProtect: o.protection == ProtectionRequired,
		Readable:    o.readable,
		Writable:    o.writable,
		Confinement: o.confinement,
	}
}

// checkLocal refuses invalid paths for local commands and of repositories, and makes the
// others absolute.
func (o *runtimeOptions) checkLocal() error {
	for _, given := range []struct {
		option string
		paths  []string
	}{{"WithLocalReadable", o.readable}, {"WithLocalWritable", o.writable}, {"WithRepositories", o.repositories}} {
		for i, path := range given.paths {
			if path == sandbox.NoRepository && given.option == "WithRepositories" {
				continue
			}
			abs, err := localPath(path)
			if err != nil {
				return fmt.Errorf("%s: %w", given.option, err)
			}
			given.paths[i] = abs
		}
	}
	return nil
}

// localPath makes a path absolute, and refuses one that local commands cannot be given.
func localPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	switch {
	case path == "":
		return "", errors.New("a path is empty")
	case err != nil:
		return "", fmt.Errorf("path %q: %w", path, err)
	case filepath.Dir(abs) == abs:
		return "", fmt.Errorf("%q is a whole file system: name directories in it, or turn the protection off", path)
	}
	return abs, nil
}

func isLocalPath(path string) error {
	_, err := localPath(path)
	return err
}

// ErrUnprotected is returned where [ProtectionRequired] is set and the machine
// cannot confine commands. The error also matches [ErrRuntimeStart].
var ErrUnprotected = sandbox.ErrUnprotected

// Protection says whether the commands of a local runtime are kept from the
// rest of this machine.
type Protection int

// The protections. The zero value is ProtectionAuto.
const (
	ProtectionAuto     Protection = iota // as much as this machine supports, possibly nothing; see [RuntimeInfo]
	ProtectionRequired                   // at least "files", or an error
	ProtectionOff                        // none: commands have the rights of this process
)

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

// UnmarshalText accepts the names that String returns. An empty text is
// ProtectionAuto.
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
// Confined commands can write to their workspace, and to temporary files and
// caches of their own. They can read the system's programs and settings, the
// tools that PATH and similar variables point to, and the configuration of git.
// [WithLocalReadable] and [WithLocalWritable] add to these. Commands cannot
// gain rights, as with sudo. The network stays open. On systems other than
// Linux there is no protection.
func WithLocalProtection(p Protection) RuntimeOption {
	return runtimeOption{"WithLocalProtection", func(o *runtimeOptions) { o.protection = p }}
}

// WithLocalReadable lets the commands of a confined local runtime read and
// execute more files and directories.
func WithLocalReadable(paths ...string) RuntimeOption {
	return runtimeOption{"WithLocalReadable", func(o *runtimeOptions) { o.readable = append(o.readable, paths...) }}
}

// WithLocalWritable lets the commands of a confined local runtime write more
// files and directories, which must exist when the first command runs.
func WithLocalWritable(paths ...string) RuntimeOption {
	return runtimeOption{"WithLocalWritable", func(o *runtimeOptions) { o.writable = append(o.writable, paths...) }}
}

// WithLocalEnv lets the commands of a local runtime inherit more variables of
// this process, by their names. Unlike [WithEnv], it does not affect
// containers.
func WithLocalEnv(names ...string) RuntimeOption {
	return runtimeOption{"WithLocalEnv", func(o *runtimeOptions) { o.inherit = append(o.inherit, names...) }}
}

// LocalConfig says what commands may reach where they run on this machine.
type LocalConfig struct {
	Protection Protection `json:"protection,omitzero"` // default [ProtectionAuto]
	Readable   []string   `json:"readable,omitempty"`  // more paths to read and execute
	Writable   []string   `json:"writable,omitempty"`  // more paths to write
	Env        []string   `json:"env,omitempty"`       // names of more variables to inherit
}

func (c *LocalConfig) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "local.protection", Env: "PYGENT_LOCAL_PROTECTION", Value: settings.Named(&c.Protection, `"auto", "required" or "off"`)},
		{Key: "local.readable", Env: "PYGENT_LOCAL_READABLE", Value: settings.PathsThat(&c.Readable, isLocalPath)},
		{Key: "local.writable", Env: "PYGENT_LOCAL_WRITABLE", Value: settings.PathsThat(&c.Writable, isLocalPath)},
		{Key: "local.env", Env: "PYGENT_LOCAL_ENV", Value: settings.Names(&c.Env)},
	}
}

func (c LocalConfig) options() []RuntimeOption {
	opts := []RuntimeOption{WithLocalReadable(c.Readable...), WithLocalWritable(c.Writable...), WithLocalEnv(c.Env...)}
	return settings.IfGiven(opts, c.Protection, WithLocalProtection)
}

// HardenProcess keeps other processes of the user from reading this process's
// memory and environment, where keys are, and from tracing it. A program whose
// local commands may run unconfined should call it first, as the command pygent
// does. The library does not do so by itself, because it concerns the whole
// process: debuggers cannot attach, and there are no core dumps. It has no
// effect on systems other than Linux.
func HardenProcess() { supervise.Harden() }

// Bounds of the list of the files of a temporary workspace.
const (
	maxTemporary    = 10_000 // files and directories
	temporaryWithin = 5 * time.Second
)

// TemporaryFiles describes the files that go when the agent closes: those of a
// temporary workspace whose runtime is the agent's own. There are none if the
// workspace is kept, or if the runtime was lent ([LendRuntime]) and so outlives the
// agent. Directories are left out, what git and pygent keep for themselves, and
// files that besides describes as they are now: with the result of an earlier call,
// they are those that were made or changed since. more says that there are others.
//
// [Agent.KeepTemporary] keeps the files.
func (a *Agent) TemporaryFiles(ctx context.Context, besides ...FileInfo) (files []FileInfo, more bool, err error) {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok || a.opts.lent || !a.describe(ctx).Temporary {
		return nil, false, nil
	}
	all, more, err := runtimeFiles{a.runtime, &a.callbacks}.list(ctx, lister, ".", NoLimit, maxTemporary)
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]FileInfo, len(besides))
	for _, f := range besides {
		known[f.Path] = f
	}
	return slices.DeleteFunc(all, func(f FileInfo) bool {
		was, ok := known[f.Path]
		same := ok && was.Size == f.Size && was.Mode == f.Mode && was.ModTime.Equal(f.ModTime)
		return same || f.Mode.IsDir() || isOwnFile(f.Path)
	}), more, nil
}

// isOwnFile reports whether a file of a workspace is one that git, pygent or a program
// keeps for itself.
func isOwnFile(name string) bool {
	return tempname.Is(path.Base(name)) || strings.HasPrefix(name, ".pygent/") || strings.HasPrefix(name, ".git/")
}

// KeepTemporary copies the workspace to a directory of this machine, which must be
// new or empty, without what pygent keeps for itself. So the files of a temporary
// workspace are kept before the agent closes; see [Agent.TemporaryFiles]. What cannot
// be read is left out, and lost has its names; if that is everything, or if anything
// else fails, there is an error, and a new directory into which nothing was copied is
// removed. Pipes, sockets and devices are not copied.
func (a *Agent) KeepTemporary(ctx context.Context, dir string) (lost []string, err error) {
	from := export.Source{Export: a.runtime.ExportFile, HostDir: a.describe(ctx).HostDir}
	if lister, ok := RuntimeAs[FileLister](a.runtime); ok {
		from.List = func(ctx context.Context, dir string, limit int) ([]export.File, bool, error) {
			files, more, err := lister.ListFiles(ctx, dir, 1, limit)
			return exportFiles(files), more, err
		}
	}
	from.Target = runtimeFiles{a.runtime, &a.callbacks}.linkTarget()
	lost, err = safecall.Outlive(ctx, func() ([]string, error) {
		defer a.enter(&a.calling, "the runtime's ExportFile")()
		return export.Copy(ctx, from, dir)
	})
	a.logPanic("copy of the temporary files", err)
	if err != nil {
		return nil, fmt.Errorf("copy the workspace: %w", err)
	}
	return lost, nil
}

// runtimeFiles are the files of a runtime, whose code may be of others.
type runtimeFiles struct {
	runtime Runtime
	calls   *callbacks
}

func (f runtimeFiles) list(ctx context.Context, lister FileLister, dir string, depth, most int) (files []FileInfo, more bool, err error) {
	files, err = safecall.Outlive(ctx, func() (files []FileInfo, err error) {
		defer f.calls.enter(&f.calls.calling, "the runtime's ListFiles")()
		files, more, err = lister.ListFiles(ctx, dir, depth, most)
		return files, err
	})
	f.calls.logPanic("ListFiles of the runtime", err)
	return files, more, err
}

func (f runtimeFiles) export(ctx context.Context, name, dest string) error {
	_, err := safecall.Outlive(ctx, func() (struct{}, error) {
		defer f.calls.enter(&f.calls.calling, "the runtime's ExportFile")()
		return struct{}{}, f.runtime.ExportFile(ctx, name, dest)
	})
	f.calls.logPanic("ExportFile of the runtime", err)
	return err
}

// linkTarget returns a function that says where a link of the workspace leads; nil if
// the runtime cannot tell.
func (f runtimeFiles) linkTarget() func(ctx context.Context, name string) (string, error) {
	lister, ok := RuntimeAs[FileLister](f.runtime)
	if !ok {
		return nil
	}
	return func(ctx context.Context, name string) (string, error) {
		info, err := safecall.Outlive(ctx, func() (FileInfo, error) {
			defer f.calls.enter(&f.calls.calling, "the runtime's StatFile")()
			return lister.StatFile(ctx, name)
		})
		f.calls.logPanic("StatFile of the runtime", err)
		return info.Target, err
	}
}

// exportFiles returns files as the package export knows them.
func exportFiles(files []FileInfo) []export.File {
	var kept []export.File
	for _, f := range files {
		kept = append(kept, export.File{Path: f.Path, Size: f.Size, Mode: f.Mode})
	}
	return kept
}
