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
	running map[uint64]int // by goroutine, how many callbacks deep
}

// Enter notes that the goroutine runs a callback, until it calls leave.
func (g *Guard) Enter() (leave func()) {
	id := goroutine()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = map[uint64]int{}
	}
	g.running[id]++
	return func() { g.leave(id) }
}

func (g *Guard) leave(id uint64) {
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
	id := goroutine()
	g.mu.Lock()
	defer g.mu.Unlock()
	return id != unknown && g.running[id] > 0
}

// unknown is the number of a goroutine that cannot be told from others. It is
// never found inside.
const unknown = 0

// goroutine returns the number of the goroutine, which the first line of its
// stack shows: "goroutine 7 [running]:". Go offers no other way to know.
func goroutine() uint64 {
	var b [40]byte
	line := b[:runtime.Stack(b[:], false)]
	number, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return unknown
	}
	return id
}
