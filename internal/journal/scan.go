package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// Format describes the elements of an array. [Scan] needs only Read and Begins;
// a [Record] needs all fields.
type Format[T any] struct {
	// Element and Whole are the words for one element and for all of them, such
	// as "message" and "conversation". Notes use them.
	Element, Whole string
	// Read parses a JSON value as an element, or returns why it is not one. If
	// sure is false, the value was found after a damaged part, and Read must
	// refuse it unless it is an element beyond doubt.
	Read func(value []byte, sure bool) (T, error)
	// Begins reports whether text can be the first bytes of an element. It
	// distinguishes an array whose first element is cut off from the file of
	// another program.
	Begins func(text []byte) bool
	// Doubt returns an error if the elements of a damaged file are more likely
	// another program's.
	Doubt func(elements []T) error
	// Mend makes the elements of a file a legal sequence. gaps has the indexes of
	// the elements before which something is missing. notes describes what was
	// changed.
	Mend func(elements []T, gaps map[int]bool) (mended []T, notes []string, err error)
	// Bytes returns an element's JSON.
	Bytes func(element T) []byte
}

// Found is the result of a [Scan].
type Found[T any] struct {
	Elements []T
	End      int      // in a sound file, the offset after the last element or the opening bracket
	Damage   []Damage // the parts that are not elements of the array, in order
	Garbled  []int    // indexes of the elements with invalid UTF-8
	Marked   bool     // whether the file begins with a byte order mark
}

// Sound reports whether the file is an array of elements and nothing else.
func (f *Found[T]) Sound() bool {
	return len(f.Damage) == 0 && len(f.Garbled) == 0 && !f.Marked
}

// onlyCut reports whether no damage was found but that the file ends too early.
func (f *Found[T]) onlyCut() bool {
	return len(f.Garbled) == 0 && !slices.ContainsFunc(f.Damage, func(d Damage) bool { return !d.Cut })
}

// gaps has the indexes of the elements before which something is missing.
func (f *Found[T]) gaps() map[int]bool {
	gaps := map[int]bool{}
	for _, d := range f.Damage {
		gaps[d.After] = true
	}
	return gaps
}

// Damage is a part of a file that is not an element.
type Damage struct {
	Start, End int // its offsets in the file
	After      int // how many elements come before it
	// Cut means that the file only ends too early, in its last element or after
	// it, as when the writing process is killed.
	Cut  bool
	Rest int // how many bytes there are of the element that was cut off
}

// Scan finds the elements of the array in data. The elements that a damaged part
// touches are lost. Scan continues after it with the next value that is surely
// an element of this array, and never takes one out of a larger value. If data
// is something else, the error is a [ForeignError].
func Scan[T any](data []byte, format Format[T]) (*Found[T], error) {
	s := &scanner[T]{data: data, format: format, budget: 16*len(data) + 1<<20}
	at := 0
	if bytes.HasPrefix(data, []byte(byteOrderMark)) {
		s.found.Marked, at = true, len(byteOrderMark)
	}
	at = s.skip(at)
	switch {
	case at == len(data):
		return nil, foreign("the file is empty")
	case data[at] == '[':
		at++
		s.found.End = at
		s.lines = inLines(data[at:])
		s.array(at)
	case data[at] == 0: // a lost block of the disk reads as zeros
		s.resync(at, at)
	default:
		return nil, foreign("no JSON array")
	}
	return s.verdict(at)
}

const byteOrderMark = "\ufeff"

// scanner is the state of one Scan.
type scanner[T any] struct {
	data   []byte
	format Format[T]
	found  Found[T]
	lines  bool // whether the file has one element a line, as a journal writes it

	strange int   // how many values are not elements
	why     error // why the first of them is not
	budget  int   // how many more bytes may be read of values that turn out to be broken
}

// inLines reports whether an array has one element a line, as a journal writes
// it. It looks at the beginning and, in case that is damaged, at the end.
func inLines(array []byte) bool {
	return bytes.HasPrefix(array, []byte("\n{\"")) || bytes.HasSuffix(array, []byte("}\n]\n")) && bytes.Contains(array, []byte("},\n{\""))
}

