package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kind says what a frame contains. On every stream the host sends exactly one
// request first. The frames after it depend on the request.
type Kind byte

// Requests of the host.
const (
	KindHello Kind = iota + 1
	KindRun
	KindJobs
	KindOutput
	KindKill
	KindRead
	KindWrite
	KindStat
	KindList
	KindMkdir
	KindRemove
	KindTarIn
	KindTarOut
	KindOwn
	KindDial
	KindConfine // sent before the session: what a guest that confines itself may reach
	KindListen
	KindAccept
	KindProcess // a [Run] with streams of its own; answered by a [Process], Chunks of stderr, and Exiteds
	KindStreams // a [Process]: makes the stream that of its stdin and stdout
	KindScan    // a [Path], a directory; a body of [Listed] answers it, and meanwhile the host may send KindSkip
	KindFetch   // [Names]
	KindMake    // a [Step]
	KindSync    // puts all steps on stable storage
)

// Frames after the request, in either direction.
const (
	KindReply  Kind = iota + 64 // the answer; its message depends on the request
	KindError                   // a [Failure] in place of the answer
	KindData                    // a piece of a body
	KindEnd                     // the end of a body; a [Failure] in it says why the body is incomplete
	KindChunk                   // a [Chunk] of a running command's output
	KindCancel                  // the host no longer wants the command to run
	KindPause                   // stop the command's time limit
	KindResume                  // let the time limit run again
	KindSkip                    // a [Skip]
)

// MaxFrame is the largest payload of any frame, in bytes.
const MaxFrame = MaxScript + MaxEnv*2 + 64<<10

// maxData is the largest payload of one frame of a body, in bytes.
const maxData = 64 << 10

// headerSize is the size of a kind and a length, in bytes.
const headerSize = 5

// WriteFrame sends m in a single write. If m is nil, the payload is empty.
func WriteFrame(w io.Writer, k Kind, m Message) error {
	buf := make([]byte, headerSize, 256)
	if m != nil {
		var err error
		if buf, err = Encode(buf, m); err != nil {
			return err
		}
	}
	return writeFrame(w, k, buf)
}

// writeFrame fills in the header at the start of buf and sends buf.
func writeFrame(w io.Writer, k Kind, buf []byte) error {
	if len(buf)-headerSize > MaxFrame {
		return fmt.Errorf("%w: frame of %d bytes", ErrMalformed, len(buf))
	}
	buf[0] = byte(k)
	binary.BigEndian.PutUint32(buf[1:], uint32(len(buf)-headerSize))
	_, err := w.Write(buf)
	return err
}

// ReadFrame reads a frame with at most limit bytes of payload. It returns
// io.EOF only if the stream ends before the first byte of a frame.
func ReadFrame(r io.Reader, limit int) (Kind, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(header[1:]))
	if n > int64(limit) {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes, at most %d are allowed", ErrMalformed, n, limit)
	}
	payload, err := readPayload(r, int(n))
	return Kind(header[0]), payload, err
}

// readPayload reads n bytes. It allocates memory only as the bytes arrive, so
// that a large length alone costs nothing.
func readPayload(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	buf := make([]byte, 0, min(n, step))
	for len(buf) < n {
		from := len(buf)
		buf = append(buf, make([]byte, min(n-from, max(step, from)))...)
		if _, err := io.ReadFull(r, buf[from:]); err != nil {
			return nil, unexpected(err)
		}
	}
	return buf, nil
}

// ReadReply reads the answer to a request into m, which may be nil if the
// answer is empty. If a [Failure] was sent instead, it is returned as the
// error.
func ReadReply(r io.Reader, m Message) error {
	kind, payload, err := ReadFrame(r, MaxReply)
	if err != nil {
		return unexpected(err)
	}
	return DecodeReply(kind, payload, m)
}

// DecodeReply does the same with a frame that has been read already.
func DecodeReply(kind Kind, payload []byte, m Message) error {
	switch kind {
	case KindReply:
		if m == nil {
			m = &Empty{}
		}
		return Decode(payload, m)
	case KindError:
		return decodeFailure(payload)
	default:
		return fmt.Errorf("%w: kind %d in place of an answer", ErrMalformed, kind)
	}
}

func decodeFailure(payload []byte) error {
	f := &Failure{}
	if err := Decode(payload, f); err != nil {
		return err
	}
	return f
}

// BodyWriter sends a body of any length in frames. Finish ends it.
type BodyWriter struct {
	w   io.Writer
	buf []byte
}

// NewBodyWriter returns a writer of a body to w.
func NewBodyWriter(w io.Writer) *BodyWriter {
	return &BodyWriter{w: w, buf: make([]byte, headerSize, headerSize+maxData)}
}

