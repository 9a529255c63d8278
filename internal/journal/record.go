package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/x/pygent/internal/numeral"
)

// Record keeps elements of one type in a journal. It repairs a damaged file when
// it opens it, and continues in a new file if something else changes the file
// later. It describes in notes what it did. Only one goroutine at a time may
// call its methods.
type Record[T any] struct {
	journal *Journal
	format  Format[T]
	tell    func(note string)
}

// OpenRecord opens or creates the file at path on a disk, and returns its
// elements. It rewrites a file that is not sound, so that the next program that
// opens it, perhaps one in another language, finds a valid array. It calls tell
// with a note for each repair, and later for each change of another to the file.
// Its errors are those of [Open].
func OpenRecord[T any](disk Disk, path string, format Format[T], tell func(note string)) (*Record[T], []T, error) {
	j, data, err := Open(disk, path)
	if err != nil {
		return nil, nil, err
	}
	r := &Record[T]{journal: j, format: format, tell: tell}
	elements, err := r.load(data)
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return r, elements, nil
}

func (r *Record[T]) load(data []byte) ([]T, error) {
	found, err := Scan(data, r.format)
	if err != nil {
		return nil, err
	}
	if !found.Sound() && len(found.Elements) > 0 {
		if err := r.format.Doubt(found.Elements); err != nil {
			return nil, &ForeignError{Err: err}
		}
	}
	mended, notes, err := r.format.Mend(found.Elements, found.gaps())
	if err != nil {
		return nil, err
	}
	if found.Sound() && len(notes) == 0 {
		r.journal.Use(found.End, len(found.Elements) == 0)
		return found.Elements, nil
	}
	if err := r.repair(found, mended); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	r.tellAll(notes)
	return mended, nil
}

// repair rewrites the file. It keeps the damaged one, unless all that is wrong
// with it is that it ends too early.
func (r *Record[T]) repair(found *Found[T], mended []T) error {
	notes := r.describe(found)
	if found.onlyCut() {
		r.tellAll(notes)
		return r.journal.Replace(r.encode(mended))
	}
	kept, err := r.journal.Repair(r.encode(mended))
	if err != nil {
		return err
	}
	r.tellAll(notes)
	r.tell("the original file is saved in " + kept)
	return nil
}

// describe returns notes on what is wrong with a file.
func (r *Record[T]) describe(found *Found[T]) (notes []string) {
	for _, d := range found.Damage {
		notes = append(notes, r.describeDamage(d))
	}
	for _, i := range found.Garbled {
		notes = append(notes, fmt.Sprintf("%s %d has bytes that are no UTF-8; they read as U+FFFD now", r.format.Element, i+1))
	}
	if found.Marked {
		notes = append(notes, "a byte order mark at the beginning of the file was removed")
	}
	return notes
}

func (r *Record[T]) describeDamage(d Damage) string {
	element := r.format.Element
	switch {
	case d.Cut && d.Rest == 0:
		return fmt.Sprintf("the file was cut off after its last %s; a %s that was being written is lost", element, element)
	case d.Cut:
		return fmt.Sprintf("the last %s was cut off after %s and is lost", element, numeral.Count(d.Rest, "byte"))
	}
	return fmt.Sprintf("the file is damaged after %s %d: what was in its bytes %d to %d is lost to the %s",
		element, d.After, d.Start, d.End-1, r.format.Whole)
}

// maxNotes is how many notes of one kind are passed on; further ones are only
// counted.
const maxNotes = 10

func (r *Record[T]) tellAll(notes []string) {
	for _, note := range notes[:min(len(notes), maxNotes)] {
		r.tell(note)
	}
	if more := len(notes) - maxNotes; more > 0 {
		r.tell("and so at " + numeral.Count(more, "more place"))
	}
}

// Elements reads the elements that the file has now, also after Close. While the
// file is open it is the one that the record writes, whatever has become of its
// name. Damaged elements are left out, and a file that is gone has none.
func (r *Record[T]) Elements() ([]T, error) {
	data, err := r.journal.content()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := Scan(data, r.format)
	if err != nil {
		return nil, nil // something else has taken the place of all elements
	}
	return found.Elements, nil
}

// Append adds elements to the file. all returns every element, the added ones
// included, in case the file must be written anew.
func (r *Record[T]) Append(added []T, all func() ([]T, error)) error {
	return r.change(all, func() error { return r.journal.Append(r.encode(added)...) })
}

// Replace replaces the elements of the file by all.
func (r *Record[T]) Replace(all []T) error {
	return r.change(func() ([]T, error) { return all, nil }, func() error { return r.journal.Replace(r.encode(all)) })
}

// Leave goes on with all elements in a new file, and leaves the old one, whose
// content something else has changed, as it is. why says what has changed.
func (r *Record[T]) Leave(all []T, why error) error {
	return r.change(func() ([]T, error) { return all, nil }, func() error { return fmt.Errorf("%w: %w", ErrChanged, why) })
}

// Sync writes the elements that could not be written before, and puts the file
// on stable storage.
func (r *Record[T]) Sync(all func() ([]T, error)) error { return r.change(all, r.journal.Sync) }

// Close syncs the file and releases it, even if it returns an error.
func (r *Record[T]) Close(all func() ([]T, error)) error {
	return errors.Join(r.Sync(all), r.journal.Close())
}

// change calls do, which changes the file. If something else has removed or
// changed the file, it leaves that as it is and writes all elements to a new
// one.
func (r *Record[T]) change(all func() ([]T, error), do func() error) error {
	changed := do()
	if !errors.Is(changed, ErrChanged) {
		return changed
	}
	old := r.journal.Path()
	elements, err := all()
	var path string
	if err == nil {
		path, err = r.journal.Move(r.encode(elements))
	}
	if err != nil {
		return fmt.Errorf("%w; and a new one cannot be written: %w", changed, err)
	}
	if path == old {
		r.tell(fmt.Sprintf("the file was removed while in use; it was written again with the whole %s", r.format.Whole))
		return nil
	}
	r.tell(fmt.Sprintf("%s: %v; it was left alone, and the whole %s continues in %s", old, changed, r.format.Whole, path))
	return nil
}

func (r *Record[T]) encode(elements []T) [][]byte {
	encoded := make([][]byte, len(elements))
	for i, element := range elements {
		encoded[i] = r.format.Bytes(element)
	}
	return encoded
}