// verdict distinguishes a damaged array from the file of another program. That
// has at least as many values of other kinds, or nothing that could be an
// element.
func (s *scanner[T]) verdict(begin int) (*Found[T], error) {
	n := len(s.found.Elements)
	switch {
	case s.strange > 0 && s.strange >= n:
		return nil, foreign("%w", s.why)
	case n == 0 && len(s.found.Damage) > 0 && !s.format.Begins(s.data[s.skip(begin):]):
		return nil, foreign("nothing in it is an element")
	}
	return &s.found, nil
}

// array reads the array after its opening bracket.
func (s *scanner[T]) array(at int) {
	if at = s.skip(at); at < len(s.data) && s.data[at] == ']' && s.blank(at+1) {
		return
	}
	r := s.chain(at, true)
	s.take(r)
	if r.how == broken {
		s.resync(r.stop, r.seen)
	}
}

// resync continues after the damage that begins at start. seen is the offset at
// which the parser noticed it.
func (s *scanner[T]) resync(start, seen int) {
	for from := start; ; {
		at, ok := s.candidate(from)
		if !ok {
			s.damage(Damage{Start: start, End: len(s.data)})
			return
		}
		r := s.chain(at, false)
		if len(r.elements) == 0 || s.inner(r, seen) {
			from = max(r.stop, at+1)
			continue
		}
		s.damage(Damage{Start: start, End: at})
		s.take(r)
		if r.how != broken {
			return
		}
		start, from, seen = r.stop, r.stop, r.seen
	}
}

// candidate finds the next offset where an element may begin. That is an object
// which is not the value of a field or, in a file with one element a line, which
// begins a line. An object that is quoted in a string does not count: its quotes
// have a backslash before them.
func (s *scanner[T]) candidate(from int) (int, bool) {
	for at := from; ; at++ {
		n := bytes.IndexByte(s.data[at:], '{')
		if n < 0 || s.budget < 0 {
			return 0, false
		}
		at += n
		if quote := s.skip(at + 1); quote == len(s.data) || s.data[quote] != '"' {
			continue
		}
		if s.lines {
			if s.data[at-1] == '\n' {
				return at, true
			}
			continue
		}
		if before := bytes.TrimRight(s.data[from:at], space); len(before) == 0 || before[len(before)-1] != ':' {
			return at, true
		}
	}
}

// inner reports whether elements found after damage belong to an array inside
// the damaged value. They do if they end before the parser noticed the damage at
// seen, or if the file goes on after the bracket that closes them.
//
// A value that lost a bracket is an exception. The parser reads it to the end of
// the file, so elements that end with the file's closing bracket are the file's
// own. In a file with one element a line, nothing inside a value begins a line.
func (s *scanner[T]) inner(r run[T], seen int) bool {
	switch {
	case s.lines:
		return false
	case r.end <= seen:
		return r.how != closed || seen < len(s.data)
	case r.how != broken || r.stop == len(s.data):
		return false
	}
	switch s.data[r.stop] {
	case '}', ':':
		return true
	case ']':
		next := s.skip(r.stop + 1)
		return next < len(s.data) && bytes.IndexByte([]byte("]},"), s.data[next]) >= 0
	}
	return false
}

// run is a sequence of values with commas between them.
type run[T any] struct {
	elements []T
	garbled  []int    // indexes of the elements with invalid UTF-8
	strange  []Damage // values that are not elements; their After counts within the run
	why      error    // why the first of them is not
	stop     int      // where it ends
	seen     int      // where the parser noticed that it is broken
	end      int      // where its last value ends
	how      ending
	cut      Damage // if how is cutOff
}

// maxStrange is how many more values of other kinds than elements a run may have
// before it is given up as another program's.
const maxStrange = 100

// ending is how a run ends.
type ending int

const (
	broken ending = iota // at something that is not allowed there
	closed               // with the end of the array, at the end of the file
	cutOff               // with the end of the file, before the end of the array
)

// chain reads the run of values that begins at at. If sure is false, a first
// value that is not an element ends it.
func (s *scanner[T]) chain(at int, sure bool) (r run[T]) {
	for r.end = at; ; {
		r.stop = at
		if at == len(s.data) || s.data[at] == ']' && s.blank(at+1) {
			// The writer was killed after the comma of the next element.
			r.how, r.cut = cutOff, Damage{Start: r.end, End: len(s.data), Cut: true}
			return r
		}
		n, err := s.value(at)
		if err != nil {
			r.seen = at + n
			s.cutInside(&r, err)
			return r
		}
		if !s.add(&r, at, n, sure) {
			return r
		}
		r.end = at + n
		if at = s.skip(r.end); s.over(&r, at) {
			return r
		}
		at = s.skip(at + 1)
	}
}

