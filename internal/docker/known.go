package docker

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/survey"
)

// images is what this process knows of images. A container takes longer to start
// than anybody should wait for these few words, and an id names the content of an
// image, so they never become wrong. Only what was found before a command could
// change the container goes in here. It is kept for later processes too.
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

// subject names the key for [owner.Self.Learn]. What is learned also depends on what
// is asked, which another version may ask otherwise.
func (k imageKey) subject() string {
	return fmt.Sprintf("image %q %q %q %q %q", k.engine, k.id, k.user, k.path, survey.MachineScript())
}

// imageFacts is what is known of an image.
type imageFacts struct {
	shell   string // its path, one of shells; empty while it is not known
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

// learned is what is kept of an image for later processes, as JSON.
type learned struct {
	Shell  string   `json:"shell"`
	System string   `json:"system,omitempty"`
	Found  []string `json:"found,omitempty"`
}

// encode returns the words that [readFacts] reads.
func (f imageFacts) encode() []byte {
	words, _ := json.Marshal(learned{f.shell, f.machine.System, f.machine.Found}) // strings never fail
	return words
}

// readFacts reads what an earlier process learned of an image. It goes through the
// same sieve as what a container tells.
func readFacts(words []byte) (f imageFacts, ok bool) {
	var l learned
	if json.Unmarshal(words, &l) != nil || !slices.Contains(shells, l.Shell) {
		return f, false
	}
	has := func(program string) bool { return slices.Contains(l.Found, program) }
	return imageFacts{shell: l.Shell, machine: survey.Find(l.System, has), looked: true}, true
}

// recall adds what earlier processes have learned of the image.
func (c *commander) recall() {
	if !c.unchanged || images.of(c.image).looked {
		return
	}
	if known, ok := readFacts(c.spec.self.Known(c.image.subject())); ok {
		images.learn(c.image, func(f *imageFacts) { f.shell, f.machine, f.looked = known.shell, known.machine, true })
	}
}

// pass keeps what is known of an image for later processes.
func (c *commander) pass(key imageKey) {
	facts := images.of(key)
	if !facts.looked || facts.shell == "" {
		return
	}
	if err := c.spec.self.Learn(key.subject(), facts.encode()); err != nil {
		c.config.Logger.Debug("what is known of an image is not kept for later", "image", key.id, "error", err)
	}
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
		c.pass(key)
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
