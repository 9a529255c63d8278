package owner

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// place returns the place of this process. If the machine has no id, it gets
// one.
func place() Place {
	p := ThisPlace()
	p.Host, p.Machine = "host", "machine"
	return p
}

func TestWithoutProcEveryOwnerIsUnknown(t *testing.T) {
	want := Alive
	if runtime.GOOS != "linux" {
		want = Unknown
	}
	self := Open(t.TempDir(), ThisPlace())
	require.Equal(t, want, self.StateOf(self.Name()))
}

func TestOldBootsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	first := place()
	first.Boot = "first"
	require.NoError(t, Open(dir, first).Err())
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, bootsDir, bootName(first)), old, old))
	var last *Self
	for i := range maxBoots {
		p := place()
		p.Boot = strings.Repeat("b", i+1)
		last = Open(dir, p)
		require.NoError(t, last.Err())
	}
	entries, err := os.ReadDir(filepath.Join(dir, bootsDir))
	require.NoError(t, err)
	require.Len(t, entries, maxBoots)
	require.False(t, last.state.hasBoot(first))
	require.True(t, last.state.hasBoot(last.Place))
}

func TestProofsAreOfOneKey(t *testing.T) {
	dir := t.TempDir()
	self, again, other := Open(dir, place()), Open(dir, place()), Open(t.TempDir(), place())
	proof := self.Proof("a", "bc")
	require.True(t, again.Proves(proof, "a", "bc"))
	require.False(t, again.Proves(proof, "ab", "c"))
	require.False(t, other.Proves(proof, "a", "bc"))
	require.False(t, self.Proves("", "a", "bc"))
	require.Equal(t, self.Installation(), again.Installation())
	require.NotEqual(t, self.Installation(), other.Installation())
}

func TestKeyIsMadeOnceByProcessesAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			self := Open(dir, place())
			if self.Err() == nil {
				ids[i] = self.Installation()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.NotEmpty(t, id)
		require.Equal(t, ids[0], id)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the key and the boots")
	info, err := os.Stat(filepath.Join(dir, keyFile))
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

func TestKeyThatMayBeKnownProvesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Unix")
	}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"others may read it": func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, keyFile), 0o644)) },
		"others may replace it": func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(dir, 0o777))
		},
		"a link": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(filepath.Join(dir, keyFile), filepath.Join(dir, "k")))
			require.NoError(t, os.Symlink("k", filepath.Join(dir, keyFile)))
		},
		"cut short":   func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, keyFile), 3)) },
		"a directory": func(t *testing.T, dir string) { remake(t, filepath.Join(dir, keyFile)) },
		"no directory": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
		"another user's": func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("takes root")
			}
			require.NoError(t, os.Chown(filepath.Join(dir, keyFile), 65534, 65534))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			before := Open(dir, place())
			require.NoError(t, before.Err())
			spoil(t, dir)
			after := Open(dir, place())
			require.Error(t, after.Err())
			require.False(t, after.Proves(before.Proof("x"), "x"))
			require.True(t, after.Proves(after.Proof("x"), "x"), "its own it knows")
			require.Error(t, after.MarkSaved("v"))
			require.False(t, after.Saved("v"))
			after.Forget("v")
		})
	}
}

func remake(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.Remove(name))
	require.NoError(t, os.Mkdir(name, 0o700))
}

