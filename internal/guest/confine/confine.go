// Package confine shuts the guest of the local runtime, and with it every
// command, off from the rest of the machine. It is done once, before the guest
// begins: what is confined then executes the guest, and nothing costs a command
// any time.
//
// There are two levels. [Files] is Landlock: files outside of the [Policy] can
// be neither read nor changed, but their names, modes and times can, and unix
// sockets and other processes can be reached. [Full] adds namespaces: a root
// directory in which nothing else exists, processes that see only each other,
// and no capability but those of a container.
//
// Neither restricts the network.
package confine

import "github.com/x/pygent/internal/guest/wire"

// Level says how far a guest is confined.
type Level int

// The levels, each of which holds more than the one before.
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

// Names (argv[0]) by which the guest's program knows what to be.
const (
	// Name is a guest that is still to be confined: it reads a frame with its
	// [Policy] from stdin, and then executes itself as Confined.
	Name = "pygent-confine"
	// TryName tries out a policy of its own, and writes to stdout the version
	// of Landlock that the kernel has.
	TryName = "pygent-try"
	// Keeper is what stays outside when a guest is confined without namespaces:
	// it starts the guest as Name, and kills what outlives it.
	Keeper = "pygent-keeper"
	// Confined is a guest on the host's own machine.
	Confined = "pygent-guest"
)

// Bounds of a policy.
const (
	maxPaths = 4096
	// MaxPolicy is the largest policy, in bytes.
	MaxPolicy = 1 << 20
)

// Policy is what a guest may reach besides the system's programs, libraries and
// settings. Paths are absolute. Those that do not exist are left out.
type Policy struct {
	Level Level
	Read  []string // may be read and executed
	Write []string // may be written as well

	// Temp is a private directory for temporary files, which may be written.
	// Where there are namespaces it also is /tmp.
	Temp string

	// MapUser says that the guest is in a user namespace of its own, in which
	// it makes itself UID and GID.
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

// Support is what the kernel, and its administrator, allow.
type Support struct {
	Level    Level
	Landlock int    // the version of Landlock; 0 where there is none
	Why      string // there is not more; empty for Full
}

// Usable is the first version of Landlock that does, for moving files between
// directories can be allowed; the others are the first that restrict something.
const (
	Usable    = 2
	truncates = 3
	scopes    = 6 // signals and abstract sockets
	sockets   = 9 // unix sockets that have a path
)

// Sure reports whether no command can get away: what kills the last of them is
// out of their reach.
func (s Support) Sure() bool {
	return s.Level == Full || s.Level == Files && s.Landlock >= scopes
}

// Gaps names what the level leaves open besides the network.
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
