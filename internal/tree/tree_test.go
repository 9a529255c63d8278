package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func extract(r io.Reader, root *os.Root, o tree.ExtractOptions) error {
	return errOf(tree.Extract(r, root, o))
}

func errOf(_ any, err error) error { return err }

// tarOf returns an archive of entries with their contents.
func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range append([]entry{top}, entries...) {
		h := e.Header
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		h.Size = int64(len(e.content))
		require.NoError(t, tw.WriteHeader(&h))
		_, err := io.WriteString(tw, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	return buf.Bytes()
}

// top is the first entry of the archive of a directory.
var top = entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}}

type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name}, content}
}

func link(kind byte, name, target string) entry {
	return entry{Header: tar.Header{Typeflag: kind, Name: name, Linkname: target}}
}

func TestTreesComeBackAsTheyWere(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "top/sub/empty"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "top/run.sh"), []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "top/sub/data"), bytes.Repeat([]byte("x"), 200_000), 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "top/absolute")))
	require.NoError(t, os.Symlink("sub/data", filepath.Join(from, "top/relative")))
	require.NoError(t, os.Chmod(filepath.Join(from, "top/sub"), 0o500))
	old := time.Unix(1_000_000_000, 0)
	require.NoError(t, os.Chtimes(filepath.Join(from, "top/run.sh"), old, old))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(from, "top/sub"), 0o700) })

	var buf bytes.Buffer
	require.NoError(t, tree.Pack(&buf, openRoot(t, from), "top", tree.PackOptions{}))
	require.NoError(t, extract(&buf, openRoot(t, to), tree.ExtractOptions{}))

	info, err := os.Stat(filepath.Join(to, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
	require.True(t, info.ModTime().Equal(old))
	info, err = os.Stat(filepath.Join(to, "sub/data"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	require.EqualValues(t, 200_000, info.Size())
	require.DirExists(t, filepath.Join(to, "sub/empty"))
	for name, want := range map[string]string{"absolute": "/etc/passwd", "relative": "sub/data"} {
		target, err := os.Readlink(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, want, target)
	}
}

func TestPackOfAFileIsOneEntry(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a/f"), []byte("1"), 0o644))
	var buf bytes.Buffer
	require.NoError(t, tree.Pack(&buf, openRoot(t, dir), "a/f", tree.PackOptions{}))
	h, err := tar.NewReader(&buf).Next()
	require.NoError(t, err)
	require.Equal(t, "f", h.Name)
	require.ErrorIs(t, tree.Pack(io.Discard, openRoot(t, dir), "missing", tree.PackOptions{}), fs.ErrNotExist)
}

func TestHostileArchivesAreRefused(t *testing.T) {
	cases := map[string][]entry{
		"absolute name":      {file("/etc/evil", "x")},
		"parent":             {file("../evil", "x")},
		"parent inside":      {file("a/../../evil", "x")},
		"hidden parent":      {file("a/../b", "x")},
		"link then through":  {link(tar.TypeSymlink, "d", "../outside"), link(tar.TypeSymlink, "d/evil", "x")},
		"hard link out":      {link(tar.TypeLink, "h", "../secret")},
		"hard link absolute": {link(tar.TypeLink, "h", "/etc/passwd")},
		"hard link to old":   {link(tar.TypeLink, "h", "old")},
		"device":             {link(tar.TypeChar, "null", "")},
		"pipe":               {link(tar.TypeFifo, "pipe", "")},
		"root as a file":     {file(".", "x")},
		"long name":          {file(strings.Repeat("n/", 3000)+"n", "x")},
		"deep name":          {file(strings.Repeat("n/", 300)+"n", "x")},
		"too many bytes":     {file("a", strings.Repeat("x", 600)), file("b", strings.Repeat("x", 600))},
		"hard link inside":   {file("f", "x"), link(tar.TypeLink, "h", "f")},
		"two tops":           {top},
		"too many entries":   {file("a", ""), file("b", ""), file("c", ""), file("d", ""), file("e", ""), file("f", "")},
	}
	for name, entries := range cases {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dest := filepath.Join(parent, "dest")
			require.NoError(t, os.MkdirAll(filepath.Join(parent, "outside"), 0o755))
			require.NoError(t, os.Mkdir(dest, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(parent, "secret"), []byte("s"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dest, "old"), []byte("old"), 0o600))
			err := extract(bytes.NewReader(tarOf(t, entries...)), openRoot(t, dest), tree.ExtractOptions{Limits: tree.Limits{Bytes: 1000, Entries: 5}})
			if name != "link then through" {
				require.Error(t, err)
			}
			requireUntouched(t, parent)
		})
	}
}

func TestATreeThatIsNoDirectoryIsARegularFile(t *testing.T) {
	for _, e := range []entry{link(tar.TypeSymlink, "f", "/etc/passwd"), {Header: tar.Header{Typeflag: tar.TypeDir, Name: "d/"}}} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		require.NoError(t, tw.WriteHeader(&e.Header))
		require.NoError(t, tw.Close())
		dest := t.TempDir()
		require.ErrorIs(t, extract(&b, openRoot(t, dest), tree.ExtractOptions{As: "out"}), tree.ErrHostile)
		left, err := os.ReadDir(dest)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestLinksAreRefusedWhereNoneMayBe(t *testing.T) {
	dest := t.TempDir()
	archive := tarOf(t, file("a/f", "x"), link(tar.TypeSymlink, "a/l", "f"))
	require.ErrorIs(t, extract(bytes.NewReader(archive), openRoot(t, dest), tree.ExtractOptions{NoLinks: true}), tree.ErrLink)
	left, err := os.ReadDir(dest)
	require.NoError(t, err)
	require.Empty(t, left)
}

// requireUntouched requires that nothing below parent but dest has changed.
func requireUntouched(t *testing.T, parent string) {
	t.Helper()
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	outside, err := os.ReadDir(filepath.Join(parent, "outside"))
	require.NoError(t, err)
	require.Empty(t, outside)
	secret, err := os.ReadFile(filepath.Join(parent, "secret"))
	require.NoError(t, err)
	require.Equal(t, "s", string(secret))
}

func TestLinksAreReplacedAndNeverWrittenThrough(t *testing.T) {
	parent := t.TempDir()
	dest := filepath.Join(parent, "dest")
	require.NoError(t, os.Mkdir(dest, 0o755))
	victim := filepath.Join(parent, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("untouched"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(dest, "f")))
	require.NoError(t, os.Symlink(parent, filepath.Join(dest, "d")))
	b := tarOf(t,
		file("f", "new"),
		link(tar.TypeSymlink, "g", victim), file("g", "new"),
		file("d/victim", "new"),
	)
	require.NoError(t, extract(bytes.NewReader(b), openRoot(t, dest), tree.ExtractOptions{}))
	got, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "untouched", string(got))
	for _, name := range []string{"f", "g", "d/victim"} {
		got, err := os.ReadFile(filepath.Join(dest, name))
		require.NoError(t, err)
		require.Equal(t, "new", string(got))
	}
}

func TestSpecialBitsAreDropped(t *testing.T) {
	dest := t.TempDir()
	b := tarOf(t, entry{tar.Header{Name: "su", Mode: 0o6755}, "x"})
	require.NoError(t, extract(bytes.NewReader(b), openRoot(t, dest), tree.ExtractOptions{}))
	info, err := os.Stat(filepath.Join(dest, "su"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
}

func TestZerosBecomeHoles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("holes are counted on Linux only")
	}
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(64<<20))
	_, err = f.WriteAt([]byte("end"), 32<<20)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r, w := io.Pipe()
	packed := make(chan error, 1)
	root := openRoot(t, from)
	go func() {
		err := tree.Pack(w, root, ".", tree.PackOptions{})
		packed <- err
		_ = w.CloseWithError(err)
	}()
	require.NoError(t, extract(r, openRoot(t, to), tree.ExtractOptions{}))
	_, _ = io.Copy(io.Discard, r)
	require.NoError(t, <-packed)
	info, err := os.Stat(filepath.Join(to, "sparse"))
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, info.Size())
	require.Less(t, blocks(info), int64(1<<20))
}

