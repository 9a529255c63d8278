package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

// How many files are named.
const (
	named     = 12 // before a person decides about all
	namedGone = 5  // when nobody can decide any more
)

// List names files with their sizes, one a line, for the person who decides about
// them. more says that there are others.
func List(files []File, more bool) string {
	var lines []string
	for _, f := range files[:min(len(files), named)] {
		lines = append(lines, escape.Name(f.Path)+" · "+f.about())
	}
	switch rest := len(files) - len(lines); {
	case more && len(files) > 0:
		lines = append(lines, "… and many more")
	case rest > 0:
		lines = append(lines, "… and "+numeral.Grouped(rest)+" more")
	}
	return strings.Join(lines, "\n")
}

// about says how large a file is, or else what it is.
func (f File) about() string {
	switch {
	case f.Mode&fs.ModeSymlink != 0:
		return "a link"
	case !f.Mode.IsRegular():
		return "not a regular file, so it is not copied"
	}
	return numeral.Bytes(f.Size)
}

// Question asks what becomes of files. more says that there are others.
func Question(files []File, more bool) string {
	if more {
		return "The files of this temporary workspace will be deleted. Keep them?"
	}
	return numeral.Count(len(files), "file") + " of this temporary workspace will be deleted. Keep them?"
}

// NotCopied says which of the files were not copied although that succeeded: those
// of other kinds, and those that could not be read. Either is empty for none.
func NotCopied(files []File, lost []string) (special, unread string) {
	var names []string
	for _, f := range files {
		if !f.Copied() {
			names = append(names, escape.Name(f.Path))
		}
	}
	if len(names) > 0 {
		special = "not copied, because they are not regular files: " + numeral.Some(names, named, false)
	}
	if len(lost) > 0 {
		names = nil
		for _, name := range lost {
			names = append(names, escape.Name(name))
		}
		unread = "not kept, because they could not be read: " + numeral.Some(names, named, false)
	}
	return special, unread
}

// Gone says that a temporary workspace goes, with which files, and how they come back,
// or would have been kept. more says that there are others. session is the ID of the
// session that puts them back; empty for none.
func Gone(files []string, more bool, session string) string {
	how := "To keep them, use --cwd or --workspace DIR, or set PYGENT_WORKSPACE=DIR."
	if session != "" {
		how = "pygent --resume " + session + " restores them. To work in a permanent directory, use --cwd or --workspace DIR."
	}
	return fmt.Sprintf("the temporary workspace is deleted with its files: %s. %s", numeral.Some(files, namedGone, more), how)
}

// FreeName returns a name for a directory that does not exist in another one.
func FreeName(in string, now time.Time) string {
	stem := "pygent-" + now.Format("20060102-150405")
	name := stem
	for n := 2; n < 100; n++ {
		if _, err := os.Lstat(filepath.Join(in, name)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%d", stem, n)
	}
	return name
}
