// Package confine cuts the guest of the local runtime, and with it every command,
// off from the rest of the machine. This happens once, before the guest starts: a
// process confines itself and then executes the guest. A single command therefore
// costs no extra time.
//
// There are two levels. [Files] uses Landlock. The content of files outside of
// the [Policy] can be neither read nor changed. Their names, modes and times can
// be seen, modes and times can be changed, and Unix sockets and other processes
// can be reached. [Full] adds namespaces: a root directory that holds nothing
// else, processes that see only each other, and no capabilities but those of a
// container.
//
// Neither level restricts the network.
package confine

import "github.com/x/pygent/internal/guest/wire"

// Level is how far a guest is confined.
type Level int

// The levels, from the weakest to the strongest. Each includes the one before.
const (
	None Level = iota
	Files
	Full
)

// String returns "none", "files" or "full".
func (l Level) String() string {
	switch l {
	case Files:
		return "files"
	case Full:
		return "full"
	default:
		return "none"
	}
}

// Names (argv[0]) that tell the guest's program which role it has.
const (
	// Name is a guest that is not confined yet. It reads a frame with its
	// [Policy] from stdin, confines itself, and executes itself as Confined.
	Name = "pygent-confine"
	// TryName tests whether a policy can be applied. It writes the kernel's
	// version of Landlock to stdout.
	TryName = "pygent-try"
	// Keeper is the process that stays outside when a guest is confined without
	// namespaces. It starts the guest as Name, and kills the processes that
	// outlive it.
	Keeper = "pygent-keeper"
	// Confined is a guest that runs on the host's own machine.
	Confined = "pygent-guest"
)

// Bounds of a policy.
const (
	maxPaths = 4096
	// MaxPolicy is the largest policy, in bytes.
	MaxPolicy = 1 << 20
)

// Policy is what a guest may reach in addition to the system's programs,
// libraries and settings. Paths are absolute. Paths that do not exist are
// ignored.
type Policy struct {
	Level Level
	Read  []string // may be read and executed
	Write []string // may also be written

	// Temp is a private directory for temporary files, which may be written. With
	// namespaces it is also mounted at /tmp.
	Temp string

	// MapUser means that the guest is in a user namespace of its own and maps
	// itself to UID and GID there.
	MapUser  bool
	UID, GID int
}

// Fields implements [wire.Message].
func (p *Policy) Fields(c *wire.Codec) {
	c.Small((*int)(&p.Level))
	c.Strings(&p.Read, maxPaths, wire.MaxPath)
	c.Strings(&p.Write, maxPaths, wire.MaxPath)
	c.String(&p.Temp, wire.MaxPath)
	c.Bool(&p.MapUser)
	c.Small(&p.UID)
	c.Small(&p.GID)
}

// Support is what the kernel and the machine's administrator allow.
type Support struct {
	Level    Level
	Landlock int    // the version of Landlock; 0 if there is none
	Why      string // why no higher level is available; empty for Full
}

// Versions of Landlock. Usable is the first that is good enough: older ones
// forbid to move files between directories. Each of the others is the first that
// restricts one more thing.
const (
	Usable    = 2
	truncates = 3
	scopes    = 6 // signals and abstract Unix sockets
	sockets   = 9 // Unix sockets with a path
)

// Sure reports whether no command can escape. It is so when no command can reach
// the process that kills those left over.
func (s Support) Sure() bool {
	return s.Level == Full || s.Level == Files && s.Landlock >= scopes
}

// Gaps names what the level leaves open, apart from the network.
func (s Support) Gaps() []string {
	var gaps []string
	add := func(open bool, what string) {
		if open {
			gaps = append(gaps, what)
		}
	}
	switch s.Level {
	case Full:
		add(s.Landlock < scopes, "abstract sockets")
	case Files:
		add(true, "names, modes and times of other files")
		add(s.Landlock < truncates, "truncating other files")
		add(s.Landlock < sockets, "unix sockets such as Docker's")
		add(s.Landlock < scopes, "signals to other processes")
		add(true, "shared memory")
		add(true, "the list of processes")
		add(true, "the user's terminals")
	}
	return gaps
}