func TestTruncatedArchivesAreErrors(t *testing.T) {
	b := tarOf(t, file("a", strings.Repeat("x", 10_000)))
	require.Error(t, extract(bytes.NewReader(b[:5000]), openRoot(t, t.TempDir()), tree.ExtractOptions{}))
}

// FuzzExtract requires that nothing outside of the destination changes,
// whatever the archive.
func FuzzExtract(f *testing.F) {
	f.Add(tarOf(f, file("a/b", "x"), link(tar.TypeSymlink, "l", ".."), file("l/secret", "y")))
	f.Add(tarOf(f, link(tar.TypeLink, "h", "../secret"), file("../secret", "z")))
	f.Add(tarOf(f, entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "d/"}}, link(tar.TypeSymlink, "d", "/"), file("d/x", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		parent := t.TempDir()
		dest := filepath.Join(parent, "dest")
		require.NoError(t, os.Mkdir(filepath.Join(parent, "outside"), 0o755))
		require.NoError(t, os.Mkdir(dest, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(parent, "secret"), []byte("s"), 0o600))
		root, err := os.OpenRoot(dest)
		require.NoError(t, err)
		_ = extract(bytes.NewReader(b), root, tree.ExtractOptions{Limits: tree.Limits{Bytes: 1 << 20, Entries: 100}})
		require.NoError(t, root.Close())
		requireUntouched(t, parent)
	})
}