// add adds the value of n bytes at at to a run, and reports whether the run goes
// on.
func (s *scanner[T]) add(r *run[T], at, n int, sure bool) bool {
	value := s.data[at : at+n]
	element, err := s.format.Read(value, sure)
	switch {
	case err == nil:
		if !utf8.Valid(value) {
			r.garbled = append(r.garbled, len(r.elements))
		}
		r.elements = append(r.elements, element)
		return true
	case s.lines && bytes.Contains(value, []byte("\n{\"")):
		// Damage has joined several lines, each an element, into one value.
		r.stop, r.seen = at, at
		return false
	case !sure && len(r.elements) == 0:
		r.stop = at + n
		return false
	case r.why == nil:
		r.why = fmt.Errorf("element %d: %w", len(s.found.Elements)+len(r.elements)+1, err)
	}
	r.strange = append(r.strange, Damage{Start: at, End: at + n, After: len(r.elements)})
	if len(r.strange) > len(r.elements)+maxStrange {
		r.how = closed // it is another program's file, however it goes on
		return false
	}
	return true
}

// over reports whether the run ends after a value. at is the offset of what
// follows the value.
func (s *scanner[T]) over(r *run[T], at int) bool {
	r.stop, r.seen = at, at
	switch {
	case at == len(s.data):
		r.how, r.cut = cutOff, Damage{Start: r.end, End: at, Cut: true}
	case s.data[at] == ',':
		return false
	case s.data[at] == ']' && s.blank(at+1):
		r.how = closed
	}
	return true
}

// cutInside finds out whether the last value of the run is cut off or damaged.
// One that reaches over other elements is damaged.
func (s *scanner[T]) cutInside(r *run[T], err error) {
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	rest := bytes.TrimSpace(s.data[r.stop:])
	if s.format.Begins(rest) && !s.beginsWithin(rest[1:]) {
		r.how, r.cut = cutOff, Damage{Start: r.end, End: len(s.data), Cut: true, Rest: len(rest)}
	}
}

// beginsWithin reports whether an element begins in text. It ignores the last
// few bytes, which are too short to tell.
func (s *scanner[T]) beginsWithin(text []byte) bool {
	for len(text) > 64 {
		n := bytes.IndexByte(text[:len(text)-64], '{')
		if n < 0 {
			return false
		}
		if text = text[n:]; s.format.Begins(text) {
			return true
		}
		text = text[1:]
	}
	return false
}

// take adds the content of a run to the result.
func (s *scanner[T]) take(r run[T]) {
	before := len(s.found.Elements)
	if s.why == nil {
		s.why = r.why
	}
	for _, d := range r.strange {
		s.strange++
		d.After += before
		s.found.Damage = append(s.found.Damage, d)
	}
	for _, i := range r.garbled {
		s.found.Garbled = append(s.found.Garbled, before+i)
	}
	s.found.Elements = append(s.found.Elements, r.elements...)
	s.found.End = r.end
	if r.how == cutOff {
		s.damage(r.cut)
	}
}

func (s *scanner[T]) damage(d Damage) {
	d.After = len(s.found.Elements)
	s.found.Damage = append(s.found.Damage, d)
}

// value returns the length of the JSON value at at or, with an error, how many
// bytes of it are valid.
func (s *scanner[T]) value(at int) (int, error) {
	d := json.NewDecoder(bytes.NewReader(s.data[at:]))
	var raw json.RawMessage
	err := d.Decode(&raw)
	if err == nil {
		return int(d.InputOffset()), nil
	}
	n := len(s.data) - at
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		n = int(syntax.Offset) - 1
	}
	s.budget -= n
	return n, err
}

const space = " \t\r\n"

// skip returns the offset of the first byte from at on that is not white space.
func (s *scanner[T]) skip(at int) int {
	for at < len(s.data) && bytes.IndexByte([]byte(space), s.data[at]) >= 0 {
		at++
	}
	return at
}

func (s *scanner[T]) blank(at int) bool { return s.skip(at) == len(s.data) }
