package docker

import "github.com/x/pygent/internal/sandbox"

// boundedOutput keeps the first and the last bytes written to it, and counts
// the rest. Its memory does not grow with what is written.
type boundedOutput struct {
	head, tail []byte // tail is a ring once it is full
	headMax    int
	tailMax    int
	start      int   // where the ring's oldest byte is
	total      int64 // bytes written

	live func(offset int64, data []byte) // is passed all of it; may be nil
}

func newBoundedOutput(limit int) *boundedOutput {
	return &boundedOutput{headMax: (limit + 1) / 2, tailMax: limit / 2}
}

// Write takes all of p and never fails.
func (b *boundedOutput) Write(p []byte) (int, error) {
	n := len(p)
	if b.live != nil && n > 0 {
		b.live(b.total, p)
	}
	b.total += int64(n)
	k := min(b.headMax-len(b.head), len(p))
	b.head = append(b.head, p[:k]...)
	p = p[k:]
	if len(p) > b.tailMax {
		p = p[len(p)-b.tailMax:]
	}
	k = min(b.tailMax-len(b.tail), len(p))
	b.tail = append(b.tail, p[:k]...)
	for p = p[k:]; len(p) > 0; p = p[k:] {
		k = copy(b.tail[b.start:], p)
		b.start = (b.start + k) % b.tailMax
	}
	return n, nil
}

// into sets the output of a result.
func (b *boundedOutput) into(r *sandbox.Result) {
	tail := append(b.tail[b.start:len(b.tail):len(b.tail)], b.tail[:b.start]...)
	r.SetOutput(b.head, tail, b.total-int64(len(b.head))-int64(len(tail)))
}