// sparse returns an entry for a sparse file in the packer's format.
func sparse(name, size, data, content string) entry {
	return entry{tar.Header{Name: name, Format: tar.FormatPAX, PAXRecords: map[string]string{"PYGENT.size": size, "PYGENT.data": data}}, content}
}

func TestSparseFilesAreWhatTheySay(t *testing.T) {
	unpack := func(t *testing.T, e entry) (string, error) {
		dir := t.TempDir()
		err := extract(bytes.NewReader(tarOf(t, e)), openRoot(t, dir), tree.ExtractOptions{})
		if err != nil {
			left, readErr := os.ReadDir(dir)
			require.NoError(t, readErr)
			require.Empty(t, left)
			return "", err
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name))
		require.NoError(t, err)
		return string(data), nil
	}
	got, err := unpack(t, sparse("f", "10", "2+3,7+1", "abcd"))
	require.NoError(t, err)
	require.Equal(t, "\x00\x00abc\x00\x00d\x00\x00", got)
	for name, e := range map[string]entry{
		"more data than parts":  sparse("f", "10", "2+3", "abcd"),
		"fewer data than parts": sparse("f", "10", "2+5", "abcd"),
		"beyond the end":        sparse("f", "4", "2+4", "abcd"),
		"one over another":      sparse("f", "10", "2+2,3+2", "abcd"),
		"backwards":             sparse("f", "10", "6+2,2+2", "abcd"),
		"negative":              sparse("f", "-10", "0+4", "abcd"),
		"negative offset":       sparse("f", "10", "-1+4", "abcd"),
		"an overflow":           sparse("f", "9223372036854775807", "9223372036854775806+9223372036854775807", "abcd"),
		"no number":             sparse("f", "10", "x+4", "abcd"),
		"no parts":              sparse("f", "10", "4", "abcd"),
		"too many parts":        sparse("f", "100000", strings.Repeat("1+0,", 5000)+"2+4", "abcd"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpack(t, e)
			require.ErrorIs(t, err, tree.ErrHostile)
		})
	}
	_, err = unpack(t, sparse("f", "9223372036854775807", "", ""))
	require.Error(t, err, "no file system has such files")
}

