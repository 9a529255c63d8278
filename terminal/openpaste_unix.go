//go:build !windows

package terminal

import (
	"bytes"
	"io"
)

// The marks around a paste.
const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// keyBytes returns the reader of what the terminal sends.
func keyBytes(r io.Reader) io.Reader { return &pasteReader{Reader: &runeReader{in: r}} }

// pasteReader reads the input of a terminal, and ends a paste whose end mark was
// lost: whatever is typed after it would be part of the paste, Ctrl-C as well. It
// puts the mark before a Ctrl-C that comes by itself.
type pasteReader struct {
	io.Reader
	open bool   // a paste has begun and not ended
	last []byte // the last bytes, which may be the beginning of a mark
}

// Read reads what the terminal has sent, with the end mark that a Ctrl-C needs.
func (r *pasteReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	read := p[:n]
	if r.open && isCtrlC(read) && n+len(pasteEnd) <= len(p) {
		read = append([]byte(pasteEnd), read...)
		n = copy(p, read)
	}
	r.last = append(r.last, read...)
	begin, end := bytes.LastIndex(r.last, []byte(pasteBegin)), bytes.LastIndex(r.last, []byte(pasteEnd))
	if begin >= 0 || end >= 0 {
		r.open = begin > end
	}
	r.last = bytes.Clone(r.last[max(len(r.last)-len(pasteEnd)+1, 0):])
	return n, err
}

// isCtrlC reports whether Ctrl-C was pressed, in either form.
func isCtrlC(read []byte) bool {
	number, ok := bytes.CutPrefix(read, []byte("\x1b[99;"))
	number, isKey := bytes.CutSuffix(number, []byte("u"))
	return bytes.Equal(read, []byte{3}) || ok && isKey && len(bytes.Trim(number, "0123456789")) == 0
}
