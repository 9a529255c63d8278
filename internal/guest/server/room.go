package server

import "github.com/hashicorp/yamux"

// room limits how many requests do something at the same time. It holds one
// token for each of them.
type room chan struct{}

// enter waits for a place, which leave gives back.
func (r room) enter() { r <- struct{}{} }

func (r room) leave() { <-r }

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
func (s *fileStream) body(r room) (leave func()) {
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