func TestNamesNeedNotBeText(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are bytes on Linux only")
	}
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"\xff\xfe", "line\nbreak", "d\xff/in", " "} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Symlink("\xff\xfe", filepath.Join(from, "link")))
	var b bytes.Buffer
	require.NoError(t, tree.Pack(&b, openRoot(t, from), ".", tree.PackOptions{}))
	require.NoError(t, extract(&b, openRoot(t, to), tree.ExtractOptions{}))
	for _, name := range []string{"\xff\xfe", "line\nbreak", "d\xff/in", " "} {
		got, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, name, string(got))
	}
	require.NoError(t, tree.Remove(openRoot(t, filepath.Dir(to)), filepath.Base(to)))
	require.NoDirExists(t, to)
}

func TestRemoveTakesAllAndNothingElse(t *testing.T) {
	outside, top := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), nil, 0o600))
	root := openRoot(t, top)
	require.NoError(t, root.MkdirAll("d/"+strings.Repeat("x/", 200), 0o755))
	require.NoError(t, root.MkdirAll("d/closed/in", 0o755))
	require.NoError(t, root.WriteFile("d/closed/in/f", nil, 0o400))
	require.NoError(t, root.Chmod("d/closed/in", 0))
	require.NoError(t, root.Chmod("d/closed", 0))
	require.NoError(t, os.Symlink(outside, filepath.Join(top, "d", "link")))
	require.NoError(t, os.Symlink("d", filepath.Join(top, "beside")))
	require.NoError(t, tree.Remove(root, "d/closed/missing"))
	require.NoError(t, tree.Remove(root, "d"))
	require.NoError(t, tree.Remove(root, "d"))
	require.NoError(t, tree.Remove(root, "beside"))
	left, err := os.ReadDir(top)
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, filepath.Join(outside, "f"))
}

func TestRemoveTellsWhatIsLeftWhenOthersRemoveToo(t *testing.T) {
	if testing.Short() {
		t.Skip("removes many trees")
	}
	for range 3 {
		top := t.TempDir()
		root := openRoot(t, top)
		for i := range 300 {
			require.NoError(t, root.MkdirAll("d/"+strconv.Itoa(i)+"/in", 0o755))
		}
		var other sync.WaitGroup
		other.Go(func() {
			for i := range 300 {
				_ = os.RemoveAll(filepath.Join(top, "d", strconv.Itoa(i)))
			}
		})
		err := tree.Remove(root, "d")
		if err == nil {
			require.NoDirExists(t, filepath.Join(top, "d"))
		}
		other.Wait()
	}
}

func TestArchivesOfTreesAreJoined(t *testing.T) {
	read := func(entries ...entry) *tree.Reader {
		r, err := tree.NewReader(bytes.NewReader(tarOf(t, entries...)), tree.NewBudget(tree.Limits{}))
		require.NoError(t, err)
		return r
	}
	var b bytes.Buffer
	w, err := tree.NewWriter(&b)
	require.NoError(t, err)
	require.NoError(t, w.Add("a/b", read(file("f", "1"), link(tar.TypeSymlink, "l", "/etc"))))
	require.NoError(t, w.Add(".", read(file("a/b/l/x", "2"))))
	require.ErrorIs(t, w.Add("../c", read(file("f", ""))), tree.ErrHostile)
	require.NoError(t, w.Close())
	dest := t.TempDir()
	require.NoError(t, extract(&b, openRoot(t, dest), tree.ExtractOptions{}))
	got, err := os.ReadFile(filepath.Join(dest, "a/b/l/x"))
	require.NoError(t, err)
	require.Equal(t, "2", string(got), "what is added later goes in place of a link, and not through it")
}