func TestRootLeavesTheHomesOfOthersAlone(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	home := t.TempDir()
	require.NoError(t, os.Chown(home, 65534, 65534))
	require.ErrorContains(t, Open(filepath.Join(home, ".local", "state", "pygent"), place()).Err(), "belongs to another user")
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestSavedVolumesAreRemembered(t *testing.T) {
	dir := t.TempDir()
	self := Open(dir, place())
	require.False(t, self.Saved("v"))
	require.NoError(t, self.MarkSaved("v"))
	require.True(t, Open(dir, place()).Saved("v"))
	require.False(t, self.Saved("../"+keyFile), "a name of somebody else's")
	require.False(t, self.Saved("../../x"))
	self.Forget("../" + keyFile)
	require.NoError(t, Open(dir, place()).Err())
	require.FileExists(t, filepath.Join(dir, keyFile))
	self.Forget("v")
	require.False(t, self.Saved("v"))
}

func TestLabelsProveOneThing(t *testing.T) {
	dir := t.TempDir()
	self := Open(dir, place())
	labels := self.Labels("abc", HoldsNothing)
	proved := self.Prove(Container, "pygent-abc-1", labels)
	require.NotContains(t, labels, LabelProof, "they are those of the runtime's other things too")
	change := func(label, value string) map[string]string {
		changed := self.Prove(Container, "pygent-abc-1", labels)
		changed[label] = value
		return changed
	}
	for name, tt := range map[string]struct {
		kind, name string
		labels     map[string]string
		want       bool
	}{
		"as made":           {Container, "pygent-abc-1", proved, true},
		"with other labels": {Container, "pygent-abc-1", change("of.an.image", "x"), true},
		"another name":      {Container, "pygent-abc-2", proved, false},
		"a volume":          {Volume, "pygent-abc-1", proved, false},
		"no proof":          {Container, "pygent-abc-1", labels, false},
		"another owner":     {Container, "pygent-abc-1", change(LabelOwner, "x"), false},
		"holds less":        {Container, "pygent-abc-1", change(LabelHolds, "x"), false},
		"nothing":           {Container, "pygent-abc-1", nil, false},
		"a name not ours":   {Container, "db", self.Prove(Container, "db", labels), false},
		"huge":              {Container, "pygent-abc-1", change(LabelProof, strings.Repeat("x", 1<<20)), false},
	} {
		require.Equal(t, tt.want, Open(dir, place()).Proved(tt.kind, tt.name, tt.labels), name)
	}
}

func TestOwnersAreDescribedOnOneLine(t *testing.T) {
	for name, want := range map[string]string{
		process{Place{"laptop", "m", "b", "n"}, 12, "34"}.String(): "process 12 on laptop",
		"laptop/boot/pid:[1]/12/34":                                "process 12 on laptop",
		"\x1b]0;x\a\n":                                             `an owner that says "\x1b]0;x\a\n"`,
		"":                                                         `an owner that says ""`,
	} {
		require.Equal(t, want, Describe(name))
	}
	require.Less(t, len(Describe(strings.Repeat("\x1b/", 1<<20))), 2000)
	require.Equal(t, `a\u202eb`, Printable("a\u202eb"))
}

func TestWhatWasLearnedLasts(t *testing.T) {
	dir := t.TempDir()
	self := Open(dir, place())
	require.Nil(t, self.Known("image a"))
	require.NoError(t, self.Learn("image a", []byte("bash")))
	require.NoError(t, self.Learn("../image\x00b", []byte("sh")))
	again := Open(dir, place())
	require.Equal(t, "bash", string(again.Known("image a")))
	require.Equal(t, "sh", string(again.Known("../image\x00b")))
	require.NoError(t, again.Learn("image a", []byte("sh")))
	require.Equal(t, "sh", string(self.Known("image a")))
	require.Nil(t, Open(t.TempDir(), place()).Known("image a"))
	require.ErrorContains(t, self.Learn("image a", make([]byte, MaxKnown+1)), "4097 bytes are more than 4096")
	require.Equal(t, "sh", string(self.Known("image a")))

	without := alone(place(), os.ErrPermission)
	require.ErrorIs(t, without.Learn("image a", []byte("bash")), os.ErrPermission)
	require.Nil(t, without.Known("image a"))
}

func TestWhatOthersOrDamageLeftWasNotLearned(t *testing.T) {
	dir := t.TempDir()
	self := Open(dir, place())
	path := filepath.Join(dir, knownDir, knownName("image"))
	learn := func(words string) []byte {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, self.Learn("image", []byte(words)))
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	content := learn("bash")
	for name, damaged := range map[string][]byte{
		"empty":        nil,
		"cut":          content[:proofSize-1],
		"no words":     content[:proofSize],
		"other words":  append(content[:proofSize:proofSize], "dash"...),
		"more words":   append(content[:len(content):len(content)], '!'),
		"very long":    append(content[:len(content):len(content)], make([]byte, 1<<20)...),
		"another sign": append([]byte{content[0] ^ 1}, content[1:]...),
	} {
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		require.Nil(t, self.Known("image"), name)
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NotNil(t, self.Known("image"))
	require.NoError(t, self.Learn("other image", []byte("bash")))
	require.NoError(t, os.Rename(filepath.Join(dir, knownDir, knownName("other image")), path))
	require.Nil(t, self.Known("image"), "the words are about another subject")

	stranger := Open(t.TempDir(), place())
	require.NoError(t, stranger.Learn("image", []byte("dash")))
	theirs, err := os.ReadFile(filepath.Join(stranger.state.root.Name(), knownDir, knownName("image")))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, theirs, 0o600))
	require.Nil(t, self.Known("image"), "another user's key")

	if runtime.GOOS != "windows" {
		learn("bash")
		require.NoError(t, os.Chmod(path, 0o666))
		require.Nil(t, self.Known("image"), "others can write it")
		content := learn("bash")
		elsewhere := filepath.Join(dir, "elsewhere")
		require.NoError(t, os.WriteFile(elsewhere, content, 0o600))
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(elsewhere, path))
		require.Nil(t, self.Known("image"), "a link")
	}
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Nil(t, self.Known("image"), "a directory")
	require.Error(t, self.Learn("image", []byte("bash")))
	entries, err := os.ReadDir(filepath.Join(dir, knownDir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left of what could not be kept")
}

func TestTheOldestSubjectsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	self := Open(dir, place())
	require.NoError(t, self.Learn("first", []byte("words")))
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, knownDir, knownName("first")), old, old))
	for i := range mostKnown {
		require.NoError(t, self.Learn(strings.Repeat("s", i+1), []byte("words")))
	}
	require.Nil(t, self.Known("first"))
	require.NotNil(t, self.Known("s"))
	entries, err := os.ReadDir(filepath.Join(dir, knownDir))
	require.NoError(t, err)
	require.Len(t, entries, mostKnown)
}
