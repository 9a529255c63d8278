package docker

import (
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/survey"
)

// images is what this process knows of images. A container takes longer to start
// than anybody should wait for these few words, and an id names the content of an
// image, so they never become wrong. Only what was found before a command could
// change the container goes in here.
var images imageMemory

// mostImages bounds how many images are remembered, about 1 KiB each.
const mostImages = 64

// imageKey is what the words about an image depend on.
type imageKey struct {
	engine string // its address: another one may lie about ids
	id     string // of the image
	user   string // who runs commands; empty for the image's own
	path   string // where commands search for programs, if that is not as the image says
}

// imageFacts is what is known of an image.
type imageFacts struct {
	shell   string // its path; empty while it is not known
	machine survey.Machine
	looked  bool // machine is known
	looking bool // somebody finds it out
}

// imageMemory remembers the images that were used last. The zero value is ready.
type imageMemory struct {
	mu    sync.Mutex // guards facts and order
	facts map[imageKey]imageFacts
	order []imageKey // the one used last comes last
}

// of returns what is known of an image.
func (m *imageMemory) of(key imageKey) imageFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.facts[key]
}

// learn changes what is known of an image.
func (m *imageMemory) learn(key imageKey, change func(*imageFacts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(key, change)
}

// claim reports whether the caller is the one who is to find out what an image
// has.
func (m *imageMemory) claim(key imageKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.facts[key]; f.looked || f.looking {
		return false
	}
	m.change(key, func(f *imageFacts) { f.looking = true })
	return true
}

// change is learn for a caller who holds mu.
func (m *imageMemory) change(key imageKey, change func(*imageFacts)) {
	if m.facts == nil {
		m.facts = map[imageKey]imageFacts{}
	}
	m.order = append(slices.DeleteFunc(m.order, func(k imageKey) bool { return k == key }), key)
	if len(m.order) > mostImages {
		delete(m.facts, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
	f := m.facts[key]
	change(&f)
	m.facts[key] = f
}

// lookTime bounds how long a start waits for what its container has.
const lookTime = time.Second

// look finds out what a container has in which nothing has run yet, unless that is
// known of its image, or another start finds it out.
func (c *commander) look(box *Container, key imageKey, shared bool) (m survey.Machine, ok bool) {
	if shared && !images.claim(key) {
		return m, false
	}
	m, ok = sandbox.LookAt(c.life, box.commands, c.config.Env, lookTime)
	if shared {
		images.learn(key, func(f *imageFacts) { f.machine, f.looked, f.looking = m, ok, false })
	}
	return m, ok
}

// knownShell is the shell of the image, if it is known and nothing is mounted that
// could be another.
func (c *commander) knownShell() string {
	if !c.unchanged {
		return ""
	}
	return images.of(c.image).shell
}

func (c *commander) learnShell(shell string) {
	if c.unchanged {
		images.learn(c.image, func(f *imageFacts) { f.shell = shell })
	}
}

// keyOf names an image in the memory. ok is false for containers that differ from
// their image, since something is mounted in them: nothing is remembered of those.
func (c *commander) keyOf(id string) (key imageKey, ok bool) {
	path, _ := sandbox.SearchPath(c.config.Env)
	return imageKey{c.engine.DaemonHost(), id, c.config.User, path}, id != "" && len(c.config.Mounts) == 0
}