func TestExtractTellsWhatItWroteAndReplaced(t *testing.T) {
	dir := func(name string) entry {
		return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
	}
	for name, tt := range map[string]struct {
		entries []entry
		want    tree.Placed
	}{
		"nothing":                    {nil, tree.Placed{}},
		"new ones":                   {[]entry{file("new", "x"), file("n/e/w", "x"), link(tar.TypeSymlink, "l", "new")}, tree.Placed{Files: 3}},
		"a file":                     {[]entry{file("file", "x")}, tree.Placed{Files: 1, Replaced: 1}},
		"a link":                     {[]entry{file("link", "x"), link(tar.TypeSymlink, "file", "link")}, tree.Placed{Files: 2, Replaced: 2}},
		"in a directory":             {[]entry{dir("dir/"), file("dir/in", "x"), file("dir/new", "x")}, tree.Placed{Files: 2, Replaced: 1}},
		"a file by a directory":      {[]entry{dir("file/"), file("file/a", ""), file("file/b", "")}, tree.Placed{Files: 2, Replaced: 1}},
		"a link by a directory":      {[]entry{file("link/a/b", "")}, tree.Placed{Files: 1, Replaced: 1}},
		"twice in the archive":       {[]entry{file("file", "x"), file("file", "y"), file("n", ""), file("n/m", "")}, tree.Placed{Files: 2, Replaced: 1}},
		"nothing but an empty place": {[]entry{dir("dir/"), dir("empty/")}, tree.Placed{}},
	} {
		t.Run(name, func(t *testing.T) {
			root := openRoot(t, t.TempDir())
			require.NoError(t, root.WriteFile("file", nil, 0o600))
			require.NoError(t, root.Symlink("dir", "link"))
			require.NoError(t, root.Mkdir("dir", 0o700))
			require.NoError(t, root.WriteFile("dir/in", nil, 0o600))
			require.NoError(t, root.WriteFile("dir/other", nil, 0o600))
			placed, err := tree.Extract(bytes.NewReader(tarOf(t, tt.entries...)), root, tree.ExtractOptions{})
			require.NoError(t, err)
			require.Equal(t, tt.want, placed)
			_, err = root.Stat("dir/other")
			require.NoError(t, err)
		})
	}
}

func TestNothingIsMovedIfADirectoryIsInTheWay(t *testing.T) {
	root := openRoot(t, t.TempDir())
	require.NoError(t, root.MkdirAll("d/f", 0o700))
	require.NoError(t, root.WriteFile("a", []byte("old"), 0o600))
	err := extract(bytes.NewReader(tarOf(t, file("a", "new"), file("b", ""), file("d/f", ""))), root, tree.ExtractOptions{})
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "there is a directory in its place")
	require.Equal(t, []string{"a", "d", "d/f"}, namesBelow(t, root))
	data, err := root.ReadFile("a")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

// namesBelow returns the paths of everything below root.
func namesBelow(t *testing.T, root *os.Root) (names []string) {
	t.Helper()
	require.NoError(t, tree.Walk(root, func(e tree.Entry) error {
		names = append(names, e.Name)
		return nil
	}))
	return names
}

func TestDirectoriesOfADestinationAppearWithTheTree(t *testing.T) {
	whole := tarOf(t, file("f", "x"), file("s/g", "y"))
	for name, tt := range map[string]struct {
		into string
		want []string
	}{
		"new":           {"a/b", []string{"a", "a/b", "a/b/f", "a/b/s", "a/b/s/g"}},
		"partly":        {"old/b", []string{"old/b", "old/b/f", "old/b/s", "old/b/s/g"}},
		"behind a link": {"link/b", []string{"old/b", "old/b/f", "old/b/s", "old/b/s/g"}},
		"there":         {"old", []string{"old/f", "old/s", "old/s/g"}},
		"the root":      {".", []string{"f", "s", "s/g"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := openRoot(t, t.TempDir())
			require.NoError(t, root.Mkdir("old", 0o700))
			require.NoError(t, root.Symlink("old", "link"))
			before := namesBelow(t, root)
			for _, header := range []int{0, 1, 3} { // the blocks in which it is cut
				require.Error(t, extract(bytes.NewReader(whole[:header*512+100]), root, tree.ExtractOptions{Into: tt.into}))
				require.Equal(t, before, namesBelow(t, root))
			}
			failing := io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(io.ErrClosedPipe))
			require.ErrorIs(t, extract(failing, root, tree.ExtractOptions{Into: tt.into}), io.ErrClosedPipe)
			endless := io.MultiReader(bytes.NewReader(whole), bytes.NewReader(make([]byte, 2<<20)))
			require.ErrorIs(t, extract(endless, root, tree.ExtractOptions{Into: tt.into}), tree.ErrHostile)
			require.Equal(t, before, namesBelow(t, root))
			require.NoError(t, extract(bytes.NewReader(whole), root, tree.ExtractOptions{Into: tt.into}))
			after := slices.DeleteFunc(namesBelow(t, root), func(name string) bool { return slices.Contains(before, name) })
			require.Equal(t, tt.want, after)
		})
	}
}

