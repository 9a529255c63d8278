package pathname

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Info describes a file without following links.
type Info struct {
	Path    string // as it is listed
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
	Target  string // where a symbolic link leads
}

// IsLink reports whether the file is a symbolic link.
func (i Info) IsLink() bool { return i.Mode&fs.ModeSymlink != 0 }

// Of returns how the files of a lister are described, and which names a directory has.
func Of[F any](ctx context.Context, files Lister[F], infoOf func(F) Info) (describe func(name string) (Info, error), list func(dir string) []string) {
	describe = func(name string) (Info, error) {
		f, err := files.StatFile(ctx, name)
		return infoOf(f), err
	}
	list = func(dir string) (names []string) {
		all, _, _ := files.ListFiles(ctx, dir, 1, 0) // what could be listed counts
		for _, f := range all {
			names = append(names, path.Base(infoOf(f).Path))
		}
		return names
	}
	return describe, list
}

// Links follows the symbolic links of a workspace, whose paths are relative and clean.
// Each file is looked at once. What becomes of it later is told by [Links.Set]. A Links is
// for one goroutine.
type Links struct {
	// Lstat describes a file without following it.
	Lstat func(name string) (Info, error)
	// Names returns the names in a directory, if "a" and "A" may be one file: then the
	// paths have the names as they are there. nil for a workspace where they are two.
	Names func(dir string) []string

	seen map[string]described
}

type described struct {
	Info
	err error
}

// Stat describes a file without following it.
func (l *Links) Stat(name string) (Info, error) {
	is, ok := l.seen[name]
	if !ok {
		is.Info, is.err = l.Lstat(name)
		l.Set(name, is.Info, is.err)
	}
	return is.Info, is.err
}

// Set says how a file will be, or why there will be none. A file is in directories, whether
// these were there or not.
func (l *Links) Set(name string, is Info, err error) {
	if l.seen == nil {
		l.seen = map[string]described{}
	}
	l.seen[name] = described{is, err}
	for dir := path.Dir(name); err == nil && dir != "." && dir != "/"; dir = path.Dir(dir) {
		if d, known := l.seen[dir]; known && d.err != nil {
			l.seen[dir] = described{Info: Info{Mode: fs.ModeDir}}
		}
	}
}

// maxLinks is how many symbolic links are followed for one path.
const maxLinks = 40

// Entry returns the path by which a file is listed: no directory in it is a link.
func (l *Links) Entry(name string) (string, error) { return l.follow(name, false) }

// File returns the path of the file to which a name leads: nothing in it is a link.
func (l *Links) File(name string) (string, error) { return l.follow(name, true) }

func (l *Links) follow(name string, last bool) (string, error) {
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", fmt.Errorf("%s leads out of the workspace", name)
			}
			at = path.Dir(at)
			continue
		}
		next := l.spelled(at, element)
		if len(rest) == 0 && !last {
			return next, nil
		}
		is, err := l.Stat(next)
		if err == nil && is.IsLink() {
			if links++; links > maxLinks || path.IsAbs(is.Target) {
				return "", fmt.Errorf("%s is a symbolic link to %s, which is not followed", next, is.Target)
			}
			rest = append(strings.Split(is.Target, "/"), rest...)
			continue
		}
		if at = next; errors.Is(err, fs.ErrNotExist) && len(rest) > 0 && !slices.Contains(rest, "..") {
			at = path.Join(next, path.Join(rest...))
			l.Set(at, Info{}, err)
			break
		}
	}
	return at, nil
}

// spelled returns the path of a name in a directory as it is spelled there.
func (l *Links) spelled(dir, name string) string {
	at := path.Join(dir, name)
	if l.Names == nil {
		return at
	}
	if _, err := l.Stat(at); err != nil {
		return at
	}
	names := l.Names(dir)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) }); i >= 0 && !slices.Contains(names, name) {
		return path.Join(dir, names[i])
	}
	return at
}

// Shared reports whether several of some paths may lead to one file, as far as that can be
// told without following directories: then [Links.Entry] and [Links.File] tell. folds says
// that two of them differ only in capitals.
func (l *Links) Shared(names []string) (shared, folds bool) {
	infos := make([]described, len(names))
	for i, name := range names {
		infos[i].Info, infos[i].err = l.Stat(name)
		shared = shared || infos[i].err == nil && infos[i].IsLink()
	}
	for i := range names {
		for j := range i {
			if strings.EqualFold(path.Base(names[i]), path.Base(names[j])) && alike(infos[i], infos[j]) {
				shared, folds = true, folds || strings.EqualFold(names[i], names[j])
			}
		}
	}
	return shared, folds
}

// alike reports whether two descriptions may be of one file.
func alike(a, b described) bool {
	if a.err != nil || b.err != nil {
		return errors.Is(a.err, fs.ErrNotExist) && errors.Is(b.err, fs.ErrNotExist)
	}
	return a.Mode == b.Mode && a.Size == b.Size && a.ModTime.Equal(b.ModTime)
}

// Writable refuses a file that its owner has made read-only. Without an error it may still
// be impossible to write it.
func (l *Links) Writable(name string) error {
	is, err := l.Stat(name)
	if err == nil && is.IsLink() {
		at := ""
		if at, err = l.File(name); err == nil {
			is, err = l.Stat(at)
		}
	}
	if err == nil && is.Mode.IsRegular() && is.Mode.Perm()&0o200 == 0 {
		return fmt.Errorf("%s is read-only (mode %04o), and was left as it is; if it may be changed, make it writable with chmod u+w in bash first", name, is.Mode.Perm())
	}
	return nil
}
