package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/go-units"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/tempname"
	"github.com/x/pygent/internal/workspace"
)

// Leftover is something that says it was made by a sandbox, and whose process has
// ended or cannot be seen from here.
type Leftover struct {
	Kind    string // "container", "volume", "directory" or "file"
	Name    string // a path, for a directory or a file
	ID      string // of a container: its name may become another's
	Owner   string // as package owner names processes
	Created time.Time
	Ours    bool   // this user's pygent made it on this machine, in a process that has ended
	Sure    bool   // besides, nothing uses it and nothing is lost with it
	Why     string // why it is not Sure
}

// Directory is the kind of a workspace that is left over.
const Directory = "directory"

// Reasons for which a leftover is not removed without being asked for.
const (
	// NotProved is that of something that may be anybody's.
	NotProved = "may belong to somebody else (another user or machine, an earlier version, or copied labels)"
	// NotSeen is that of something whose process may be alive.
	NotSeen = "its process cannot be seen from here, and may be alive"
)

// String describes the leftover in one line, which shows whatever cannot be
// printed as an escape.
func (l Leftover) String() string {
	parts := []string{l.Kind + " " + owner.Printable(l.Name)}
	if !l.Created.IsZero() {
		parts = append(parts, strings.ToLower(units.HumanDuration(time.Since(l.Created)))+" old")
	}
	if l.Kind == File {
		parts = append(parts, "of a process that has ended")
	} else {
		parts = append(parts, "of "+owner.Describe(l.Owner))
	}
	s := strings.Join(parts, ", ")
	if l.Why != "" {
		s += ": " + l.Why
	}
	return s
}

// DirectoriesLeft lists the temporary workspaces of owners that do not live.
func DirectoriesLeft(self *owner.Self) []Leftover {
	var found []Leftover
	for _, t := range workspace.FindTemps() {
		state := self.StateOf(t.Owner)
		if state == owner.Alive {
			continue
		}
		l := Leftover{Kind: Directory, Name: t.Path, Owner: t.Owner, Created: t.Made, Ours: t.Proved && state == owner.Dead}
		switch {
		case !t.Proved:
			l.Why = NotProved
		case state != owner.Dead:
			l.Why = NotSeen
		}
		l.Sure = l.Why == ""
		found = append(found, l)
	}
	return found
}

// swept reports whether this process has swept. Once is enough: what it leaves
// itself is not left over while it lives.
var swept atomic.Bool

// sweepDirectories removes the workspaces that are surely left over here.
func sweepDirectories(c Config) {
	if c.KeepLeftovers || swept.Swap(true) {
		return
	}
	if err := c.Self().Err(); err != nil {
		c.Logger.Debug("nothing is removed that earlier processes left on this machine", "why", err)
		return
	}
	for _, l := range DirectoriesLeft(c.Self()) {
		if l.Sure {
			c.Logger.Debug("remove what an earlier process left", "what", l.String(), "error", workspace.RemoveFound(l.Name))
		}
	}
}

// MakeTemp makes a directory as those of temporary workspaces, which are found when
// their process was killed.
func MakeTemp() (dir string, remove func(), err error) {
	dir, err = workspace.MakeTemp(false)
	return dir, func() { _ = workspace.RemoveTemp(dir) }, err // what cannot be removed is left over
}

// File is the kind of a file that a killed process has left in a workspace.
const File = "file"

// FilesLeft lists what killed processes have left in a directory as it was written.
func FilesLeft(dir string) []Leftover {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var found []Leftover
	for _, name := range tempname.Left(root) {
		l := Leftover{Kind: File, Name: filepath.Join(root.Name(), name), Ours: true, Sure: true}
		if info, err := root.Lstat(name); err == nil {
			l.Created = info.ModTime()
		}
		found = append(found, l)
	}
	return found
}

// RemoveFile removes a file that FilesLeft has listed, and what it stands for.
func RemoveFile(name string) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return tempname.RemoveLeft(root, filepath.Base(name))
}
