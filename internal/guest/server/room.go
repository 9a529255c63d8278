package server

import (
	"sync"

	"github.com/hashicorp/yamux"
)

// room limits how many requests do something at the same time. It holds one
// token for each of them.
type room chan struct{}

// enter waits for a place, which leave gives back.
func (r room) enter() { r <- struct{}{} }

func (r room) leave() { <-r }

// A Widener is a stream that can have a larger buffer on its way to the host. What
// passes bodies on to the host takes them in small pieces, and wakes the guest for each
// that finds no room in the buffer. The kernel shares such buffers out, so that nobody
// keeps a large one for nothing.
type Widener interface {
	Widen(wide bool)
}

// bodies is the room of long bodies to the host. Its stream is wide while there are any.
type bodies struct {
	room
	widen func(wide bool)

	mu    sync.Mutex // guards count, and is held while the stream changes
	count int
}

func newBodies() *bodies { return &bodies{room: make(room, maxBodies), widen: func(bool) {}} }

func (b *bodies) enter() {
	b.room.enter()
	b.add(1)
}

func (b *bodies) leave() {
	b.add(-1)
	b.room.leave()
}

func (b *bodies) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.count
	if b.count += n; (b.count == 0) != (before == 0) {
		b.widen(b.count > 0)
	}
}

// shortBody is the length of a body, in bytes, that fits into the window of a
// stream, so that sending it does not wait for the host.
const shortBody = 128 << 10

// fileStream is the stream of a request that has a place among those that
// access files. It gives the place to others while it waits for the host.
type fileStream struct {
	*yamux.Stream
	files room
}

// body waits for a place for a long body. The returned function gives it back.
func (s *fileStream) body(r interface {
	enter()
	leave()
}) (leave func()) {
	s.files.leave()
	defer s.files.enter()
	r.enter()
	return r.leave
}

// Read implements io.Reader.
func (s *fileStream) Read(p []byte) (int, error) {
	s.files.leave()
	defer s.files.enter()
	return s.Stream.Read(p)
}

// Write implements io.Writer.
func (s *fileStream) Write(p []byte) (int, error) {
	s.files.leave()
	defer s.files.enter()
	return s.Stream.Write(p)
}
