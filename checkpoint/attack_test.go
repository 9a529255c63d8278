package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsInTheWayIsKept has the user do something after a turn that an undo would
// have to overwrite.
func TestWhatIsInTheWayIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("undoes turns with many kinds of files")
	}
	t.Parallel()
	const turn = "printf 2 > a; mkdir d; printf 2 > d/f; rm gone; ln -s a l; chmod 700 x; mkdir case; printf 2 > case/f; rm -r dir; printf 2 > dir"
	cases := map[string]struct {
		does func(k *keeper, at func(string) string) error
		kept []string // and not as before the turn
		text contents // that is there afterwards, "-" for nothing and "/" for a directory
	}{
		"nothing": {nil, nil, contents{"a": "1", "d": "-", "gone": "1", "l": "-", "dir/f": "1"}},
		"an edit": {func(k *keeper, at func(string) string) error {
			return os.WriteFile(at("a"), []byte("user"), 0o644)
		}, []string{"a"}, contents{"a": "user", "d": "-", "gone": "1"}},
		"an edit of the same size and time": {func(k *keeper, at func(string) string) error {
			info, err := os.Stat(at("a"))
			if err == nil {
				err = os.WriteFile(at("a"), []byte("3"), 0o644)
			}
			if err == nil {
				err = os.Chtimes(at("a"), info.ModTime(), info.ModTime())
			}
			return err
		}, []string{"a"}, contents{"a": "3"}},
		"a rename": {func(k *keeper, at func(string) string) error {
			return os.Rename(at("a"), at("b"))
		}, []string{"a", "b"}, contents{"a": "-", "b": "2"}},
		"a rename of a directory": {func(k *keeper, at func(string) string) error {
			return os.Rename(at("d"), at("e"))
		}, []string{"e/f"}, contents{"d": "-", "e/f": "2", "a": "1"}},
		"a deletion": {func(k *keeper, at func(string) string) error {
			return os.Remove(at("a"))
		}, []string{"a"}, contents{"a": "-"}},
		"a file that comes back": {func(k *keeper, at func(string) string) error {
			return os.WriteFile(at("gone"), []byte("user"), 0o644)
		}, []string{"gone"}, contents{"gone": "user"}},
		"a file in a new directory": {func(k *keeper, at func(string) string) error {
			return os.WriteFile(at("d/mine"), []byte("user"), 0o644)
		}, []string{"d/mine"}, contents{"d/f": "-", "d/mine": "user"}},
		"a directory instead of a file": {func(k *keeper, at func(string) string) error {
			if err := os.Remove(at("a")); err != nil {
				return err
			}
			return os.MkdirAll(at("a/b"), 0o755)
		}, []string{"a/b"}, contents{"a/b": "/"}},
		"a file instead of a directory": {func(k *keeper, at func(string) string) error {
			if err := os.RemoveAll(at("d")); err != nil {
				return err
			}
			return os.WriteFile(at("d"), []byte("user"), 0o644)
		}, []string{"d"}, contents{"d": "user"}},
		"a link instead of a file": {func(k *keeper, at func(string) string) error {
			if err := os.Remove(at("a")); err != nil {
				return err
			}
			return os.Symlink(k.base+"/outside", at("a"))
		}, []string{"a"}, contents{"../outside": "outside"}},
		"a link instead of a directory": {func(k *keeper, at func(string) string) error {
			if err := os.RemoveAll(at("d")); err != nil {
				return err
			}
			return os.Symlink(k.base, at("d"))
		}, []string{"d"}, contents{"../outside": "outside", "../f": "outside"}},
		"another link": {func(k *keeper, at func(string) string) error {
			if err := os.Remove(at("l")); err != nil {
				return err
			}
			return os.Symlink("x", at("l"))
		}, []string{"l"}, contents{"a": "1"}},
		"only a mode": {func(k *keeper, at func(string) string) error {
			return os.Chmod(at("a"), 0o600)
		}, []string{"a"}, contents{"a": "2"}},
		"names in another case": {func(k *keeper, at func(string) string) error {
			return os.Rename(at("case/f"), at("case/F"))
		}, []string{"case/F"}, contents{"case/f": "-", "case/F": "2"}},
		"a file where a directory was": {func(k *keeper, at func(string) string) error {
			return os.WriteFile(at("dir"), []byte("user"), 0o644)
		}, []string{"dir", "dir/f"}, contents{"dir": "user"}},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			k := openKeeper(t, t.TempDir())
			at := func(name string) string { return filepath.Join(k.dir, name) }
			for _, name := range []string{"a", "gone", "x", "dir/f"} {
				require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o755))
				k.write(name, "1")
			}
			for _, name := range []string{"outside", "f"} {
				require.NoError(t, os.WriteFile(filepath.Join(k.base, name), []byte("outside"), 0o644))
			}
			k.turn(turn)
			if tt.does != nil {
				require.NoError(t, tt.does(k, at))
			}
			done := k.undo(1)
			require.Equal(t, tt.kept, slices.Sorted(slices.Values(kept(done))))
			for name, text := range tt.text {
				info, err := os.Lstat(at(name))
				switch {
				case text == "-":
					require.ErrorIs(t, err, os.ErrNotExist, name)
				case text == "/":
					require.True(t, err == nil && info.IsDir(), name)
				default:
					data, err := os.ReadFile(at(name))
					require.NoError(t, err)
					require.Equal(t, text, string(data), name)
				}
			}
			require.Empty(t, leftovers(k.dir))
			require.Empty(t, k.said())
		})
	}
}

// TestAnUndoBesideAnEditor has the user write one file all the time while turns are
// taken back and brought back. What the user wrote last is always there.
func TestAnUndoBesideAnEditor(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.write("both", "0")
	k.turn("printf agent > both; printf 1 > a")
	stop, stopped, last := make(chan struct{}), make(chan struct{}), ""
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			last = string(rune('a'+n%26)) + "user"
			temp := filepath.Join(k.base, "new")
			if os.WriteFile(temp, []byte(last), 0o644) != nil || os.Rename(temp, filepath.Join(k.dir, "both")) != nil {
				return
			}
		}
	}()
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		k.undo(1)
		k.redo()
	}
	close(stop)
	<-stopped
	require.Equal(t, contents{"both": last, "a": "1"}, k.files())
	require.Empty(t, leftovers(k.dir))
}
