package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"

	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/spelling"
)

// maxFile is the largest file that is read or changed, in bytes.
const maxFile = 256 << 10

// readOptionalFile applies a file that need not exist.
func (s *Set) readOptionalFile(path string, t trust) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		s.readFile(path, t)
	}
}

// readFile applies a file to the settings and records its faults. It returns the
// settings that the file has, with their keys.
func (s *Set) readFile(path string, t trust) map[*Setting]string {
	data, err := readRegular(path, t)
	if err != nil {
		s.Faults = append(s.Faults, &Fault{Source: path, Err: err})
		return nil
	}
	f := file{set: s, path: path, flag: "--config", data: data, trust: t}
	f.apply()
	s.Faults = append(s.Faults, f.sortedFaults()...)
	s.Files = append(s.Files, path)
	return f.seen
}

// readTables applies the tables that are trusted, or those that are not.
func (s *Set) readTables(t trust) {
	for _, table := range s.sources.Tables {
		if table.Project != (t == untrusted) {
			continue
		}
		f := file{set: s, path: table.Path, flag: table.Flag, trust: t, at: positions{lines: table.Lines}, seen: make(map[*Setting]string)}
		f.table("", table.Values)
		f.tellRefused()
		s.Faults = append(s.Faults, f.sortedFaults()...)
		if t == trusted {
			s.userSet(slices.Collect(maps.Keys(f.seen))...)
		}
	}
}

// openIn opens a file. One in the project of a stranger may be a link, which must not lead
// out of the project: what it leads to is the user's.
func openIn(path string, t trust) (*os.File, error) {
	if t == trusted {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readRegular reads a regular file of bounded size. A file in the project of a
// stranger may be a pipe, or endless.
func readRegular(path string, t trust) ([]byte, error) {
	f, err := openIn(path, t)
	if err != nil {
		return nil, patherr.Cause(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, patherr.Cause(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than %d KiB, which no configuration is", maxFile>>10)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil // which Notepad writes
}

// file is one file being applied to the settings of a set.
type file struct {
	set   *Set
	path  string
	flag  string // with which a user names such a file to trust it
	data  []byte
	trust trust

	at      positions
	seen    map[*Setting]string // the settings that the file has, with their keys
	refused []string            // keys that the file may not set
	faults  []*Fault
}

func (f *file) apply() {
	var document map[string]any
	if err := toml.Unmarshal(f.data, &document); err != nil {
		f.syntaxFault(err)
		return
	}
	f.at = locate(f.data)
	f.seen = make(map[*Setting]string)
	f.table("", document)
	f.tellRefused()
}

// syntaxFault adds the one error at which the TOML decoder stopped.
func (f *file) syntaxFault(err error) {
	bad := &Fault{Source: f.path, Err: err}
	if d := (*toml.DecodeError)(nil); errors.As(err, &d) {
		bad.Line, bad.Column = d.Position()
		bad.Err = errors.New("bad TOML: " + strings.TrimPrefix(d.Error(), "toml: "))
	}
	f.faults = append(f.faults, bad)
}

// table applies the settings in a table of the document.
func (f *file) table(prefix string, entries map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		key := joinKey(prefix, quoteKey(name))
		value := entries[name]
		s := f.set.withKey(key)
		switch {
		case s != nil:
			f.setting(s, key, value)
		case !f.set.isTable(key):
			f.fault(key, &unknownKey{f.set, key, prefix == ""})
		default:
			if sub, ok := value.(map[string]any); ok {
				f.table(key, sub)
			} else {
				f.fault(key, Want("a table: ["+key+"]", value))
			}
		}
	}
}

// setting applies one setting that the file has under key.
func (f *file) setting(s *Setting, key string, value any) {
	if !f.maySet(s) {
		f.refused = append(f.refused, key)
		return
	}
	if other, twice := f.seen[s]; twice {
		f.fault(key, fmt.Errorf("says the same as %s, which is there too", other))
		return
	}
	f.seen[s] = key
	if err := f.give(s, key, value); err != nil {
		f.fault(key, s.hide(err))
	}
}

// fault adds an error at the position of key, or of the part of its value that
// the error is about.
func (f *file) fault(key string, err error) {
	if bad := (*valueError)(nil); errors.As(err, &bad) {
		if _, ok := f.at.offsets[key+bad.path]; ok {
			key += bad.path
		}
		if f.set.withKey(bad.field) != nil {
			// Below an [[array of tables]] a key belongs to its last table.
			// Whoever writes a setting there does not mean that.
			err = errors.New("is a setting that the [table] above it swallows here; move it above the first [table] of the file")
		}
	}
	line, column := f.at.of(key)
	f.faults = append(f.faults, &Fault{Source: f.path, Line: line, Column: column, Key: key, Err: err})
}

// sortedFaults returns the faults in the order of the file.
func (f *file) sortedFaults() []*Fault {
	slices.SortStableFunc(f.faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return f.faults
}

// unknownKey is the error for a key that is no setting. It suggests the key that may have
// been meant, which is looked for only when it is shown: a file may have thousands.
type unknownKey struct {
	set *Set
	key string
	top bool // it is in no table
}

func (e *unknownKey) Error() string {
	var keys []string
	for _, one := range e.set.settings {
		if one.Key != "" {
			keys = append(append(keys, one.Key), one.Also...)
		}
	}
	if like := spelling.Nearest(e.key, keys); like != "" {
		return "unknown key, did you mean " + like + "?"
	}
	if like := inAnotherTable(e.key, keys); like != "" {
		if table, _, ok := strings.Cut(like, "."); ok {
			return fmt.Sprintf("unknown key, did you mean %s, in the table [%s]?", like, table)
		}
		return "unknown key, did you mean " + like + ", above the first [table]?"
	}
	if e.top {
		return "unknown key; examples/sample_config.toml shows them all"
	}
	return "unknown key in this table; examples/sample_config.toml shows them all"
}

// inAnotherTable returns the one of keys whose last part is the same as that of
// key, or nearly so, and "" if there is none.
func inAnotherTable(key string, keys []string) string {
	byName := make(map[string]string)
	for _, k := range slices.Backward(keys) {
		byName[lastPart(k)] = k
	}
	return byName[spelling.Nearest(lastPart(key), slices.Sorted(maps.Keys(byName)))]
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
