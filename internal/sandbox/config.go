package sandbox

import (
	"log/slog"
	"time"

	"github.com/x/pygent/internal/owner"
)

// Config is what a sandbox is made of, wherever its commands run.
type Config struct {
	Workspace    string        // a directory, which is kept; empty for a temporary one
	InitialFiles []InitialFile // what the workspace begins with
	Env          []string      // of every command, as [ResolveEnv] returns it
	Publish      []Publication
	ReadLimit    int64    // of ReadFile, in bytes
	CopyLimit    int64    // of what is copied to this machine at once, in bytes of data
	Repositories []string // git directories, or what holds them, that commands may use outside of the workspace
	Pace         Pace
	Events       *Events
	Logger       *slog.Logger

	KeepLeftovers bool        // of earlier processes
	Owner         *owner.Self // nil is this process
}

// Self is the owner of what a sandbox makes.
func (c Config) Self() *owner.Self {
	if c.Owner != nil {
		return c.Owner
	}
	return owner.Here()
}

// Pace are waiting times around a guest, as in [guest.Config]. Zero is the
// default. Tests set shorter ones.
type Pace struct {
	Patience  time.Duration
	KeepAlive time.Duration
	Silence   time.Duration // of the host, in a container
	Cleanup   time.Duration // for removing what is on the engine; default cleanupTime
	Rest      time.Duration // without a call, after which a guest on this machine is ended; default restAfter
}
