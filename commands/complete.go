package commands

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/pathname"
)

// complete is [pygent.Command].Complete.
type complete = func(ctx context.Context, a *pygent.Agent, words []string) []string

// byPosition completes each word by a function of its own, which may be nil.
func byPosition(completes ...complete) complete {
	return func(ctx context.Context, a *pygent.Agent, words []string) []string {
		at := len(words) - 1
		if at >= len(completes) || completes[at] == nil {
			return nil
		}
		return completes[at](ctx, a, words)
	}
}

// either offers what all of the functions do.
func either(completes ...complete) complete {
	return func(ctx context.Context, a *pygent.Agent, words []string) (all []string) {
		for _, c := range completes {
			all = append(all, c(ctx, a, words)...)
		}
		return all
	}
}

func oneOf(words ...string) complete {
	return func(context.Context, *pygent.Agent, []string) []string { return words }
}

// models completes /model.
func models(ctx context.Context, a *pygent.Agent, _ []string) []string {
	names, _ := modelNames(ctx, a)
	return names
}

// toolNames completes /tools.
func toolNames(_ context.Context, a *pygent.Agent, words []string) []string {
	if len(words) == 1 {
		return []string{"disable", "enable", "list"}
	}
	settings := a.State().Settings
	names := settings.Tools
	switch words[0] {
	case "enable":
		names = settings.Disabled
	case "disable":
	default:
		return nil
	}
	named := words[1 : len(words)-1]
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(named, name) })
}

// changedFiles completes /diff.
func changedFiles(ctx context.Context, a *pygent.Agent, _ []string) (names []string) {
	changes, _, _, err := sessionChanges(ctx, a)
	if err != nil {
		return nil
	}
	for _, c := range changes {
		names = append(names, c.Path)
	}
	return sortedNames(names)
}

// maxNames is how many files of a directory are offered.
const maxNames = 1000

// hostFiles completes a path of this machine.
func hostFiles(_ context.Context, _ *pygent.Agent, words []string) (names []string) {
	dir, _ := splitPath(words[len(words)-1])
	d, err := os.Open(cmp.Or(pathname.ExpandHome(filepath.FromSlash(dir), ""), "."))
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxNames) // what could be read is offered
	for _, e := range entries {
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(d.Name(), e.Name()))
			isDir = err == nil && info.IsDir()
		}
		names = append(names, dir+e.Name()+endOf(isDir))
	}
	return sortedNames(names)
}

// workspaceFiles completes a path of the workspace.
func workspaceFiles(ctx context.Context, a *pygent.Agent, words []string) (names []string) {
	lister, ok := pygent.RuntimeAs[pygent.FileLister](a.Runtime())
	if !ok {
		return nil
	}
	dir, _ := splitPath(words[len(words)-1])
	files, _, err := lister.ListFiles(ctx, cmp.Or(dir, "."), 1, maxNames)
	if err != nil {
		return nil
	}
	for _, f := range files {
		names = append(names, dir+path.Base(f.Path)+endOf(f.Mode.IsDir()))
	}
	return sortedNames(names)
}

// splitPath divides a path into its directory, with the slash, and the rest.
func splitPath(name string) (dir, base string) {
	at := strings.LastIndexFunc(name, func(r rune) bool { return r < unicode.MaxASCII && (r == '/' || os.IsPathSeparator(uint8(r))) })
	return name[:at+1], name[at+1:]
}

func endOf(isDir bool) string {
	if isDir {
		return "/"
	}
	return ""
}

// sortedNames sorts names, those with a dot at the beginning last, and leaves out
// those that cannot be typed.
func sortedNames(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return strings.ContainsFunc(name, unicode.IsControl) })
	hidden := func(name string) bool { return strings.HasPrefix(path.Base(name), ".") }
	slices.SortFunc(names, func(a, b string) int {
		if hidden(a) != hidden(b) {
			if hidden(a) {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	return names
}
