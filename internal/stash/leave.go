package stash

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
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
		if pathname.IsCache(element) || element == pathname.Target {
			return export(w)
		}
	}
	return workspace.Pipe(ctx, export, func(r io.Reader) error { return l.copy(w, r) })
}

// copy copies an archive as it is, but for what is left out. Who reads it then checks it.
// What may be the output of a build comes last, when it is known whether it is: the file that
// says so may follow it in the archive.
func (l *LeftOut) copy(w io.Writer, r io.Reader) error {
	out := tar.NewWriter(w)
	built := map[string]bool{} // the directories with a file that says how they are built
	var later spool
	defer later.close()
	err := l.pass(r, built, func(h *tar.Header, name string) (*tar.Writer, error) {
		if !inTarget(name, h.Typeflag == tar.TypeDir) {
			return out, nil
		}
		return later.writer()
	})
	if err != nil {
		return err
	}
	if later.file != nil {
		again, err := later.reader()
		if err != nil {
			return err
		}
		if err := l.pass(again, built, func(*tar.Header, string) (*tar.Writer, error) { return out, nil }); err != nil {
			return err
		}
	}
	return out.Close()
}

// pass copies each entry of an archive that is not left out, to where to says.
func (l *LeftOut) pass(r io.Reader, built map[string]bool, to func(h *tar.Header, name string) (*tar.Writer, error)) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if h.Typeflag == tar.TypeReg && slices.Contains(pathname.BuildFiles, path.Base(name)) {
			built[path.Dir(name)] = true
		}
		if l.leaves(name, h.Typeflag == tar.TypeDir, built) {
			continue
		}
		out, err := to(h, name)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// inTarget reports whether an entry is a directory with the name of a build's output, or in one.
func inTarget(name string, isDir bool) bool {
	if !isDir {
		name = path.Dir(name)
	}
	return slices.Contains(strings.Split(name, "/"), pathname.Target)
}

// spool holds entries of an archive back, in a file of a temporary workspace: if this process
// dies, that is found and removed.
type spool struct {
	dir  string
	file *os.File
	to   *tar.Writer
}

// writer returns where the next entry goes.
func (s *spool) writer() (_ *tar.Writer, err error) {
	if s.file != nil {
		return s.to, nil
	}
	if s.dir, err = workspace.MakeTemp(false); err == nil {
		s.file, err = os.CreateTemp(s.dir, "tar-")
	}
	if err != nil {
		return nil, fmt.Errorf("hold back what a build may have made: %w", err)
	}
	s.to = tar.NewWriter(s.file)
	return s.to, nil
}

// reader returns the archive of the entries, once all are written.
func (s *spool) reader() (io.Reader, error) {
	err := s.to.Close()
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	return s.file, err
}

// close removes the directory.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.dir != "" {
		_ = workspace.RemoveTemp(s.dir)
	}
}

// leaves reports whether an entry is left out, and counts it.
func (l *LeftOut) leaves(name string, isDir bool, built map[string]bool) bool {
	for at := 0; at < len(name); {
		end := at + strings.IndexByte(name[at:]+"/", '/')
		base, dir := name[at:end], name[:end]
		if (end < len(name) || isDir) && (pathname.IsCache(base) || base == pathname.Target && built[path.Dir(dir)]) {
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
