package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/survey"
	"github.com/x/pygent/internal/toolchain"
)

// Machine returns what is known by now of where commands run. It waits for nothing
// and starts nothing.
func (r *Sandbox) Machine() (survey.Machine, bool) {
	s, ok := r.commands.(Surveyor)
	if !ok || r.isClosed() {
		return survey.Machine{}, false
	}
	return s.Machine()
}

// Aside runs a short command that is not the user's or the model's, and returns
// what it printed. ok is false unless it ended well within the limit. It waits for
// a container that is being started, but starts none.
func (r *Sandbox) Aside(ctx context.Context, script string, limit time.Duration) (output string, ok bool) {
	s, surveys := r.commands.(Surveyor)
	ctx, done, err := r.begin(ctx)
	if err != nil || !surveys {
		return "", false
	}
	defer done()
	cmd, err := r.complete(ctx, Command{Script: script, Dir: ".", Timeout: limit, MaxOutput: maxAside})
	if err != nil {
		return "", false
	}
	res, err := s.Aside(ctx, cmd)
	return res.Output, err == nil && res.endedWell()
}

// maxAside is how many bytes of output are kept of a command that is run aside.
const maxAside = 4 << 10

func (r Result) endedWell() bool { return r.ExitCode == 0 && !r.TimedOut && !r.Truncated }

// LookAt asks a commander what its machine has, by a command that gets the path of
// the given variables and no other.
func LookAt(ctx context.Context, c Commander, env []string, limit time.Duration) (survey.Machine, bool) {
	cmd := Command{Script: survey.MachineScript(), Dir: ".", Timeout: limit, MaxOutput: maxAside}
	if path, ok := SearchPath(env); ok {
		cmd.Env = []string{"PATH=" + path}
	}
	res, err := c.Run(ctx, cmd)
	if err != nil || !res.endedWell() {
		return survey.Machine{}, false
	}
	return survey.ReadMachine(res.Output)
}

// SearchPath returns where commands with the variables env search for programs, if
// they say so.
func SearchPath(env []string) (path string, ok bool) {
	for _, v := range env {
		if value, is := strings.CutPrefix(v, "PATH="); is {
			path, ok = value, true
		}
	}
	return path, ok
}

// local is what this process knows of its own machine. A look takes less time than
// a command would, but too much for each of many agents.
var local machines

// machines remembers what commands find here, by a hash of what that depends on: their
// environment and protection. The zero value is ready.
type machines struct {
	mu    sync.Mutex // guards known; not held while somebody looks
	known map[[sha256.Size]byte]*knownMachine
}

// knownMachine is what the first who asks finds. Others who want the same wait.
type knownMachine struct {
	once    sync.Once
	machine survey.Machine // after once
	until   time.Time      // does not change
}

// Bounds of what is remembered. Somebody may install a program at any time.
const (
	mostMachines = 16
	machineLasts = time.Minute
)

func (m *machines) get(key [sha256.Size]byte, look func() survey.Machine) survey.Machine {
	k := m.entry(key)
	k.once.Do(func() { k.machine = look() })
	return k.machine
}

func (m *machines) entry(key [sha256.Size]byte) *knownMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.known[key]; k != nil && time.Now().Before(k.until) {
		return k
	}
	if len(m.known) >= mostMachines || m.known == nil {
		m.known = map[[sha256.Size]byte]*knownMachine{}
	}
	k := &knownMachine{until: time.Now().Add(machineLasts)}
	m.known[key] = k
	return k
}

// Machine looks at this machine, unless this process has done so just now.
func (c *localCommander) Machine() (survey.Machine, bool) {
	env := c.env
	if path, ok := SearchPath(slices.Concat(c.env, c.given)); ok {
		env = append(env[:len(env):len(env)], "PATH="+path+c.besideShell())
	}
	extra := slices.Concat(c.readable, c.writable)
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", env, extra, c.level))
	return local.get(key, func() survey.Machine {
		return survey.Find(systemName(), toolchain.Runs(env, c.level != confine.None, extra...))
	}), true
}

// besideShell returns what the shell that comes with Git for Windows adds to the
// search path, with a separator before it.
func (c *localCommander) besideShell() string {
	if runtime.GOOS != "windows" {
		return ""
	}
	at := filepath.Dir(c.path)
	more := []string{"", at, filepath.Join(at, "..", "usr", "bin"), filepath.Join(at, "..", "mingw64", "bin"), filepath.Join(at, "..", "..", "mingw64", "bin")}
	return strings.Join(more, string(filepath.ListSeparator))
}

// systemName names the operating system.
func systemName() string {
	switch runtime.GOOS {
	case "darwin":
		return "macOS"
	case "windows":
		return "Windows"
	}
	release, _ := os.ReadFile("/etc/os-release")
	return cmp.Or(survey.PrettyName(string(release)), runtime.GOOS)
}

// Aside implements [Surveyor]. It starts no guest in the place of one that died:
// what that has left is for the next command to tell.
func (c *localCommander) Aside(ctx context.Context, cmd Command) (Result, error) {
	g, err := c.healthy(ctx)
	if err != nil {
		return Result{ExitCode: -1}, err
	}
	return g.Run(ctx, cmd)
}

func (c *localCommander) healthy(ctx context.Context) (*GuestCommander, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if c.current != nil && !c.current.Client.Alive() {
		return nil, guest.ErrClosed
	}
	return c.live(ctx)
}
