package server

import (
	"io"
	"os"
	"sync"
)

// capture collects a command's output and keeps a bounded part of it. The head
// and the tail stay in memory. Once they do not suffice, the whole output, up
// to a limit, goes to a file as well. Writing never fails and never waits for a
// reader.
//
// Once not all of the output fits, a summary keeps a head and a tail as well: of
// the output without the states of lines that carriage returns overwrote. A
// progress bar does not push real lines out of it. Offsets count all of the output.
type capture struct {
	spill func() (*spillFile, error) // makes the file on demand; may be nil

	mu      sync.Mutex // guards the fields below
	head    []byte     // the first bytes, at most headCap
	headCap int
	ring    []byte // the last bytes; a ring buffer once it is tailCap long
	tailCap int
	start   int // where the ring begins once it is full
	total   int64
	file    *spillFile
	summary *summary // nil until the output is long
	spilled bool     // spill was called
	closed  bool
	changed chan struct{} // closed at the next write or at the end; nil while nobody waits
}

func newCapture(head, tail int, spill func() (*spillFile, error)) *capture {
	return &capture{headCap: head, tailCap: max(tail, 1), spill: spill}
}

// Write adds a piece of output.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.spilled && c.total+int64(len(p)) > int64(c.headCap+c.tailCap) {
		if c.headCap > 0 {
			c.summary = newSummary(c.headCap, c.tailCap)
			c.summary.write(c.head)
			c.summary.write(c.ring)
		}
		c.openSpill()
	}
	if c.summary != nil {
		c.summary.write(p)
	}
	if c.file != nil {
		c.file.append(p)
	}
	n := len(p)
	c.total += int64(n)
	if room := c.headCap - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	c.keepTail(p)
	c.notify()
	return n, nil
}

// keepTail appends p to the ring.
func (c *capture) keepTail(p []byte) {
	if len(p) > c.tailCap {
		p = p[len(p)-c.tailCap:]
	}
	if room := c.tailCap - len(c.ring); room > 0 {
		k := min(room, len(p))
		c.ring = append(c.ring, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.ring[c.start:], p)
		c.start = (c.start + k) % c.tailCap
		p = p[k:]
	}
}

// openSpill makes the file and writes the output so far into it. Nothing has
// been dropped up to this point.
func (c *capture) openSpill() {
	c.spilled = true
	if c.spill == nil {
		return
	}
	file, err := c.spill()
	if err != nil {
		return
	}
	c.file = file
	file.append(c.head)
	file.append(c.ring)
}

// end tells those who wait that no more output comes.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.file != nil {
		c.file.finish()
	}
	c.notify()
}

// forget drops what is kept in memory. The file stays.
func (c *capture) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head, c.headCap, c.ring, c.start = nil, 0, nil, 0
	c.summary, c.spilled = nil, true
}

func (c *capture) notify() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// after returns a channel that is closed when there is output beyond offset, or
// when the output has ended.
func (c *capture) after(offset int64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total > offset || c.closed {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// size returns the number of bytes written so far.
func (c *capture) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// keptOutput is what is known of an output.
type keptOutput struct {
	head, tail []byte
	total      int64  // bytes that were printed
	gone       int64  // bytes that are missing since others overwrote them on their line
	path       string // of the file with the whole output, if there is one
	size       int64  // of that file
}

// kept returns the head and the tail of the output.
func (c *capture) kept() keptOutput {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keptOutput{total: c.total}
	if c.file != nil {
		k.path, k.size = c.file.name, c.file.size
	}
	if c.summary != nil {
		k.head, k.tail, k.gone = c.summary.kept()
	} else {
		k.head, k.tail = append([]byte(nil), c.head...), c.tail()
	}
	return k
}

// spillPath returns the path of the file with the whole output, or "".
func (c *capture) spillPath() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return ""
	}
	return c.file.name
}

// clone returns a capture that keeps the same head and tail, and goes on alone.
func (c *capture) clone() *capture {
	return &capture{
		head: append([]byte(nil), c.head...), headCap: c.headCap, ring: append([]byte(nil), c.ring...), tailCap: c.tailCap,
		start: c.start, total: c.total, spilled: true,
	}
}

func (c *capture) tail() []byte {
	return append(append(make([]byte, 0, len(c.ring)), c.ring[c.start:]...), c.ring[:c.start]...)
}

// read returns at most limit bytes from offset on. If those bytes were dropped,
// it continues at the next byte that is still available.
func (c *capture) read(offset int64, limit int) (at int64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset = max(offset, 0)
	tailAt := c.total - int64(len(c.ring))
	if offset < int64(len(c.head)) {
		return offset, clone(c.head[offset:], limit)
	}
	if offset < tailAt && c.file != nil && offset < c.file.size {
		if data := c.file.read(offset, int(min(int64(limit), c.file.size-offset, tailAt-offset))); len(data) > 0 {
			return offset, data
		}
	}
	offset = min(max(offset, tailAt), c.total)
	return offset, clone(c.tail()[offset-tailAt:], limit)
}

func clone(p []byte, limit int) []byte {
	return append([]byte(nil), p[:min(len(p), max(limit, 0))]...)
}

// spillFile is a file that stores output up to a limit. A capture calls its
// methods with its mutex held.
type spillFile struct {
	name  string
	file  *os.File
	limit int64
	size  int64
	full  bool // the limit is reached, or the device has no room left
}

func (f *spillFile) append(p []byte) {
	if f.full || f.file == nil {
		return
	}
	if room := f.limit - f.size; int64(len(p)) > room {
		p, f.full = p[:room], true
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	if err != nil {
		f.full = true
	}
}

// finish ends the writing. The file stays, so that it can still be read.
func (f *spillFile) finish() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// read returns a part of the file. It returns nothing if the file cannot be
// read: commands can remove it.
func (f *spillFile) read(offset int64, limit int) []byte {
	file, err := os.Open(f.name)
	if err != nil {
		return nil
	}
	defer file.Close()
	buf := make([]byte, limit)
	n, err := file.ReadAt(buf, offset)
	if err != nil && err != io.EOF {
		return nil
	}
	return buf[:n]
}