// Write sends complete frames and keeps the rest for later.
func (b *BodyWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), cap(b.buf)-len(b.buf))
		b.buf = append(b.buf, p[:n]...)
		p = p[n:]
		if len(b.buf) == cap(b.buf) {
			if err := b.flush(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

// ReadFrom implements io.ReaderFrom: it reads into the frames, without another buffer.
func (b *BodyWriter) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		n, err := r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		total += int64(n)
		if len(b.buf) == cap(b.buf) {
			if failed := b.flush(); failed != nil {
				return total, failed
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Finish sends the rest and ends the body. If cause is not nil, it is sent as
// the reason why the body is incomplete.
func (b *BodyWriter) Finish(cause error) error {
	if err := b.flush(); err != nil {
		return err
	}
	if cause != nil {
		return WriteFrame(b.w, KindEnd, AsFailure(cause))
	}
	return WriteFrame(b.w, KindEnd, nil)
}

func (b *BodyWriter) flush() error {
	if len(b.buf) == headerSize {
		return nil
	}
	err := writeFrame(b.w, KindData, b.buf)
	b.buf = b.buf[:headerSize]
	return err
}

// BodyReader reads what a [BodyWriter] or [Packets] has sent. It returns io.EOF
// only at the proper end of the body. A [Failure] and a broken stream give
// other errors. After a deadline of the stream has passed, reading can
// continue.
type BodyReader struct {
	r      io.Reader
	header [headerSize]byte
	have   int // bytes of the header that have been read
	left   int // bytes of the current frame that are still to come
	err    error
}

// NewBodyReader returns a reader of the body that follows on r.
func NewBodyReader(r io.Reader) *BodyReader { return &BodyReader{r: r} }

// Read implements io.Reader.
func (b *BodyReader) Read(p []byte) (int, error) {
	if len(p) == 0 || b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil && !timedOut(err) {
		b.err = err
	}
	return n, err
}

func (b *BodyReader) read(p []byte) (int, error) {
	for b.left == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if n > 0 {
		return n, nil // the next read returns the error again
	}
	return 0, unexpected(err)
}

// next reads the header of a frame, of which a part may already have been read.
func (b *BodyReader) next() error {
	for b.have < headerSize {
		n, err := b.r.Read(b.header[b.have:])
		b.have += n
		if n == 0 && err != nil {
			return unexpected(err)
		}
	}
	b.have = 0
	kind, length := Kind(b.header[0]), binary.BigEndian.Uint32(b.header[1:])
	switch {
	case length > maxData:
		return fmt.Errorf("%w: frame of %d bytes, at most %d are allowed", ErrMalformed, length, maxData)
	case kind == KindData:
		b.left = int(length)
		return nil
	case kind == KindEnd && length == 0:
		return io.EOF
	case kind == KindEnd:
		payload, err := readPayload(b.r, int(length))
		if err != nil {
			return err
		}
		return decodeFailure(payload)
	default:
		return fmt.Errorf("%w: kind %d inside a body", ErrMalformed, kind)
	}
}

// timedOut reports whether an error comes from a deadline, which may be
// renewed.
func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// unexpected turns io.EOF into an error that nobody can mistake for a proper
// end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Packets sends the bytes of a connection; each write is sent at once. If a
// deadline interrupts a write, a part of a frame has been sent, and the next
// write continues that frame.
type Packets struct {
	w      io.Writer
	header []byte // the part of the frame's header that is still to be sent
	owed   int    // bytes of the frame that are still to be sent
}

// NewPackets returns a writer that sends the bytes of a connection to w. The
// other side reads them with a [BodyReader].
func NewPackets(w io.Writer) *Packets { return &Packets{w: w} }

// Write sends p. If it fails, it returns how much of p was sent.
func (k *Packets) Write(p []byte) (total int, err error) {
	for len(p) > 0 && err == nil {
		var n int
		n, err = k.write(p)
		total += n
		p = p[n:]
	}
	return total, err
}

// write sends the beginning of p, either as the rest of the current frame or as
// a new one.
func (k *Packets) write(p []byte) (int, error) {
	if k.owed == 0 {
		k.owed = min(len(p), maxData)
		k.header = make([]byte, headerSize, headerSize+k.owed)
		k.header[0] = byte(KindData)
		binary.BigEndian.PutUint32(k.header[1:], uint32(k.owed))
	}
	n, err := k.w.Write(append(k.header, p[:min(len(p), k.owed)]...))
	if n == 0 && len(k.header) == headerSize {
		k.header, k.owed = nil, 0 // nothing of the frame was sent
		return 0, err
	}
	ofHeader := min(n, len(k.header))
	k.header = k.header[ofHeader:]
	k.owed -= n - ofHeader
	return n - ofHeader, err
}

// errCut means that the last frame is incomplete, so that the bytes cannot be
// ended properly.
var errCut = errors.New("the last write was cut short")

// CloseWrite tells the other side that no more bytes come.
func (k *Packets) CloseWrite() error {
	if k.owed > 0 {
		return errCut
	}
	return WriteFrame(k.w, KindEnd, nil)
}
