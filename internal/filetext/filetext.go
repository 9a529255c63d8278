// Package filetext shows files to a model: their text in numbered lines, a
// bounded piece at a time, the content of directories, and in words what a file
// is that has no text. Files are hostile: whatever is in them, memory and work
// are bounded.
//
// A [Charset] is the encoding of a text that is not UTF-8, as far as its bytes tell: UTF-16
// by its byte order mark, Shift-JIS and EUC-JP by their kana, and the texts of Western
// Europe, whose accents stand alone among ASCII letters. What is said of a file is proved by
// encoding the decoded text again: that gives the same bytes. So a change of the text leaves
// all other bytes of the file as they were.
package filetext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/numeral"
)

// Source reads at most limit bytes of a file from offset on, and tells the size
// of the whole file. Less than limit is the end of the file.
type Source func(ctx context.Context, offset, limit int64) (data []byte, size int64, err error)

// Request says what to show of a file.
type Request struct {
	Name string
	Line int // the first line, from 1; 0 is 1, and a negative number counts from the end
	// Count is how many lines; 0 is as many as there is room for.
	Count int
	// Offset, if not 0, is the byte to begin at, in place of a line. The lines
	// then have no numbers.
	Offset int64
}

// Piece is what is shown of a file.
type Piece struct {
	Title string // in a line: the file, and which part of it this is
	Text  string // the title, the lines, and how to go on
	Line  int    // the number of the first line; 0 if it is not known
}

// Bounds of what is read and shown.
const (
	maxLine      = 2000      // bytes of a line, if there is no room for more
	forTitle     = 640       // bytes kept free for the title and the last line
	minLimit     = 4 << 10   // the smallest limit of a piece
	maxName      = 200       // bytes of the file's name
	head         = 64 << 10  // bytes that tell what a file is
	chunk        = 1 << 20   // bytes read at once
	maxScan      = 256 << 20 // bytes in which a line is looked for
	maxTotal     = 16 << 20  // bytes that are read on to count the lines
	maxConverted = 8 << 20   // bytes of a file that is no UTF-8
)

// How long may be read.
const (
	lookTime  = 20 * time.Second // to find a line
	countTime = 2 * time.Second  // to count the lines
)

// Read shows a piece of a file in at most limit bytes, of which there must be
// minLimit. Of a file that is no text, it returns an error that says what it is.
func Read(ctx context.Context, src Source, r Request, limit int) (Piece, error) {
	limit = max(limit, minLimit)
	if r.Count < 0 {
		return Piece{}, errors.New("count must not be negative")
	}
	if r.Offset < 0 {
		return Piece{}, errors.New("offset must not be negative")
	}
	first, size, err := src(ctx, 0, head)
	if err != nil {
		return Piece{}, err
	}
	if len(first) == 0 {
		title := short(r.Name) + ": the file is empty"
		return Piece{Title: title, Text: title}, nil
	}
	f := &file{src: src, name: short(r.Name), size: max(size, int64(len(first)))}
	if first, err = f.decode(ctx, first); err != nil {
		return Piece{}, err
	}
	if kind := kindOf(first); kind.Name != "" {
		return Piece{}, refuse(kind, f.name, f.size)
	}
	if f.end = '\n'; hasLoneCR(first, f.size) {
		f.end = '\r'
	}
	if r.Offset > 0 {
		return f.bytesFrom(ctx, r, limit)
	}
	return f.lines(ctx, r, limit)
}

// file is a text that is read.
type file struct {
	src   Source
	name  string // bounded, to be shown
	size  int64
	notes []string // what the title says besides
	end   byte     // of lines: LF, or CR where there is no LF
}

// decode finds out how a file is encoded from its beginning. It returns the
// beginning as UTF-8, and replaces the source if the file must be converted.
func (f *file) decode(ctx context.Context, first []byte) ([]byte, error) {
	if bytes.HasPrefix(first, []byte(bom)) {
		f.note("begins with a byte order mark, not shown")
		src := f.src
		f.size -= int64(len(bom))
		f.src = func(ctx context.Context, offset, limit int64) ([]byte, int64, error) {
			data, size, err := src(ctx, offset+int64(len(bom)), limit)
			return data, size - int64(len(bom)), err
		}
		return first[len(bom):], nil
	}
	if CharsetOf(whole(first, f.size)).IsUTF8() {
		return first, nil
	}
	if f.size > maxConverted {
		return first, f.tooLong(first)
	}
	all, _, err := f.src(ctx, 0, maxConverted)
	if err != nil {
		return nil, err
	}
	encoding := CharsetOf(all)
	if !encoding.IsShown() {
		return first, nil
	}
	text := encoding.Show(all)
	f.note(encoding.Name + ", shown as UTF-8")
	f.src, f.size = OfBytes(text), int64(len(text))
	return text[:min(len(text), head)], nil
}

