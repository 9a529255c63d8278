package pygent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/sandbox"
)

// refuse notes the keys that a project's file must leave to the user.
func (f *configFile) refuse() {
	if len(f.refused) == 0 {
		return
	}
	slices.SortFunc(f.refused, func(a, b string) int { return f.offsets[a] - f.offsets[b] })
	places := make([]string, len(f.refused))
	for i, key := range f.refused {
		line, _ := f.position(f.offsets[key])
		places[i] = fmt.Sprintf("%s (line %d)", key, line)
	}
	const most = 10
	if more := len(places) - most; more > 0 {
		places = append(places[:most], fmt.Sprintf("%d more", more))
	}
	offset := f.offsets[f.refused[0]]
	line, column := f.position(offset)
	f.faults = append(f.faults, fault{offset, &ConfigError{Source: f.path, Line: line, Column: column, Err: fmt.Errorf(
		"a file found in the working directory may not set %s: whoever wrote the project could send your key elsewhere or reach files outside of it; "+
			"if you trust the file, name it with --config %s, or set these in ~/%s",
		strings.Join(places, ", "), f.path, homeFile)}})
}

// confineInitialFiles refuses initial files of a project's file that are not the
// project's own, as initial files are copied to where a model reads them. It
// notes where the others come from: what a name leads to is decided again when
// it is opened for the copy, below that directory.
func (c *Config) confineInitialFiles(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the project's directory: %w", err)
	}
	c.projectFiles = make(map[string]sandbox.InitialFile)
	for i, path := range c.InitialFiles {
		file := sandbox.InitialFile{Text: path, Project: dir}
		if err := file.Check(); err != nil {
			return &valueError{path: fmt.Sprintf("[%d]", i), reason: err.Error()}
		}
		c.InitialFiles[i] = filepath.Join(dir, path)
		c.projectFiles[c.InitialFiles[i]] = file
	}
	return nil
}

// setInitialFiles takes the word of a source that is trusted, until it is
// confined.
func setInitialFiles(c *Config, value any) error {
	paths, err := asPaths(value)
	if err == nil {
		c.InitialFiles, c.projectFiles = paths, nil
	}
	return err
}

// initialFiles returns the initial files with what is known of their origin.
func (c *Config) initialFiles() RuntimeOption {
	files := make([]sandbox.InitialFile, len(c.InitialFiles))
	for i, path := range c.InitialFiles {
		file, ok := c.projectFiles[path]
		if !ok {
			file = sandbox.InitialFile{Text: path}
		}
		files[i] = file
	}
	return func(o *runtimeOptions) { o.initialFiles = append(o.initialFiles, files...) }
}
