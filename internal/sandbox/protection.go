package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/toolchain"
	"github.com/x/pygent/internal/workspace"
)

// Protection says how far the commands of a sandbox on this machine are kept from
// the rest of it.
type Protection struct {
	Level string // "full", "files" or "none"
	Note  string // what it leaves open, and why there is no more of it
}

// supportFor decides how far commands are confined, in a workspace.
func (l LocalConfig) supportFor(ctx context.Context, dir string) (confine.Support, error) {
	s := confine.Support{Why: "it is turned off"}
	if !l.Unprotected {
		s = l.confinement(ctx)
	}
	if filepath.Dir(dir) == dir && s.Level != confine.None {
		s = confine.Support{Why: "the workspace is the whole file system"}
	}
	if l.MustProtect && s.Level == confine.None {
		return s, fmt.Errorf("%w: %w: %s", ErrStart, ErrUnprotected, s.Why)
	}
	return s, nil
}

// describeProtection says in a note what a level leaves open, what does not work,
// and why it is not a higher one.
func describeProtection(s confine.Support, dir string) Protection {
	var notes []string
	if s.Level != confine.None {
		notes = append(notes, "open: "+strings.Join(append([]string{"the network"}, s.Gaps()...), ", "))
	}
	if home, err := os.UserHomeDir(); err == nil && s.Level != confine.None && holds(dir, home) {
		notes = append(notes, "the workspace holds your home directory, with all that is in it")
	}
	if s.Why != "" {
		notes = append(notes, "no more protection: "+s.Why)
	}
	return Protection{Level: s.Level.String(), Note: strings.Join(notes, "; ")}
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
func (l LocalConfig) tellMissingPaths(events *Events) {
	for _, path := range slices.Concat(l.Readable, l.Writable) {
		if _, err := os.Stat(path); err != nil {
			events.Tell(Event{Kind: Limited, Text: fmt.Sprintf("commands cannot be given a path of local.readable or local.writable: %v", err)})
		}
	}
}

// confined is how a guest is started: its environment, what it may reach, and
// where its temporary files are.
type confined struct {
	env    []string
	policy *confine.Policy // nil for everything
	temp   string          // removed when the guest has ended; may be empty
}

// confineGuest prepares the start of a guest, with the temporary files of the one
// before if those are still there. The caller has the turn.
func (c *localCommander) confineGuest() error {
	if c.level == confine.None {
		c.place = confined{env: c.env}
		return nil
	}
	if now, err := os.Lstat(c.dir); err != nil || !os.SameFile(now, c.was) {
		// Who may write the directory above can put a link to anything there.
		return errMoved
	}
	if err := c.makeTemp(); err != nil {
		return err
	}
	temp := c.place.temp
	cache, err := localCache()
	if err != nil {
		// A new one, since earlier commands may have put a link to anything in its place.
		if cache, err = os.MkdirTemp(temp, "cache-"); err != nil {
			return err
		}
	}
	policy := guest.NewPolicy(c.level, temp)
	git := c.showRepository()
	policy.Write = slices.Concat([]string{c.dir, cache}, c.writable, git.Writes())
	tools := toolchain.Find(c.env, cache, policy.Write...)
	c.elsewhere = git.Elsewhere(c.dir)
	policy.Read = slices.Concat(tools.Read, c.readable, git.reads(), c.elsewhere)
	env := slices.Concat(c.env, tools.Env, []string{"TMPDIR=" + temp})
	if c.level == confine.Files { // /tmp is the machine's
		env = append(env, toolchain.Temporary(env, temp)...)
	}
	c.place = confined{env: env, policy: policy, temp: temp}
	return nil
}

// showRepository returns what commands may use of the repository: nothing from now on if
// something else is in its place.
func (c *localCommander) showRepository() Repository {
	if moved := c.repository.Moved(); moved != "" {
		note := MovedNote(moved)
		if c.notes.Learn(note) {
			c.emit(Event{Kind: Limited, Text: note})
		}
		c.repository = Repository{}
	}
	return c.repository
}

// isMoved reports whether what a guest has just opened of the repository may be something
// else than what was looked at.
func (c *localCommander) isMoved() bool {
	now := c.repository.Elsewhere(c.dir)
	gone := func(name string) bool { return !slices.Contains(now, name) }
	return c.level != confine.None && (c.repository.Moved() != "" || slices.ContainsFunc(c.elsewhere, gone))
}

// makeTemp makes the directory for temporary files, unless there is one. A cleaner of
// the machine may have removed it while nothing ran, and another user may have made
// something of that name since.
func (c *localCommander) makeTemp() error {
	if workspace.IsTemp(c.place.temp) {
		return nil
	}
	_ = c.place.remove() // fails for what others have put there, which is theirs
	c.place = confined{}
	temp, err := workspace.MakeTemp(false)
	c.place.temp = temp
	return err
}

// errMoved is the error when a workspace's path no longer leads to the workspace.
var errMoved = errors.New("the workspace is not the directory any more that it was")

// errRepositoryMoved is the error when the repository was replaced while a guest started.
// The next one is shown nothing of it, or what is there then.
var errRepositoryMoved = errors.New("git's directories outside of the workspace were replaced while commands were made ready; try again")

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
	root, err := owner.OpenPrivate(dir) // fails where root has been in our place, or another user is
	if err != nil {
		return "", err
	}
	return dir, root.Close()
}