// The way to the directory is long, so that it takes long to look for.
func TestTreesGoIntoADirectoryThatAppearsMeanwhile(t *testing.T) {
	root := openRoot(t, t.TempDir())
	above := strings.Repeat("d/", 60)
	require.NoError(t, root.MkdirAll(above, 0o700))
	archive := tarOf(t, file("f", "content"))
	for round := range 8 {
		into := above + strconv.Itoa(round)
		placed := make([]error, 8)
		var placing sync.WaitGroup
		for i := range placed {
			placing.Go(func() {
				placed[i] = extract(bytes.NewReader(archive), root, tree.ExtractOptions{Into: into})
			})
		}
		placing.Wait()
		require.NoError(t, errors.Join(placed...))
		content, err := root.ReadFile(into + "/f")
		require.NoError(t, err)
		require.Equal(t, "content", string(content))
	}
}

func TestADestinationThatIsNoDirectoryIsRefused(t *testing.T) {
	root := openRoot(t, t.TempDir())
	require.NoError(t, root.WriteFile("file", nil, 0o600))
	require.NoError(t, root.Symlink("nowhere", "dangling"))
	require.NoError(t, root.Symlink("..", "out"))
	before := namesBelow(t, root)
	for _, into := range []string{"file", "file/d", "dangling", "dangling/d", "out", "out/d", "../d", "/d"} {
		require.Error(t, extract(bytes.NewReader(tarOf(t, file("f", ""))), root, tree.ExtractOptions{Into: into}), into)
		require.Equal(t, before, namesBelow(t, root))
	}
}

func TestWalkPastGoesOnAfterWhatItCannotList(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", strings.Repeat("d/", tree.MaxDepth+5)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "z"), nil, 0o644))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var seen, past []string
	require.NoError(t, tree.WalkPast(root, func(e tree.Entry) error {
		seen = append(seen, e.Name)
		return nil
	}, func(e tree.Entry, err error) error {
		require.ErrorIs(t, err, tree.ErrTooLarge)
		past = append(past, e.Name)
		return nil
	}))
	require.Len(t, seen, tree.MaxDepth+1)
	require.Equal(t, "z", seen[tree.MaxDepth])
	require.Equal(t, seen[tree.MaxDepth-1:tree.MaxDepth], past)
	require.ErrorIs(t, tree.Walk(root, func(tree.Entry) error { return nil }), tree.ErrTooLarge)
}

func TestWalkFindsAllOfAHugeDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a huge directory")
	}
	dir := t.TempDir()
	const count = 5000
	for i := range count {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), nil, 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	n := 0
	require.NoError(t, tree.Walk(root, func(e tree.Entry) error {
		require.Equal(t, fmt.Sprintf("f%05d", n), e.Name)
		require.True(t, e.Info.Mode().IsRegular())
		n++
		return nil
	}))
	require.Equal(t, count, n)
}

// Directories that an archive does not name are made, whatever the entry before was.
func TestExtractMakesDirectoriesThatAreNotNamed(t *testing.T) {
	names := []string{"a/b/f", "ab/f", "a/bc/d/f", "a/b/c/d/f", "a/b/g", "f", "a/f", "ab/c/f"}
	var entries []entry
	for _, name := range names {
		entries = append(entries, file(name, name))
	}
	dir := t.TempDir()
	require.NoError(t, extract(bytes.NewReader(tarOf(t, entries...)), openRoot(t, dir), tree.ExtractOptions{}))
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, name, string(got))
	}
}
