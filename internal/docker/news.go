package docker

import (
	"sync"

	"github.com/x/pygent/internal/sandbox"
)

// startNews tells that a container takes its time to start. Only the goroutine of the
// start uses it.
type startNews struct {
	name    string
	emit    func(sandbox.Event)
	awaited bool // something was told of the start, and its end is awaited
	stop    func()
}

func newStartNews(name string, emit func(sandbox.Event)) *startNews {
	n := &startNews{name: name, emit: emit}
	n.await()
	return n
}

// await tells of the start if it goes on for a while from now.
func (n *startNews) await() {
	told := false
	end := afterSilence(func() {
		told = true
		n.emit(sandbox.Event{Kind: sandbox.Starting, Container: n.name, Text: "container " + n.name + " is starting"})
	})
	n.stop = sync.OnceFunc(func() {
		end()
		n.awaited = n.awaited || told
	})
}

// pause leaves it to the pull of the image to tell what goes on.
func (n *startNews) pause() {
	n.stop()
	n.awaited = true
}

// end tells nothing any more. It reports whether somebody awaits the end of the start.
func (n *startNews) end() (awaited bool) {
	n.stop()
	return n.awaited
}
