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

// Format tells what the elements of an array are. [Scan] needs Read and Begins,
// a [Record] needs all of it.
type Format[T any] struct {
	// Element and Whole are the words for an element and for all of them, such
	// as "message" and "conversation".
	Element, Whole string
	// Read makes an element of a JSON value, or says why that is none. With
	// sure false the value was found behind a damaged part, and must be an
	// element beyond doubt.
	Read func(value []byte, sure bool) (T, error)
	// Begins reports whether text can be the first bytes of an element. It tells
	// an array whose first element is cut off from another program's file.
	Begins func(text []byte) bool
	// Doubt says why the elements of a damaged file are another program's, if
	// they are.
	Doubt func(elements []T) error
	// Mend brings the elements of a file into a legal order. gaps tells before
	// which of them, by index, something is missing. notes tells what was done.
	Mend func(elements []T, gaps map[int]bool) (mended []T, notes []string, err error)
	// Bytes returns an element's JSON.
	Bytes func(element T) []byte
}

// Found is what is in a file.
type Found[T any] struct {
	Elements []T
	End      int      // of a sound file: where the last element, or the opening bracket, ends
	Damage   []Damage // what is no array of elements, in order
	Garbled  []int    // the elements, by index, with bytes that are no UTF-8
	Marked   bool     // the file begins with a byte order mark
}

// Sound reports whether the file is an array of elements and nothing else.
func (f *Found[T]) Sound() bool {
	return len(f.Damage) == 0 && len(f.Garbled) == 0 && !f.Marked
}

// onlyCut reports whether nothing is wrong but that the file ends too early.
func (f *Found[T]) onlyCut() bool {
	return len(f.Garbled) == 0 && !slices.ContainsFunc(f.Damage, func(d Damage) bool { return !d.Cut })
}

// gaps tells before which elements, by index, something is missing.
func (f *Found[T]) gaps() map[int]bool {
	gaps := map[int]bool{}
	for _, d := range f.Damage {
		gaps[d.After] = true
	}
	return gaps
}

// Damage is a part of a file between elements.
type Damage struct {
	Start, End int // its bytes in the file
	After      int // how many elements come before it
	// Cut says that nothing is wrong but that the file ends too early, in the
	// last element or after it, as when the writing process is killed.
	Cut  bool
	Rest int // of a cut element: how many bytes of it there are
}

// Scan finds the elements of the array in data. A damaged part costs the
// elements that it touches: Scan goes on behind it with the next value that is
// surely an element of this array, and never takes one out of a larger value.
// When data is something else, the error is a [ForeignError].
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
	case data[at] == 0: // a block of the disk that was lost
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
	lines  bool // the file is written as a journal writes it, one element a line

	strange int   // how many values are no elements
	why     error // of the first of them
	budget  int   // how many bytes of values that turn out to be none may be read
}

// inLines reports whether an array is written as a journal writes it, by its
// beginning or, where that is damaged, by its end.
func inLines(array []byte) bool {
	return bytes.HasPrefix(array, []byte("\n{\"")) || bytes.HasSuffix(array, []byte("}\n]\n")) && bytes.Contains(array, []byte("},\n{\""))
}

// verdict tells a damaged array from another program's file, which has values
// of other kinds, or nothing in it that could be an element.
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

// array reads the array behind its opening bracket.
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

// resync goes on behind what is damaged from start on. The error of it was seen
// at seen.
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

// candidate finds the next place where an element may begin: at an object that
// is no field's value; in a file of lines, at the beginning of a line. In a
// string there is none, since a quote has a backslash before it there.
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

// inner reports whether elements found behind a damaged part belong to an array
// inside a larger value. They do when they end before the error of that value
// was seen, and when the file goes on behind the bracket that closes them. But a
// value that lost a bracket runs on to the end of the file: elements that end
// there with the closing bracket of the file are its own. In a file of lines
// nothing inside a value begins a line.
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

// run is a row of values parted by commas.
type run[T any] struct {
	elements []T
	garbled  []int    // by index in elements
	strange  []Damage // values that are no elements; After counts from here
	why      error    // the first of them is none
	stop     int      // where it ends
	seen     int      // where it was seen that it is broken
	end      int      // where its last value ends
	how      ending
	cut      Damage // when how is cutOff
}

// maxStrange is how many more values of other kinds than elements are read.
const maxStrange = 100

// ending is how a run ends.
type ending int

const (
	broken ending = iota // with something that cannot stand there
	closed               // with the end of the array, which ends the file
	cutOff               // with the end of the file
)

// chain reads values from at on, where one begins. With sure false, one that is
// no element ends a run that has no element yet.
func (s *scanner[T]) chain(at int, sure bool) (r run[T]) {
	for r.end = at; ; {
		r.stop = at
		if at == len(s.data) || s.data[at] == ']' && s.blank(at+1) {
			// Killed when it had written no more than what parts two elements.
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

// add adds the value of n bytes at at to a run, and reports whether that goes on.
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
		// Damage has made one value of several lines, which are elements.
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

// over reports whether the run ends behind a value, with what is at at.
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

// cutInside finds out whether the value at the end of the run is cut off, or
// damaged. One that runs on over others is damaged.
func (s *scanner[T]) cutInside(r *run[T], err error) {
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return
	}
	rest := bytes.TrimSpace(s.data[r.stop:])
	if s.format.Begins(rest) && !s.beginsWithin(rest[1:]) {
		r.how, r.cut = cutOff, Damage{Start: r.end, End: len(s.data), Cut: true, Rest: len(rest)}
	}
}

// beginsWithin reports whether an element begins in text. The last few bytes
// could begin anything and do not count.
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

// take adds what a run holds to what was found.
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

// value returns the length of the JSON value at at, or how far it is right.
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

// skip returns where the white space at at ends.
func (s *scanner[T]) skip(at int) int {
	for at < len(s.data) && bytes.IndexByte([]byte(space), s.data[at]) >= 0 {
		at++
	}
	return at
}

func (s *scanner[T]) blank(at int) bool { return s.skip(at) == len(s.data) }
