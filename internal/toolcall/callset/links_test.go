package callset_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/toolcall/callset"
)

// onDisk are the files of a directory, with what was looked at.
func onDisk(t *testing.T, dir string) (files callset.Files, looked *[]string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	looked = new([]string)
	return callset.Files{
		Locate: func(name string) (string, error) { return strings.TrimPrefix(name, dir+"/"), nil },
		Read: func(name string) ([]byte, error) {
			*looked = append(*looked, "read "+name)
			return root.ReadFile(name)
		},
		Stat: func(name string) (pathname.Info, error) {
			*looked = append(*looked, "stat "+name)
			f, err := root.Lstat(name)
			if err != nil {
				return pathname.Info{}, err
			}
			target, _ := root.Readlink(name)
			return pathname.Info{Size: f.Size(), Mode: f.Mode(), ModTime: f.ModTime(), Target: target}, nil
		},
		Names: func(string) []string { return nil },
	}, looked
}

// linked makes a directory with files and, where a text begins with "-> ", links.
func linked(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, ok := strings.CutPrefix(data, "-> "); ok {
			require.NoError(t, os.Symlink(target, at))
			continue
		}
		require.NoError(t, os.WriteFile(at, []byte(data), 0o644))
	}
	return dir
}

// TestAFileWithSeveralNamesIsOneFile makes the calls of a patch on a disk: what is planned can
// be done, and what cannot be done is not planned.
func TestAFileWithSeveralNamesIsOneFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("makes symbolic links")
	}
	top := map[string]string{"a": "x\n", "link": "-> ."}
	for name, c := range map[string]struct {
		files map[string]string
		patch string
		want  map[string]string // nil if nothing can be done
		err   string
	}{
		"removed, then changed through a link":  {top, patch("*** Delete File: a", "*** Update File: link/a", "@@", "-x", "+y"), nil, "link/a: there is no such file"},
		"removed through a link, then changed":  {top, patch("*** Delete File: link/a", "*** Update File: a", "@@", "-x", "+y"), nil, "a: there is no such file"},
		"removed twice":                         {top, patch("*** Delete File: a", "*** Delete File: link/link/a"), nil, "there is no such file"},
		"renamed, then changed by the old name": {top, patch("*** Update File: link/a", "*** Move to: b", "*** Update File: a", "@@", "-x", "+y"), nil, "a: there is no such file"},
		"the link goes":                         {map[string]string{"d/a": "x\n", "l": "-> d"}, patch("*** Delete File: l", "*** Update File: l/a", "@@", "-x", "+y"), nil, "l/a: there is no such file"},
		"a file becomes a directory":            {top, patch("*** Add File: n", "+1", "*** Add File: n/x", "+2"), nil, "one of the two would have to be a directory"},
		"a directory becomes a file":            {top, patch("*** Add File: n/x", "+1", "*** Add File: n", "+2"), nil, "one of the two would have to be a directory"},
		"a directory goes":                      {map[string]string{"d/a": "x\n"}, patch("*** Add File: n", "+1", "*** Delete File: d"), nil, "d: it is a directory; remove it with rm -r in bash"},
		"a directory is renamed":                {map[string]string{"d/a": "x\n"}, patch("*** Update File: d", "*** Move to: e", "*** Update File: d/a", "@@", "-x", "+y"), nil, "d: it is a directory"},
		"into what leads to a directory":        {map[string]string{"d/a": "x\n", "l": "-> d", "f": ""}, patch("*** Update File: f", "*** Move to: l"), nil, "that is a directory"},
		"a link that leads out":                 {map[string]string{"a": "x\n", "l": "-> ../x"}, patch("*** Update File: a", "@@", "-x", "+y", "*** Add File: l", "+1"), nil, "l leads out of the workspace"},
		"links in a ring":                       {map[string]string{"a": "-> b", "b": "-> a"}, patch("*** Add File: a", "+1", "*** Add File: c", "+1"), nil, "which is not followed"},
		"what is not there any more":            {map[string]string{"a": "x\nq\n"}, patch("*** Update File: a", "@@", "-x", "+y", "*** Update File: ./a", "@@", "-x", "+z"), nil, "old_text does not occur"},

		"changed twice":                         {top, patch("*** Update File: a", "@@", "-x", "+y", "*** Update File: link/a", "@@", "-y", "+z"), map[string]string{"a": "z\n", "link": "-> ."}, ""},
		"changed, then removed":                 {top, patch("*** Update File: link/a", "@@", "-x", "+y", "*** Delete File: a"), map[string]string{"link": "-> ."}, ""},
		"removed, then made again":              {top, patch("*** Delete File: a", "*** Add File: link/a", "+z"), map[string]string{"a": "z\n", "link": "-> ."}, ""},
		"made, then changed":                    {top, patch("*** Add File: link/n", "+1", "*** Update File: n", "@@", "-1", "+2"), map[string]string{"a": "x\n", "n": "2\n", "link": "-> ."}, ""},
		"made in a new directory, then changed": {map[string]string{"l": "-> d/.."}, patch("*** Add File: d/n", "+1", "*** Add File: e/n", "+3", "*** Update File: d/n", "@@", "-1", "+2"), map[string]string{"l": "-> d/..", "d/n": "2\n", "e/n": "3\n"}, ""},
		"renamed to itself":                     {top, patch("*** Update File: a", "*** Move to: link/a", "@@", "-x", "+y"), map[string]string{"a": "y\n", "link": "-> ."}, ""},
		"through a link to it":                  {map[string]string{"a": "x\n", "l": "-> a"}, patch("*** Update File: l", "@@", "-x", "+y", "*** Update File: a", "@@", "-y", "+z"), map[string]string{"a": "z\n", "l": "-> a"}, ""},
		"a link goes, its file stays":           {map[string]string{"d/a": "x\n", "l": "-> d/a"}, patch("*** Delete File: l", "*** Update File: d/a", "@@", "-x", "+y"), map[string]string{"d/a": "y\n"}, ""},
		"the file goes, its link is made anew":  {map[string]string{"a": "x\n", "l": "-> a"}, patch("*** Delete File: a", "*** Delete File: l", "*** Add File: l", "+n"), map[string]string{"l": "n\n"}, ""},
		"a link that leads nowhere goes":        {map[string]string{"a": "x\n", "l": "-> none"}, patch("*** Delete File: l", "*** Add File: b", "+1"), map[string]string{"a": "x\n", "b": "1\n"}, ""},
		"a link is renamed":                     {map[string]string{"a": "x\n", "l": "-> a"}, patch("*** Delete File: a", "*** Add File: a", "+y", "*** Update File: l", "*** Move to: m", "*** Update File: m", "@@", "-y", "+z"), map[string]string{"a": "z\n", "m": "-> a"}, ""},
		"alike in two directories":              {map[string]string{"d/a": "x\n", "e/a": "x\n"}, patch("*** Delete File: d/a", "*** Update File: e/a", "@@", "-x", "+y"), map[string]string{"e/a": "y\n"}, ""},
		"hard links are two":                    {map[string]string{"a": "x\n", "b": "x\n"}, patch("*** Delete File: a", "*** Update File: b", "@@", "-x", "+y"), map[string]string{"b": "y\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := linked(t, c.files)
			files, _ := onDisk(t, dir)
			set, err := callset.Of("", "apply_patch", `{"input":`+quote(c.patch)+`}`)
			require.NoError(t, err)
			all, note, err := set.Calls(files)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, "nothing was changed")
				return
			}
			require.NoError(t, err)
			require.Empty(t, note)
			perform(t, all, dir)
			require.Equal(t, c.want, onlyFiles(t, dir))
		})
	}
}

