// Package callback tells a method whether it was called from within a callback.
// One that waits for callbacks to return would wait for itself there: with a
// [Guard] it can refuse at once.
package callback

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// Guard knows which goroutines are in a callback. The zero Guard is ready to
// use, and safe for concurrent use.
//
// A goroutine that the callback starts is not in it: whoever has that one call
// back, and waits for it, is not found out.
type Guard struct {
	mu      sync.Mutex
	running map[ID]int // how many callbacks deep
}

// ID tells goroutines apart. Zero is that of none.
type ID uint64

// Enter notes that the goroutine called id runs a callback, until it calls leave.
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

// Inside reports whether the goroutine is in a callback.
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

// Self returns the goroutine's own ID, which the first line of its stack shows:
// "goroutine 7 [running]:". Go offers no other way to know, and this one takes
// some microseconds. It is 0, which is never found inside, if that line changes.
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
