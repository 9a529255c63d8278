package ownership_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/ownership"
)

// give gives a tree to the user nobody, or to this user if the test lacks the
// rights for that.
func give(t *testing.T, dir string) (uid int, err error) {
	t.Helper()
	if uid = os.Getuid(); uid == 0 {
		uid = 65534
	}
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	return uid, ownership.Tree(d, uid, os.Getgid(), 0)
}

func requireOwned(t *testing.T, uid int, file string) {
	t.Helper()
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.EqualValues(t, uid, info.Sys().(*syscall.Stat_t).Uid, "%q", file)
	if info.Mode().IsRegular() {
		require.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid), "%q", file)
	}
}

// setuid makes a file with the setuid bit.
func setuid(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, nil, 0o755))
	require.NoError(t, os.Chmod(file, 0o755|os.ModeSetuid))
}

func TestTreeWithNamesThatAreNoText(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"\xff\xfe", "a\nb", "-rf", " ", "\x01\x1b[31m", strings.Repeat("x", 255)} {
		sub := filepath.Join(dir, "d"+name[:min(len(name), 200)])
		require.NoError(t, os.Mkdir(sub, 0o755))
		files = append(files, sub)
		for _, in := range []string{dir, sub} {
			setuid(t, filepath.Join(in, name))
			files = append(files, filepath.Join(in, name))
		}
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "\xfflink")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	uid, err := give(t, dir)
	require.NoError(t, err)
	for _, file := range append(files, dir, filepath.Join(dir, "\xfflink"), filepath.Join(dir, "pipe")) {
		requireOwned(t, uid, file)
	}
	requireOwned(t, 0, "/etc/passwd")
}

// The kernel clears the bits of a file when its owner changes, but not if the
// file already belongs to the new owner.
func TestTreeTakesEachBitFromTheOwnersFiles(t *testing.T) {
	dir := t.TempDir()
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	modes := map[string]os.FileMode{"u": os.ModeSetuid, "g": os.ModeSetgid, "both": os.ModeSetuid | os.ModeSetgid}
	for name, bits := range modes {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, nil, 0o700))
		require.NoError(t, os.Chown(file, uid, os.Getgid()))
		require.NoError(t, os.Chmod(file, 0o751|bits))
	}
	_, err := give(t, dir)
	require.NoError(t, err)
	for name := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o751), info.Mode(), name)
	}
}

// The chain of directories is deeper than the longest path, and deeper than the
// number of descriptors that may be open.
func TestTreeThatIsDeep(t *testing.T) {
	const depth = 4_200
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "d", 0o755))
		below, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(fd)
		fd = below
	}
	file, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	defer unix.Close(file)
	require.NoError(t, unix.Fchmod(file, 0o4755))
	setuid(t, filepath.Join(dir, "after"))
	uid, err := give(t, dir)
	require.NoError(t, err)
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(file, &stat))
	require.EqualValues(t, uid, stat.Uid)
	require.EqualValues(t, 0o755, stat.Mode&0o7777)
	require.NoError(t, unix.Fstat(fd, &stat))
	require.EqualValues(t, uid, stat.Uid)
	requireOwned(t, uid, filepath.Join(dir, "after"))
	climb(t, fd, depth)
}

// climb removes a chain of directories from the deepest one up, since no path
// reaches that one.
func climb(t *testing.T, fd, depth int) {
	t.Helper()
	require.NoError(t, unix.Unlinkat(fd, "f", 0))
	for range depth {
		up, err := unix.Openat(fd, "..", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(fd)
		require.NoError(t, unix.Unlinkat(up, "d", unix.AT_REMOVEDIR))
		fd = up
	}
	unix.Close(fd)
}

// What cannot be given away is reported, and the rest is given away.
func TestTreeGoesOnAfterErrors(t *testing.T) {
	if os.Getuid() != 0 {
		require.Error(t, giveAsUser(t, t.TempDir()))
		return
	}
	dir := t.TempDir()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("f%02d", i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, names[i]), nil, 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub/deeper"), 0o755))
	fixed := filepath.Join(dir, "sub/deeper/fixed")
	require.NoError(t, os.WriteFile(fixed, nil, 0o644))
	setImmutable(t, fixed, true)
	defer setImmutable(t, fixed, false)
	for _, name := range names[:10] {
		setImmutable(t, filepath.Join(dir, name), true)
		defer setImmutable(t, filepath.Join(dir, name), false)
	}
	uid, err := give(t, dir)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "and 6 errors more")
	require.Less(t, len(err.Error()), 1000)
	for _, name := range append(names[10:], "sub", "sub/deeper", ".") {
		requireOwned(t, uid, filepath.Join(dir, name))
	}
}

// giveAsUser tries to give a tree to root as another user.
func giveAsUser(t *testing.T, dir string) error {
	t.Helper()
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	return ownership.Tree(d, 0, 0, 0)
}

// setImmutable sets or clears the attribute that keeps even root from changing
// a file.
func setImmutable(t *testing.T, file string, on bool) {
	t.Helper()
	const immutable = 0x10
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	flags := 0
	if on {
		flags = immutable
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
}

func TestTreeLeavesWhatHasNotChanged(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "old", "new"), 0o755))
	setuid(t, filepath.Join(dir, "old", "tool"))
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, "old", "tool"), &stat))
	require.Eventually(t, func() bool { // until the clock of the file system has gone on
		setuid(t, filepath.Join(dir, "old", "new", "tool"))
		var now unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, "old", "new", "tool"), &now))
		return now.Ctim.Nano() > stat.Ctim.Nano()
	}, 10*time.Second, time.Millisecond)
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, ownership.Tree(d, os.Getuid(), os.Getgid(), stat.Ctim.Nano()+1))
	info, err := os.Stat(filepath.Join(dir, "old", "tool"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSetuid)
	requireOwned(t, os.Getuid(), filepath.Join(dir, "old", "new", "tool"))
}
