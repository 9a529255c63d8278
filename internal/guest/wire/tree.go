package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"

	"github.com/x/pygent/internal/treedir"
)

// Limits of requests about trees.
const (
	MaxFetch    = 256      // files of one KindFetch
	MaxTreeName = 64 << 10 // bytes of a path from the top of a tree
	maxListed   = MaxTreeName + treedir.MaxTarget + maxText + 256
)

// Listed is what a scan or a fetch tells about a name. Only what differs from the
// entry before is sent.
type Listed struct {
	treedir.Entry
	before *treedir.Entry
}

// Fields implements [Message].
func (m *Listed) Fields(c *Codec) {
	shared := 0
	for shared < min(len(m.Name), len(m.before.Name)) && m.Name[shared] == m.before.Name[shared] {
		shared++
	}
	rest := m.Name[shared:]
	c.Small(&shared)
	c.String(&rest, MaxTreeName)
	if shared < 0 || shared > len(m.before.Name) || shared+len(rest) > MaxTreeName {
		c.fail("%d bytes of a name of %d", shared, len(m.before.Name))
		return
	}
	m.Name = m.before.Name[:shared] + rest
	mode, inode := int64(m.Mode), int64(m.Inode)
	c.Int(&mode)
	c.Int(&m.Size)
	c.delta(&m.ModTime, m.before.ModTime)
	c.delta(&m.ChangeTime, m.ModTime)
	c.delta(&inode, int64(m.before.Inode))
	c.Bool(&m.Ignores)
	c.String(&m.Target, treedir.MaxTarget)
	m.Mode, m.Inode = fs.FileMode(mode), uint64(inode)
	m.Err = c.failure(m.Err)
}

// delta codes a number as its distance from another one.
func (c *Codec) delta(v *int64, from int64) {
	d := *v - from
	c.Int(&d)
	*v = from + d
}

// failure codes an error, or that there is none.
func (c *Codec) failure(err error) error {
	bad := err != nil
	c.Bool(&bad)
	if !bad {
		return nil
	}
	f := &Failure{}
	if err != nil {
		f = AsFailure(err)
	}
	f.Fields(c)
	return f
}

// ListWriter sends entries in a body.
type ListWriter struct {
	w      io.Writer
	before treedir.Entry
	buf    []byte
}

// NewListWriter returns a writer of entries to a body.
func NewListWriter(w io.Writer) *ListWriter { return &ListWriter{w: w} }

// Write sends an entry.
func (l *ListWriter) Write(e treedir.Entry) error {
	if len(e.Target) > treedir.MaxTarget {
		e.Target = "" // the host leaves it out
	}
	m := &Listed{Entry: e, before: &l.before}
	const room = binary.MaxVarintLen64
	b, err := Encode(append(l.buf[:0], make([]byte, room)...), m)
	if err != nil {
		return err
	}
	l.buf = b
	var size [room]byte
	n := binary.PutUvarint(size[:], uint64(len(b)-room))
	copy(b[room-n:], size[:n])
	l.before = e
	_, err = l.w.Write(b[room-n:])
	return err
}

// ListReader reads what a [ListWriter] and others have written to a body. Nothing
// of it is to be trusted, but that it keeps the limits.
type ListReader struct {
	r      *bufio.Reader
	before treedir.Entry
	buf    []byte
}

// NewListReader returns a reader of a body.
func NewListReader(r io.Reader) *ListReader { return &ListReader{r: bufio.NewReaderSize(r, 32<<10)} }

// Next returns the next entry, or io.EOF at the end of the body.
func (l *ListReader) Next() (treedir.Entry, error) {
	n, err := l.Length(maxListed)
	if err != nil {
		return treedir.Entry{}, err
	}
	if cap(l.buf) < n {
		l.buf = make([]byte, n)
	}
	if _, err := io.ReadFull(l.r, l.buf[:n]); err != nil {
		return treedir.Entry{}, unexpected(err)
	}
	m := &Listed{before: &l.before}
	if err := Decode(l.buf[:n], m); err != nil {
		return treedir.Entry{}, err
	}
	l.before = m.Entry
	return m.Entry, nil
}

// Length reads a length of at most limit. It returns io.EOF at the end of the
// body.
func (l *ListReader) Length(limit int) (int, error) {
	n, err := binary.ReadUvarint(l.r)
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("%w: length %d, at most %d are allowed", ErrMalformed, n, limit)
	}
	return int(n), nil
}

// Read implements io.Reader.
func (l *ListReader) Read(p []byte) (int, error) { return l.r.Read(p) }

// MaxPiece is the size of the largest piece of a file's content, in bytes.
const MaxPiece = 32 << 10

// WritePiece sends a piece of a file's content; an empty one ends it.
func WritePiece(w io.Writer, p []byte) error {
	var size [binary.MaxVarintLen64]byte
	if _, err := w.Write(size[:binary.PutUvarint(size[:], uint64(len(p)))]); err != nil {
		return err
	}
	_, err := w.Write(p)
	return err
}

// Skip tells the guest that nothing more is needed of a directory: that of an
// entry of the scan, counted from 0.
type Skip struct{ Entry int64 }

// Fields implements [Message].
func (m *Skip) Fields(c *Codec) { c.Int(&m.Entry) }

// Names names files of the workspace. The answer is a body with, for each of
// them, a [Listed]; if that has no error, pieces of the content, each after its
// length, a length of 0, and a Listed that describes the file after its reading.
type Names struct{ Names []string }

// Fields implements [Message].
func (m *Names) Fields(c *Codec) { c.Strings(&m.Names, MaxFetch, MaxTreeName) }

// Step asks for a step; a body with the content of the new file follows.
type Step struct{ treedir.Step }

// Fields implements [Message].
func (m *Step) Fields(c *Codec) {
	c.String(&m.Name, MaxTreeName)
	c.item(&m.Old)
	c.item(&m.New)
	c.Bool(&m.Times)
	c.String(&m.Aside, maxName)
	c.Bool(&m.Again)
}

func (c *Codec) item(i *treedir.Item) {
	kind, mode, content := int64(i.Kind), int64(i.Mode), i.Content[:]
	c.Int(&kind)
	c.Int(&mode)
	c.Int(&i.Size)
	c.Int(&i.ModTime)
	c.String(&i.Target, treedir.MaxTarget)
	c.Bytes(&content, treedir.HashSize)
	if kind < 0 || kind > 255 || len(content) != treedir.HashSize {
		c.fail("an item of kind %d", kind)
		return
	}
	i.Kind, i.Mode, i.Content = treedir.Kind(kind), fs.FileMode(mode), treedir.Hash(content)
}

// Made answers a [Step].
type Made struct {
	Conflict bool // it was not made
	Why      string
	Kept     string
}

// Fields implements [Message].
func (m *Made) Fields(c *Codec) {
	c.Bool(&m.Conflict)
	c.String(&m.Why, maxText)
	c.String(&m.Kept, MaxTreeName)
}
