package setid

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The thread of a caller that no longer waits may be a different one by now.
func TestCallThatNobodyWaitsForChangesNothing(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	self, able := standIn()
	require.True(t, able)
	d := &deputy{self: self, notify: g.notify}
	dir := t.TempDir()
	file, made := filepath.Join(dir, "f"), filepath.Join(dir, "made")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	old, name := append([]byte(file), 0), append([]byte(made), 0)
	a := abis[runtime.GOARCH]
	const cwd = ^uint64(-unix.AT_FDCWD - 1)
	of := func(nr int64, path []byte, rest ...uint64) call {
		c := call{id: 1 << 60, thread: uint32(os.Getpid()), nr: int32(nr)}
		copy(c.args[:], append([]uint64{cwd, uint64(uintptr(unsafe.Pointer(&path[0])))}, rest...))
		return c
	}
	change := of(a.fchmodat, old, 0o4755)
	err := d.as(change, func(from *caller) error {
		want, ok := changeOf(a, change)
		require.True(t, ok)
		return d.chmod(change, from, want)
	})
	require.Equal(t, unix.ESRCH, err)
	requireMode(t, 0o600, file)

	creation := of(a.openat, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o4755)
	err = d.as(creation, func(from *caller) error {
		want, ok := creationOf(a, creation)
		require.True(t, ok)
		return d.create(creation, from, want)
	})
	require.Equal(t, unix.ESRCH, err)
	require.NoFileExists(t, made)
	runtime.KeepAlive(old)
	runtime.KeepAlive(name)
}

func TestOnlyEqualRightsAreTheSame(t *testing.T) {
	i := identity{uid: 1, gid: 2, groups: "3 4", effective: 5}
	require.True(t, i.same(i))
	for name, change := range map[string]func(i *identity){
		"user":         func(i *identity) { i.uid++ },
		"group":        func(i *identity) { i.gid++ },
		"groups":       func(i *identity) { i.groups = "3" },
		"capabilities": func(i *identity) { i.effective |= 1 << 20 },
	} {
		other := i
		change(&other)
		require.False(t, i.same(other), name)
		require.False(t, other.same(i), name)
	}
}

// Directories keep the setuid and setgid bits that they have, if the new mode
// has them as well.
func TestDirectoriesKeepTheirBitsAndFilesDoNot(t *testing.T) {
	for name, tt := range map[string]struct {
		directory       bool
		has, want, gets uint32
	}{
		"a directory keeps it":           {true, 0o2755, 0o2750, 0o2750},
		"a directory gets none":          {true, 0o755, 0o6750, 0o750},
		"a directory gets no other":      {true, 0o2755, 0o6750, 0o2750},
		"a directory gives it up":        {true, 0o2755, 0o4750, 0o750},
		"the sticky bit is none of them": {true, 0o755, 0o3777, 0o1777},
		"a file gets none":               {false, 0o755, 0o6711, 0o711},
		"a file loses it":                {false, 0o4755, 0o4711, 0o711},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			if tt.directory {
				require.NoError(t, os.Mkdir(path, 0o700))
			} else {
				require.NoError(t, os.WriteFile(path, nil, 0o700))
			}
			require.NoError(t, unix.Chmod(path, tt.has))
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, setMode(fd, tt.want))
			var stat unix.Stat_t
			require.NoError(t, unix.Stat(path, &stat))
			require.Equal(t, strconv.FormatUint(uint64(tt.gets), 8), strconv.FormatUint(uint64(stat.Mode&modeMask), 8))
		})
	}
}

// Only new files are made, whatever the caller asked for: an existing file is
// not opened instead.
func TestFilesAreMadeAndNotOpened(t *testing.T) {
	for name, tt := range map[string]struct{ flags, want uint64 }{
		"plain":             {unix.O_CREAT | unix.O_WRONLY, unix.O_CREAT | unix.O_WRONLY | unix.O_EXCL},
		"truncated":         {unix.O_CREAT | unix.O_RDWR | unix.O_TRUNC, unix.O_CREAT | unix.O_RDWR | unix.O_TRUNC | unix.O_EXCL},
		"without a name":    {unix.O_TMPFILE | unix.O_WRONLY, unix.O_TMPFILE | unix.O_WRONLY},
		"never to be named": {unix.O_TMPFILE | unix.O_WRONLY | unix.O_EXCL, unix.O_TMPFILE | unix.O_WRONLY | unix.O_EXCL},
		"unknown flags":     {unix.O_CREAT | unix.O_WRONLY | 1<<30, unix.O_CREAT | unix.O_WRONLY | unix.O_EXCL},
	} {
		how := creation{flags: tt.flags, mode: 0o6777}.how(0o022)
		require.Equal(t, tt.want|unix.O_CLOEXEC|unix.O_LARGEFILE|unix.O_NOCTTY, how.Flags, name)
		require.EqualValues(t, 0o755, how.Mode, name)
	}
}
