package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/wire"
)

func TestIDsOfTheHostAreTranslated(t *testing.T) {
	for name, tt := range map[string]struct {
		ids      string
		above    int64
		id       int
		same, ok bool
	}{
		"all the same":      {"         0          0 4294967295\n", 4242, 4242, true, true},
		"a user's engine":   {"0 1000 1\n1 100000 65536\n", 1000, 0, false, true},
		"the second range":  {"0 1000 1\n1 100000 65536\n", 100004, 5, false, true},
		"before the range":  {"0 1000 1\n", 999, 0, false, false},
		"behind the range":  {"0 1000 1\n", 1001, 0, false, false},
		"part of the range": {"0 0 65536\n", 7, 7, false, true},
		"none":              {"", 0, 0, false, false},
		"rubbish":           {"x\n", 0, 0, false, false},
	} {
		file := filepath.Join(t.TempDir(), "map")
		require.NoError(t, os.WriteFile(file, []byte(tt.ids), 0o600))
		id, same, ok := idHere(file, tt.above)
		require.Equal(t, []any{tt.id, tt.same, tt.ok}, []any{id, same, ok}, name)
	}
	_, _, ok := idHere(filepath.Join(t.TempDir(), "none"), 0)
	require.False(t, ok)
}

// The host says to whom the workspace belongs, if it means this very directory.
// The directory's own owner may have been changed by an earlier command.
func TestHostSaysWhomTheWorkspaceBelongsTo(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	info, err := root.Stat(".")
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	said := wire.HostOwner{Owner: wire.Owner{Known: true, UID: 4242, GID: 4243}, Dev: int64(stat.Dev), Ino: int64(stat.Ino), Boot: bootID()}
	same := "0 0 4294967295\n"
	for name, tt := range map[string]struct {
		change func(h *wire.HostOwner)
		ids    string
		want   *owner
	}{
		"that directory":          {func(*wire.HostOwner) {}, same, &owner{4242, 4243}},
		"nothing":                 {func(h *wire.HostOwner) { h.Known = false }, same, nil},
		"another kernel":          {func(h *wire.HostOwner) { h.Boot = "x" }, same, nil},
		"no kernel":               {func(h *wire.HostOwner) { h.Boot = "" }, same, nil},
		"another directory":       {func(h *wire.HostOwner) { h.Ino++ }, same, nil},
		"a file of another mount": {func(h *wire.HostOwner) { h.Dev++ }, same, nil},
		"changed since":           {func(h *wire.HostOwner) { h.Sure = true }, same, &owner{4242, 4243}},
		"mapped users":            {func(*wire.HostOwner) {}, "0 4242 2\n", &owner{0, 1}},
		"mapped, not from here":   {func(h *wire.HostOwner) { h.Sure = true }, "0 4240 9\n", nil},
		"a user who is not there": {func(*wire.HostOwner) {}, "0 4243 1\n", nil},
		"no such group":           {func(*wire.HostOwner) {}, "0 4242 1\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			maps := t.TempDir()
			for _, file := range []string{"uid_map", "gid_map"} {
				require.NoError(t, os.WriteFile(filepath.Join(maps, file), []byte(tt.ids), 0o600))
			}
			h := said
			tt.change(&h)
			got, ok := ownerMapped(root, h, maps)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want != nil, ok)
		})
	}
	earlier := wire.Owner{Known: true, UID: 7, GID: 8}
	got, hosts := workspaceOwner(root, &wire.Hello{Own: true, Owner: earlier})
	require.Equal(t, owner{7, 8}, *got, "an earlier guest said it")
	require.False(t, hosts)
	got, hosts = workspaceOwner(root, &wire.Hello{Own: true})
	require.Equal(t, owner{os.Getuid(), os.Getgid()}, *got)
	require.False(t, hosts)
}
