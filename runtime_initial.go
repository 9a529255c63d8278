package pygent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/workspace"
)

// initialFile is what a new workspace begins with: "src" or "src:dest".
type initialFile struct {
	text string
	// project is the directory that src may not lead out of, because whoever
	// wrote the project named it; empty when the user did.
	project string
}

// errLeavesProject is the error of a path of a project's file.
var errLeavesProject = errors.New("leads out of the project; only --config FILE or ~/" + settings.HomeFile + " may name such files")

// copyInto copies the file to its place in a workspace.
func (f initialFile) copyInto(ctx context.Context, to files) error {
	src, dest, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	return upload(ctx, to, src, dest)
}

// open opens the source, and returns where it goes. What is opened here is what
// is copied: a source of a project is not looked at by its name again.
func (f initialFile) open() (src *workspace.Source, dest string, err error) {
	path, dest := f.split()
	if f.project == "" {
		src, err = workspace.OpenSource(path)
		return src, dest, err
	}
	src, err = workspace.OpenSourceIn(f.project, path)
	if errors.Is(err, workspace.ErrOutside) {
		err = fmt.Errorf("%.60q %w", path, errLeavesProject)
	}
	return src, dest, err
}

// check refuses a source that leads out of its project. One that does not exist
// is for the copying to report.
func (f initialFile) check() error {
	src, _, err := f.open()
	if errors.Is(err, errLeavesProject) {
		return err
	}
	if err == nil {
		return src.Close()
	}
	return nil
}

// split splits "src:dest". A name that exists as it is, or the colon of a
// Windows drive, is no such pair.
func (f initialFile) split() (src, dest string) {
	if f.exists() {
		return f.text, ""
	}
	i := strings.LastIndexByte(f.text, ':')
	if i < max(1, len(filepath.VolumeName(f.text))) {
		return f.text, ""
	}
	return f.text[:i], f.text[i+1:]
}

// exists reports whether there is a file by the whole text.
func (f initialFile) exists() bool {
	if f.project == "" {
		_, err := os.Lstat(f.text)
		return err == nil
	}
	root, err := os.OpenRoot(f.project)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(f.text)
	return err == nil
}