// whole returns the beginning of a file up to its last line, which may be cut.
func whole(first []byte, size int64) []byte {
	if end := bytes.LastIndexByte(first, '\n'); int64(len(first)) < size && end >= 0 {
		return first[:end+1]
	}
	return first
}

// tooLong refuses a long file in UTF-16, of which nothing can be shown without converting it.
func (f *file) tooLong(first []byte) error {
	if name := CharsetOf(first[:2]).Name; name != "" {
		return fmt.Errorf("%s is text in %s (%s bytes), too long to be converted here; convert it with iconv in bash", f.name, name, numeral.Grouped(f.size))
	}
	return nil
}

// hasLoneCR reports whether lines end in CR alone, by the beginning of a file.
func hasLoneCR(first []byte, size int64) bool {
	if int64(len(first)) < size {
		first = bytes.TrimSuffix(first, []byte("\r")) // an LF may follow
	}
	return bytes.IndexByte(first, '\r') >= 0 && bytes.IndexByte(first, '\n') < 0
}

// OfBytes is a file in memory.
func OfBytes(text []byte) Source {
	return func(_ context.Context, offset, limit int64) ([]byte, int64, error) {
		size := int64(len(text))
		from := min(max(offset, 0), size)
		return text[from:min(from+limit, size)], size, nil
	}
}

func (f *file) note(text string) { f.notes = append(f.notes, text) }

// title is the first line of what is shown.
func (f *file) title(part string) string {
	return strings.Join(append([]string{f.name + ": " + part}, f.notes...), "; ")
}

// bytesFrom shows a file from a byte on.
func (f *file) bytesFrom(ctx context.Context, r Request, limit int) (Piece, error) {
	data, size, err := f.src(ctx, r.Offset, int64(limit))
	if err != nil {
		return Piece{}, err
	}
	if len(data) == 0 {
		return Piece{}, fmt.Errorf("offset %d is at or past the end of %s, which has %s", r.Offset, f.name, numeral.Count(max(size, 0), "byte"))
	}
	begin := r.Offset
	for i := 0; i < utf8.UTFMax-1 && len(data) > 1 && !utf8.RuneStart(data[0]); i++ { // the rest of a character
		begin, data = begin+1, data[1:]
	}
	atEnd := begin+int64(len(data)) >= size
	if r.Count > 0 {
		data = data[:endOfLines(data, r.Count)]
	}
	text, used, odd := visible(data, limit-forTitle, atEnd)
	f.noteBytes(odd)
	end := begin + int64(used)
	title := f.title(fmt.Sprintf("bytes %s–%s of %s, without line numbers", numeral.Grouped(begin), numeral.Grouped(end-1), numeral.Grouped(size)))
	shown := title + "\n" + text
	if end < size {
		shown += fmt.Sprintf("\n[read on with offset %d]", end)
	}
	return Piece{Title: title, Text: shown}, nil
}

// endOfLines returns where the first lines of data end.
func endOfLines(data []byte, count int) int {
	end := 0
	for range count {
		next := bytes.IndexByte(data[end:], '\n')
		if next < 0 {
			return len(data)
		}
		end += next + 1
	}
	return end
}

// lines shows a file from a line on.
func (f *file) lines(ctx context.Context, r Request, limit int) (Piece, error) {
	s := newScan(f)
	from, known := max(r.Line, 1), (*scan)(nil)
	if r.Line < 0 {
		if err := f.count(ctx, s); err != nil {
			return Piece{}, err
		}
		from, known = s.total()+1+max(r.Line, -s.total()), s
		s = s.again(from)
	}
	c := newCollected(from, r.Count, limit-forTitle)
	if err := f.find(ctx, s, c); err != nil {
		return Piece{}, err
	}
	if c.last < from {
		return Piece{}, fmt.Errorf("line %s is past the end of %s, which has %s", numeral.Grouped(from), f.name, numeral.Count(s.total(), "line"))
	}
	if known == nil {
		known = s
		if f.size-s.at <= maxTotal {
			_ = s.run(ctx, countTime, s.at+maxTotal, nil) // if that is not done soon, the number stays unknown
		}
	}
	return f.show(known, c), nil
}