// perform makes calls in a directory.
func perform(t *testing.T, all []callset.Call, dir string) {
	t.Helper()
	for _, c := range all {
		name := pathOf(t, c)
		if c.Name == "bash" {
			cmd := exec.Command("sh", "-c", name)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			continue
		}
		now := map[string]string{}
		if data, err := os.ReadFile(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
			now[name] = string(data)
		}
		made(t, []callset.Call{c}, now)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(now[name]), 0o644))
	}
}

func onlyFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		if target, err := os.Readlink(at); err == nil {
			files[name] = "-> " + target
			return nil
		}
		data, err := os.ReadFile(at)
		files[name] = string(data)
		return err
	}))
	return files
}

// A workspace where capitals do not count has one file for two such names, which its directory
// tells.
func TestAFileWithNamesInOtherCapitalsIsOneFile(t *testing.T) {
	t.Parallel()
	disk := map[string]string{"src": "directory", "src/readme": "x\n"}
	files := in(disk)
	read, stat := files.Read, files.Stat
	files.Read = func(name string) ([]byte, error) { return read(strings.ToLower(name)) }
	files.Stat = func(name string) (pathname.Info, error) { return stat(strings.ToLower(name)) }
	files.Names = func(dir string) []string { return map[string][]string{".": {"src"}, "src": {"readme"}}[dir] }
	for _, c := range []struct{ patch, err string }{
		{patch("*** Delete File: src/readme", "*** Update File: src/README", "@@", "-x", "+y"), "src/README: there is no such file"},
		{patch("*** Delete File: SRC/Readme", "*** Update File: src/readme", "@@", "-x", "+y"), "src/readme: there is no such file"},
	} {
		set, err := callset.Of("", "apply_patch", `{"input":`+quote(c.patch)+`}`)
		require.NoError(t, err)
		_, _, err = set.Calls(files)
		require.ErrorContains(t, err, c.err)
	}
}

// A patch without links looks at each of its files once and reads it once.
func TestAPatchWithoutLinksLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	dir := linked(t, map[string]string{"d/e/a": "x\n", "d/f/a": "other\n", "gone": ""})
	files, looked := onDisk(t, dir)
	set, err := callset.Of("", "apply_patch", `{"input":`+quote(patch("*** Update File: d/e/a", "@@", "-x", "+y", "*** Update File: d/f/a", "@@", "-other", "+z", "*** Add File: d/n", "+1", "*** Delete File: gone"))+`}`)
	require.NoError(t, err)
	_, _, err = set.Calls(files)
	require.NoError(t, err)
	slices.Sort(*looked)
	require.Equal(t, []string{"read d/e/a", "read d/f/a", "read d/n", "stat d/e/a", "stat d/f/a", "stat d/n", "stat gone"}, *looked)
}
