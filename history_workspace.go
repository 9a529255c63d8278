package pygent

import (
	"fmt"
	"os"

	"github.com/x/pygent/internal/inside"
	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/patherr"
)

// openHistoryBeside opens a history whose file may lie in a directory that
// commands can write to. They may put a link in its place, or in that of a
// directory on the way to it, at any time: then links are not followed out of
// that directory, and nothing else is read or written.
func openHistoryBeside(dirs []string, path string) (*History, error) {
	dir, name, err := inside.Of(dirs, path)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, patherr.Cause(err))
	}
	if dir == "" {
		return OpenHistory(path)
	}
	disk, err := journal.Within(dir)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, patherr.Cause(err))
	}
	h, err := openHistoryOn(disk, name)
	if err != nil {
		return nil, err
	}
	h.repairs = append(h.repairs, fmt.Sprintf("%s is where commands can read and change it; a file outside of the workspace is safer", path))
	return h, nil
}

// writableDirs returns the directories of this machine that the agent's commands
// can write to and that stay: the workspace, and what else it was given.
func (o *options) writableDirs() ([]string, error) {
	if rt, ok := o.runtime.(*workspaceRuntime); ok {
		return append(rt.options.writableMounts(), rt.Dir()), nil
	}
	if o.runtime != nil {
		return nil, nil // of a runtime of the caller's own it is not known
	}
	return writableDirs(o.runtimeOpts)
}

func writableDirs(opts []RuntimeOption) ([]string, error) {
	rt, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	return rt.writableDirs(), nil
}

func (o *runtimeOptions) writableDirs() []string {
	dirs := o.writableMounts()
	if o.workspace != "" {
		dirs = append(dirs, o.workspace)
	}
	return dirs
}

// writableMounts returns the directories of this machine that commands can write
// to besides the workspace: in a container what is mounted, else what a local
// runtime was given.
func (o *runtimeOptions) writableMounts() []string {
	var dirs []string
	add := func(name string) {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			dirs = append(dirs, name)
		}
	}
	for _, m := range o.mounts {
		if !m.ReadOnly {
			add(m.Source)
		}
	}
	if o.docker != DockerRequired {
		for _, name := range o.writable {
			add(name)
		}
	}
	return dirs
}
