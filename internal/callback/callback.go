// Package callback tells a method whether it was called from within a callback.
// A method that waits for callbacks to return would then wait for itself. With
// a [Guard] it can return an error instead.
package callback

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// Guard knows which goroutines are in a callback. The zero Guard is ready to
// use, and safe for concurrent use.
// A goroutine that the callback starts does not count as inside it. If such a
// goroutine calls the method, and the callback waits for it, that is not
// detected.
type Guard struct {
	mu      sync.Mutex
	running map[ID]int // how many callbacks deep
}

// ID identifies a goroutine. Zero stands for none.
type ID uint64

// Enter records that the goroutine called id runs a callback, until leave is
// called.
func (g *Guard) Enter(id ID) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = map[ID]int{}
	}
	g.running[id]++
	return func() { g.leave(id) }
}

func (g *Guard) leave(id ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[id]--; g.running[id] == 0 {
		delete(g.running, id)
	}
}

// Inside reports whether the calling goroutine runs a callback.
func (g *Guard) Inside() bool {
	g.mu.Lock()
	none := len(g.running) == 0
	g.mu.Unlock()
	if none { // most callers need not know who they are
		return false
	}
	id := Self()
	g.mu.Lock()
	defer g.mu.Unlock()
	return id != 0 && g.running[id] > 0
}

// Self returns the calling goroutine's ID. It reads the first line of the
// stack, "goroutine 7 [running]:", which takes some microseconds, because Go
// offers no other way. If that line ever changes its form, Self returns 0,
// which is never inside.
func Self() ID {
	var b [40]byte
	line := b[:runtime.Stack(b[:], false)]
	number, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return ID(id)
}
