package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrMalformed is matched by every error of a decoder. It means that the other
// side sent something that is not a message of this protocol.
var ErrMalformed = errors.New("malformed message")

// Message is anything that is sent in one frame. Its Fields method names each
// field once, with its limit, for both encoding and decoding, so that the two
// cannot diverge.
type Message interface{ Fields(c *Codec) }

// Codec either writes the fields of a message to a buffer or reads them from
// one. After the first error, all further calls do nothing; [Decode] or
// [Encode] returns that error. The zero value encodes.
type Codec struct {
	buf      []byte
	decoding bool
	err      error
}

// Encode appends the encoding of m to dst. It fails if a field exceeds its
// limit, so that this side never sends what the other must reject.
func Encode(dst []byte, m Message) ([]byte, error) {
	c := &Codec{buf: dst}
	m.Fields(c)
	return c.buf, c.err
}

// Decode fills m from src. The message must take up all of src. m keeps no
// reference to src.
func Decode(src []byte, m Message) error {
	c := &Codec{buf: src, decoding: true}
	m.Fields(c)
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes too many", len(c.buf))
	}
	return c.err
}

// Int codes a signed integer.
func (c *Codec) Int(v *int64) {
	if !c.decoding {
		c.buf = binary.AppendVarint(c.buf, *v)
		return
	}
	n, size := binary.Varint(c.buf)
	if !c.took(size) {
		return
	}
	*v = n
}

// Small codes an integer that fits an int, such as a count or a status.
func (c *Codec) Small(v *int) {
	n := int64(*v)
	c.Int(&n)
	if n < -1<<31 || n > 1<<31-1 {
		c.fail("number %d is out of range", n)
		return
	}
	*v = int(n)
}

// Duration codes a length of time.
func (c *Codec) Duration(v *time.Duration) { c.Int((*int64)(v)) }

// Bool codes a boolean.
func (c *Codec) Bool(v *bool) {
	n := int64(0)
	if *v {
		n = 1
	}
	c.Int(&n)
	if n != 0 && n != 1 {
		c.fail("truth value %d", n)
		return
	}
	*v = n == 1
}

// Bytes codes a byte slice of at most limit bytes.
func (c *Codec) Bytes(v *[]byte, limit int) {
	n := c.length(len(*v), limit)
	if c.err != nil {
		return
	}
	if !c.decoding {
		c.buf = append(c.buf, *v...)
		return
	}
	*v = append([]byte(nil), c.buf[:n]...)
	c.buf = c.buf[n:]
}

// String codes a string of at most limit bytes.
func (c *Codec) String(v *string, limit int) {
	n := c.length(len(*v), limit)
	if c.err != nil {
		return
	}
	if !c.decoding {
		c.buf = append(c.buf, *v...)
		return
	}
	*v = string(c.buf[:n])
	c.buf = c.buf[n:]
}

// Strings codes a list of at most count strings of at most limit bytes each.
func (c *Codec) Strings(v *[]string, count, limit int) {
	List(c, v, count, func(c *Codec, s *string) { c.String(s, limit) })
}

// List codes a list of at most count elements; element codes one of them. Every
// element takes at least one byte, so a short message cannot claim to hold a
// long list.
func List[T any](c *Codec, v *[]T, count int, element func(*Codec, *T)) {
	n := c.length(len(*v), count)
	if c.err != nil {
		return
	}
	if c.decoding {
		*v = nil
		if n > 0 {
			*v = make([]T, 0, min(n, 64))
		}
	}
	for i := 0; i < n && c.err == nil; i++ {
		if c.decoding {
			var zero T
			*v = append(*v, zero)
		}
		element(c, &(*v)[i])
	}
}

// length codes a length. It checks the length against the limit and, when
// decoding, against the number of bytes that are left.
func (c *Codec) length(n, limit int) int {
	c.Small(&n)
	switch {
	case c.err != nil:
	case n < 0 || n > limit:
		c.fail("length %d, at most %d are allowed", n, limit)
	case c.decoding && n > len(c.buf):
		c.fail("length %d with %d bytes left", n, len(c.buf))
	}
	return n
}

// took skips a decoded integer of the given size.
func (c *Codec) took(size int) bool {
	if c.err != nil {
		return false
	}
	if size <= 0 {
		c.fail("number cut short")
		return false
	}
	c.buf = c.buf[size:]
	return true
}

func (c *Codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}
