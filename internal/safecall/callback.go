package safecall

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// Reentry knows which goroutines are in a callback. The zero Reentry is ready to
// use, and safe for concurrent use.
//
// A goroutine that the callback starts does not count as inside it. If such a
// goroutine calls the method, and the callback waits for it, that is not
// detected.
type Reentry struct {
	mu      sync.Mutex
	running map[Goroutine]int // how many callbacks deep
}

// Goroutine identifies a goroutine. Zero stands for none.
type Goroutine uint64

// Enter records that the goroutine called id runs a callback, until leave is
// called, once.
func (g *Reentry) Enter(id Goroutine) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = map[Goroutine]int{}
	}
	g.running[id]++
	return func() { g.leave(id) }
}

func (g *Reentry) leave(id Goroutine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[id]--; g.running[id] == 0 {
		delete(g.running, id)
	}
}

// Inside reports whether the calling goroutine runs a callback.
func (g *Reentry) Inside() bool {
	g.mu.Lock()
	none := len(g.running) == 0
	g.mu.Unlock()
	if none { // most callers need not know who they are
		return false
	}
	id := Current()
	g.mu.Lock()
	defer g.mu.Unlock()
	return id != 0 && g.running[id] > 0
}

// Current returns the calling goroutine's ID. It reads the first line of the
// stack, "goroutine 7 [running]:", which takes some microseconds, because Go
// offers no other way. If that line ever changes its form, Current returns 0,
// which is never inside.
func Current() Goroutine {
	var b [40]byte
	line := b[:runtime.Stack(b[:], false)]
	number, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return Goroutine(id)
}
