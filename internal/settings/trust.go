package settings

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// trust says what a file may set.
type trust bool

const (
	trusted   trust = true  // the user's own file, or one the user named
	untrusted trust = false // found in the working directory: perhaps a stranger's
)

// maySet reports whether the file is trusted with a setting.
func (f *file) maySet(s *Setting) bool {
	_, isLimit := s.Value.(limit)
	return f.trust == trusted || s.Project || isLimit
}

// give sets a setting to the file's value. A limit of a project's file waits
// until all that the user set is known.
func (f *file) give(s *Setting, key string, value any) error {
	line, column := f.at.of(key)
	if l, isLimit := s.Value.(limit); isLimit && f.trust == untrusted {
		lower, err := l.ask(value)
		if err == nil {
			where := fmt.Sprintf("%s:%d:%d: %s", f.path, line, column, key)
			f.set.asked = append(f.set.asked, askedLimit{setting: s, where: where, flag: f.flag, asked: lower,
				took: func() { f.set.took(s, f.path, line, key, value) }})
		}
		return err
	}
	project := ""
	if f.trust == untrusted {
		var err error
		if project, err = filepath.Abs(f.set.sources.Dir); err != nil {
			return fmt.Errorf("find the project's directory: %w", err)
		}
	}
	err := s.set(value, project)
	if err == nil {
		f.set.took(s, f.path, line, key, value)
	}
	return err
}

// tellRefused adds a fault for the keys that a project's file may not set.
func (f *file) tellRefused() {
	if len(f.refused) == 0 {
		return
	}
	slices.SortFunc(f.refused, func(a, b string) int {
		return cmp.Or(f.at.offsets[a]-f.at.offsets[b], f.at.lines[a]-f.at.lines[b])
	})
	places := make([]string, len(f.refused))
	for i, key := range f.refused {
		line, _ := f.at.of(key)
		places[i] = fmt.Sprintf("%s (line %d)", key, line)
	}
	const most = 10
	if more := len(places) - most; more > 0 {
		places = append(places[:most], fmt.Sprintf("%d more", more))
	}
	line, column := f.at.of(f.refused[0])
	f.faults = append(f.faults, &Fault{Source: f.path, Line: line, Column: column, Err: fmt.Errorf(
		"a file found in the working directory may not set %s, because its author could send your key elsewhere or reach files outside the project; "+
			"if you trust the file, load it with %s %s, or set these in ~/%s",
		strings.Join(places, ", "), f.flag, f.path, HomeFile)})
}