// errTooFar is the cause for which no more is read.
var errTooFar = errors.New("too far")

// count reads the whole file to count its lines.
func (f *file) count(ctx context.Context, s *scan) error {
	err := s.run(ctx, lookTime, maxScan, nil)
	if errors.Is(err, errTooFar) {
		err = fmt.Errorf("%s has %s bytes, too many to count its lines from the end; read it with tail in bash", f.name, numeral.Grouped(f.size))
	}
	return err
}

// find reads until what is wanted is collected.
func (f *file) find(ctx context.Context, s *scan, c *collected) error {
	err := s.run(ctx, lookTime, maxScan, c)
	if !errors.Is(err, errTooFar) {
		return err
	}
	if c.last >= c.from {
		return nil
	}
	return fmt.Errorf("line %s of %s is further than can be read here: the first %s of its %s bytes have %s; read it in bash with sed -n '%d,%dp'",
		numeral.Grouped(c.from), f.name, numeral.Grouped(s.at), numeral.Grouped(f.size), numeral.Count(s.line-1, "line"), c.from, c.from+99)
}

func (f *file) show(s *scan, c *collected) Piece {
	part := fmt.Sprintf("lines %s–%s", numeral.Grouped(c.from), numeral.Grouped(c.last))
	if c.from == c.last {
		part = "line " + numeral.Grouped(c.from)
	}
	more := true
	if s.ended {
		part += " of " + numeral.Grouped(s.total())
		more = c.last < s.total()
	} else {
		part += fmt.Sprintf(", more follow (the file has %s bytes)", numeral.Grouped(f.size))
	}
	f.noteEnds(s)
	f.noteBytes(c.odd)
	title := f.title(part)
	text := title + "\n" + c.text.String()
	switch {
	case more:
		text += fmt.Sprintf("[read on with line %d]", c.last+1)
	case s.open:
		text += "[no newline at the end]"
	}
	return Piece{Title: title, Text: text, Line: c.from}
}

// noteEnds says how lines end where that is not LF.
func (f *file) noteEnds(s *scan) {
	switch {
	case f.end == '\r':
		f.note("lines end in CR alone")
	case s.crlf > 0 && s.crlf == s.ends:
		f.note("CRLF line ends")
	case s.crlf > 0:
		f.note(fmt.Sprintf("%s of %s end in CRLF, the others in LF", numeral.Grouped(s.crlf), numeral.Count(s.ends, "line")))
	}
}

func (f *file) noteBytes(odd int) {
	if odd > 0 {
		f.note("not all UTF-8, " + numeral.Count(odd, "byte") + " shown as <0xNN>")
	}
}

// collected are the lines to be shown.
type collected struct {
	from, count int
	room        int // bytes left
	most        int // bytes of a line
	last        int // the number of the last line so far
	done        bool
	odd         int // bytes that are no text
	text        strings.Builder
}

// forNote is room for the number of a line, and for what is said of a long one.
const forNote = 128

func newCollected(from, count, room int) *collected {
	most := maxLine
	if count > 0 {
		most = max(most, room/count-forNote)
	}
	return &collected{from: from, count: count, room: room, most: min(most, room-forNote), last: from - 1}
}

// add adds a line, of which kept is the beginning, and which has length bytes
// from offset on.
func (c *collected) add(number int, kept []byte, length, offset int64) {
	text, used, odd := visible(kept, c.most, int64(len(kept)) == length)
	if left := length - int64(used); left > 0 {
		text += fmt.Sprintf(" [… %s of this line: offset %d]", numeral.Count(left, "more byte"), offset+int64(used))
	}
	text = strconv.Itoa(number) + "\t" + text + "\n"
	if len(text) > c.room {
		c.done = true
		return
	}
	c.room -= len(text)
	c.text.WriteString(text)
	c.last = number
	c.odd += odd
	c.done = c.count > 0 && c.last-c.from+1 >= c.count
}

// LineCount returns how many lines a text has. What follows the last newline is a
// line too.
func LineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// Extent says how long a text is.
func Extent(text string) string {
	return fmt.Sprintf("%s (%s)", numeral.Count(len(text), "byte"), numeral.Count(LineCount(text), "line"))
}
