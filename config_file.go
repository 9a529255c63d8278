package pygent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

const (
	projectFile   = "pygent.toml"  // in the project's directory
	homeFile      = ".pygent.toml" // in the user's home
	maxConfigFile = 256 << 10      // bytes
)

// trust says what a file may set.
type trust bool

const (
	trusted   trust = true  // the user's own file, or one the user named
	untrusted trust = false // found in the working directory
)

// optionalFile applies a file that need not exist.
func (l *configLoad) optionalFile(path string, t trust) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		l.file(path, t, false)
	}
}

// file applies a file to the configuration, or notes what is wrong with it. Named
// is a file that goes before the project's.
func (l *configLoad) file(path string, t trust, named bool) {
	data, err := readConfigFile(path)
	if err != nil {
		l.faults = append(l.faults, &ConfigError{Source: path, Err: err})
		return
	}
	f := configFile{path: path, data: data, trust: t, dir: l.sources.Dir, config: &l.config}
	f.apply()
	l.faults = append(l.faults, f.sortedFaults()...)
	l.asked = append(l.asked, f.asked...)
	if named {
		l.userSet(slices.Collect(maps.Keys(f.seen))...)
	}
	l.config.Files = append(l.config.Files, path)
}

// readConfigFile reads a regular file of bounded size: what a stranger's
// project holds may be a pipe, or endless.
func readConfigFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, bareError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bareError(err)
	}
	defer f.Close()
	// It may have become something else since.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, bareError(err)
	}
	if len(data) > maxConfigFile {
		return nil, fmt.Errorf("larger than %d KiB, which no configuration is", maxConfigFile>>10)
	}
	return data, nil
}

// bareError drops the path of a file error, for messages that have it already.
func bareError(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// configFile is one file being applied to a configuration.
type configFile struct {
	path   string
	data   []byte
	trust  trust
	dir    string // the project's
	config *Config

	offsets map[string]int // of every key, by its full path
	seen    map[*setting]string
	refused []string // keys that the file is not trusted with
	asked   []askedLimit
	faults  []fault
}

// fault is an error and the place in the file it belongs to.
type fault struct {
	offset int
	err    error
}

func (f *configFile) apply() {
	var document map[string]any
	if err := toml.Unmarshal(f.data, &document); err != nil {
		f.syntaxFault(err)
		return
	}
	f.locate()
	f.seen = make(map[*setting]string)
	f.table("", document)
	f.refuse()
}

// syntaxFault notes the one error that the TOML decoder stops at.
func (f *configFile) syntaxFault(err error) {
	bad := &ConfigError{Source: f.path, Err: err}
	if d := (*toml.DecodeError)(nil); errors.As(err, &d) {
		bad.Line, bad.Column = d.Position()
		bad.Err = errors.New("bad TOML: " + strings.TrimPrefix(d.Error(), "toml: "))
	}
	f.faults = append(f.faults, fault{err: bad})
}

// table applies the settings in a table of the document.
func (f *configFile) table(prefix string, entries map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		key := joinKey(prefix, quoteKey(name))
		value := entries[name]
		s := settingOf(key)
		switch {
		case s != nil:
			f.setting(s, key, value)
		case !isConfigTable(key):
			f.fault(key, unknownKey(key, prefix == ""))
		default:
			if sub, ok := value.(map[string]any); ok {
				f.table(key, sub)
			} else {
				f.fault(key, want("a table: ["+key+"]", value))
			}
		}
	}
}

// setting applies one setting that the file says under key.
func (f *configFile) setting(s *setting, key string, value any) {
	if f.trust == untrusted && !s.project && !s.isLimit() {
		f.refused = append(f.refused, key)
		return
	}
	if other, twice := f.seen[s]; twice {
		f.fault(key, fmt.Errorf("says the same as %s, which is there too", other))
		return
	}
	f.seen[s] = key
	if err := f.set(s, key, value); err != nil {
		f.fault(key, s.hide(err))
	}
}

// set applies a value that the file may set, if only within bounds.
func (f *configFile) set(s *setting, key string, value any) error {
	if f.trust == untrusted && s.isLimit() {
		return f.ask(s, key, value)
	}
	err := s.set(f.config, value)
	if err == nil && f.trust == untrusted && s.key == "initial_files" {
		err = f.config.confineInitialFiles(f.dir)
	}
	return err
}

// ask notes a limit that holds if it is lower than the user's.
func (f *configFile) ask(s *setting, key string, value any) error {
	var c Config
	if err := s.set(&c, value); err != nil {
		return err
	}
	line, column := f.position(f.offsets[key])
	where := fmt.Sprintf("%s:%d:%d: %s", f.path, line, column, key)
	f.asked = append(f.asked, askedLimit{setting: s, where: where, limits: c.Limits})
	return nil
}

