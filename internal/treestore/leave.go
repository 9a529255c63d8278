package treestore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/caches"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/survey"
	"github.com/x/pygent/internal/workspace"
)

// LeftOut are the directories that [LeftOut.Filter] leaves out of a copy of the directory
// above them, because programs fill them and can fill them again.
type LeftOut struct {
	names []string // the base names, in the order in which they came
	found map[string]*found
}

// found are the directories of one base name.
type found struct {
	first  string // the path of the first one
	places int
	files  int
}

// Filter writes the archive of the file or directory name to w, without caches below it.
// A directory that is named itself, or is in one that is, is copied with all that it holds.
// Nil leaves nothing out.
func (l *LeftOut) Filter(ctx context.Context, name string, w io.Writer, export func(io.Writer) error) error {
	if l == nil {
		return export(w)
	}
	for element := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if caches.Is(element) || element == caches.Target {
			return export(w)
		}
	}
	return workspace.Pipe(ctx, export, func(r io.Reader) error { return l.copy(w, r) })
}

// copy copies an archive as it is, but for what is left out. Who reads it then checks it.
func (l *LeftOut) copy(w io.Writer, r io.Reader) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	built := map[string]bool{} // the directories with a file that says how they are built
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if h.Typeflag == tar.TypeReg && slices.Contains(caches.BuildFiles, path.Base(name)) {
			built[path.Dir(name)] = true
		}
		if l.leaves(name, h.Typeflag == tar.TypeDir, built) {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// leaves reports whether an entry is left out, and counts it.
func (l *LeftOut) leaves(name string, isDir bool, built map[string]bool) bool {
	for at := 0; at < len(name); {
		end := at + strings.IndexByte(name[at:]+"/", '/')
		base, dir := name[at:end], name[:end]
		if (end < len(name) || isDir) && (caches.Is(base) || base == caches.Target && built[path.Dir(dir)]) {
			l.count(base, dir, end == len(name), isDir)
			return true
		}
		at = end + 1
	}
	return false
}

func (l *LeftOut) count(base, dir string, itself, isDir bool) {
	f := l.found[base]
	if f == nil {
		if l.found == nil {
			l.found = map[string]*found{}
		}
		f = &found{first: dir}
		l.found[base] = f
		l.names = append(l.names, base)
	}
	switch {
	case itself:
		f.places++
	case !isDir:
		f.files++
	}
}

// Words says what was left out: "node_modules (12,345 files) and __pycache__ in 3 places
// (7 files)". It is empty if nothing was.
func (l *LeftOut) Words() string {
	var said []string
	for _, base := range l.names {
		f := l.found[base]
		where := survey.Quote(f.first)
		if f.places > 1 {
			where = base + " in " + numeral.Count(f.places, "place")
		}
		said = append(said, fmt.Sprintf("%s (%s)", where, numeral.Count(f.files, "file")))
	}
	if n := len(said) - 1; n > 0 {
		said = []string{strings.Join(said[:n], ", ") + " and " + said[n]}
	}
	return strings.Join(said, "")
}