// fault notes an error at the place of key, or of the part of its value that
// the error is about.
func (f *configFile) fault(key string, err error) {
	if bad := (*valueError)(nil); errors.As(err, &bad) {
		if _, ok := f.offsets[key+bad.path]; ok {
			key += bad.path
		}
		if settingOf(bad.field) != nil {
			// Below an [[array of tables]] a key belongs to its last table,
			// which nobody means who writes a setting there.
			err = errors.New("is a setting that the [table] above it swallows here; move it above the first [table] of the file")
		}
	}
	offset := f.offsets[key]
	line, column := f.position(offset)
	f.faults = append(f.faults, fault{offset, &ConfigError{Source: f.path, Line: line, Column: column, Key: key, Err: err}})
}

// sortedFaults returns the faults in the order of the file.
func (f *configFile) sortedFaults() []error {
	slices.SortStableFunc(f.faults, func(a, b fault) int { return cmp.Compare(a.offset, b.offset) })
	errs := make([]error, len(f.faults))
	for i, one := range f.faults {
		errs[i] = one.err
	}
	return errs
}

// position is the line and the column, in bytes, of an offset.
func (f *configFile) position(offset int) (line, column int) {
	before := f.data[:offset]
	return bytes.Count(before, []byte("\n")) + 1, offset - bytes.LastIndexByte(before, '\n')
}

// locate finds where each key stands. The decoder knows but does not tell;
// the parser below it gives the document as it is written.
func (f *configFile) locate() {
	f.offsets = make(map[string]int)
	arrays := make(map[string]int) // how many [[tables]] there are so far
	p := unstable.Parser{}
	p.Reset(f.data)
	prefix := ""
	for p.NextExpression() {
		switch node := p.Expression(); node.Kind {
		case unstable.Table:
			prefix = f.locateKey("", node.Key(), arrays)
		case unstable.ArrayTable:
			key := f.locateKey("", node.Key(), nil)
			prefix = fmt.Sprintf("%s[%d]", key, arrays[key])
			f.offsets[prefix] = lastOffset(node.Key())
			arrays[key]++
		case unstable.KeyValue:
			f.locateEntry(prefix, node)
		}
	}
}

// locateEntry notes a key, and the keys in its value.
func (f *configFile) locateEntry(prefix string, entry *unstable.Node) {
	f.locateValue(f.locateKey(prefix, entry.Key(), nil), entry.Value())
}

func (f *configFile) locateValue(key string, value *unstable.Node) {
	switch value.Kind {
	case unstable.InlineTable:
		for it := value.Children(); it.Next(); {
			f.locateEntry(key, it.Node())
		}
	case unstable.Array:
		n := 0
		for it := value.Children(); it.Next(); {
			if item := it.Node(); item.Kind != unstable.Comment {
				itemKey := fmt.Sprintf("%s[%d]", key, n)
				if item.Raw.Length > 0 { // not every kind of value has a place
					f.offsets[itemKey] = int(item.Raw.Offset)
				}
				f.locateValue(itemKey, item)
				n++
			}
		}
	}
}

// locateKey notes every part of a dotted key where it first stands, and
// returns the whole. A part that names an array of tables means its last.
func (f *configFile) locateKey(prefix string, parts unstable.Iterator, arrays map[string]int) string {
	key := prefix
	for parts.Next() {
		part := parts.Node()
		key = joinKey(key, quoteKey(string(part.Data)))
		if _, ok := f.offsets[key]; !ok {
			f.offsets[key] = int(part.Raw.Offset)
		}
		if n := arrays[key]; n > 0 {
			key = fmt.Sprintf("%s[%d]", key, n-1)
		}
	}
	return key
}

// lastOffset is where the last part of a dotted key stands.
func lastOffset(parts unstable.Iterator) int {
	offset := 0
	for parts.Next() {
		offset = int(parts.Node().Raw.Offset)
	}
	return offset
}

func joinKey(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// quoteKey is a part of a key as TOML writes it, so that a quoted "a.b" is
// never taken for b in the table a.
func quoteKey(name string) string {
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return strconv.Quote(name)
		}
	}
	return cmp.Or(name, `""`)
}

// settingOf returns the setting with this key, or nil.
func settingOf(key string) *setting {
	for i := range configSettings {
		if s := &configSettings[i]; key != "" && s.key == key || slices.Contains(s.also, key) {
			return s
		}
	}
	return nil
}

// isConfigTable reports whether key names a table that holds settings.
func isConfigTable(key string) bool {
	return slices.ContainsFunc(configSettings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}
