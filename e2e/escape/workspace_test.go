//go:build linux

package escape

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// setidAttacks make files with the setuid or setgid bit. Such a file would give
// the rights of root to every user of the machine where the workspace is.
var setidAttacks = map[string]string{
	"chmod":                "cp /bin/true f; chmod 4755 f; chmod g+s f; chmod 6777 f",
	"install":              "install -m 6755 /bin/true f",
	"copy":                 "cp /bin/true f; chmod 4755 f; cp -a f g; cp -p f h",
	"tar":                  "perl -e 'print pack(q(a100a8a8a8a12a12a8a1a100a6a2), q(f), q(0004755), q(0000000), q(0000000), q(00000000000), q(00000000000), q(        ), 0, q(), q(ustar), q(00))' >t; tar -xpf t --ignore-command-error; python3 -c 'import tarfile; t = tarfile.open(\"u\", \"w\"); i = tarfile.TarInfo(\"g\"); i.mode = 0o6755; t.addfile(i); t.close()'; tar -xpf u",
	"creation":             `perl -e 'use Fcntl; umask 0; sysopen(F, "f", O_CREAT|O_WRONLY, 06755); syscall(85, "g", 06755); syscall(133, "h", 0106755, 0)'`,
	"old and new calls":    `cp /bin/true f; perl -e 'syscall(90, "f", 06755); open F, "f"; syscall(91, fileno(F), 06755); syscall(268, -100, "f", 06755); syscall(452, -100, "f", 06755, 0); syscall(452, fileno(F), "", 06755, 0x1000)'`,
	"open with a struct":   `perl -e 'syscall(437, -100, "f", pack("QQQ", 0101, 06755, 0), 24)'`,
	"a file without name":  `perl -e 'use Fcntl; sysopen(F, ".", 020200000|O_RDWR, 06755) or exit; symlink "x", "y"; system("ln -L /proc/$$/fd/" . fileno(F) . " f")'`,
	"directories":          "mkdir d; chmod 2777 d; mkdir -m 2755 e; git init -q --shared r",
	"numbers of x32":       `cp /bin/true f; perl -e 'syscall(0x40000000 + 90, "f", 06755)'`,
	"a name that is none":  `n=$(printf '\377\376'); cp /bin/true "$n"; chmod 6755 "$n"; mkdir "d$n"; cp /bin/true "d$n/f"; chmod 6755 "d$n/f"`,
	"a chain":              `cp /bin/true f; perl -e 'for (1..$ENV{DEEP}) { mkdir "d"; chdir "d" } system("cp", "/bin/true", "f"); chmod 06755, "f"'`,
	"links":                `cp /bin/true f; ln -s f l; chmod 6755 l; ln f h; chmod 6755 h`,
	"a mode of its parent": `mkdir d; chmod 2777 d; cd d; touch f; chmod 6755 f`,
}

// TestNoSetuidFileIsEverOnThisMachine looks while the container lives, and after
// it.
func TestNoSetuidFileIsEverOnThisMachine(t *testing.T) {
	everywhere(t, places(), func(t *testing.T, _ *victim, p place) {
		dir := dirOf(t, nil)
		deep := "4000"
		if p.name == "remote" {
			deep = "200" // files that are too deep to be copied stay in the engine's volume
		}
		r := p.new(t, pygent.WithWorkspace(dir), pygent.WithEnv("DEEP="+deep))
		for name, script := range setidAttacks {
			t.Run(name, func(t *testing.T) {
				made := bash(t, r, `d=$(mktemp -d -p .) && cd "$d" && { `+script+`; } >/dev/null 2>&1; echo "$d"`)
				if place := filepath.Join(dir, strings.TrimSpace(made)); p.name != "remote" {
					requireNoSetid(t, place)
				}
			})
		}
		require.NoError(t, r.Cleanup())
		requireNoSetid(t, dir)
	})
}

// requireNoSetid requires that no file has these bits. Directories may have them,
// because there they give no rights.
func requireNoSetid(t *testing.T, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var look func(root *os.Root)
	look = func(root *os.Root) {
		d, err := root.Open(".")
		require.NoError(t, err)
		entries, err := d.ReadDir(-1)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		for _, entry := range entries {
			if entry.IsDir() {
				below, err := root.OpenRoot(entry.Name())
				require.NoError(t, err)
				look(below)
				require.NoError(t, below.Close())
				continue
			}
			info, err := entry.Info()
			if err != nil { // the path is too long for the system
				info, err = root.Lstat(entry.Name())
			}
			require.NoError(t, err)
			require.Zero(t, info.Mode()&(fs.ModeSetuid|fs.ModeSetgid), "%q", entry.Name())
		}
	}
	look(root)
}

// TestTemporaryWorkspaceGoesWhateverIsInIt fills temporary workspaces with what
// is hard to remove.
func TestTemporaryWorkspaceGoesWhateverIsInIt(t *testing.T) {
	everywhere(t, places(), func(t *testing.T, _ *victim, p place) {
		t.Setenv("TMPDIR", t.TempDir())
		r := p.new(t)
		bash(t, r, `{
mkdir shut; echo x >shut/f; chmod 000 shut
mkdir fixed; echo x >fixed/f; chmod 555 fixed
touch "$(printf '\377\n\033')" -- -rf
mkfifo pipe; ln -s / root; chattr +i shut/f
perl -e 'for (1..5000) { mkdir "d" or last; chdir "d" or last }'
} 2>/dev/null; true`)
		require.NoError(t, r.Cleanup())
		left, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestHolesCostNothing makes sparse files that seem large, and files that are
// large.
func TestHolesCostNothing(t *testing.T) {
	everywhere(t, places(), func(t *testing.T, _ *victim, p place) {
		r := p.new(t)
		bash(t, r, "mkdir d && truncate -s 8G d/hole && truncate -s 8T d/abyss; truncate -s 8G hole; echo end >>hole")
		out := t.TempDir()
		for _, name := range []string{"d", "hole", "."} {
			_ = r.ExportFile(t.Context(), name, filepath.Join(out, "to-"+filepath.Base(name)))
		}
		delegate(t, r, []string{"d", "hole"})
		require.Less(t, used(t, out), int64(64<<20))
		require.Less(t, used(t, os.TempDir()), int64(256<<20))
	})
}

// used returns how many bytes the files below a directory take on the disk.
func used(t *testing.T, dir string) int64 {
	t.Helper()
	var total int64
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return total
}

// TestWhatRunsOnTheHostLaterIsNamed makes the agent write files that the user's
// next git command would run.
func TestWhatRunsOnTheHostLaterIsNamed(t *testing.T) {
	requireEngine(t, "")
	for name, script := range map[string]string{
		".git/hooks/post-checkout": `printf '#!/bin/sh\ntouch /tmp/pwned\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout`,
		".git/config":              `git config core.fsmonitor 'touch /tmp/pwned'`,
		"sub/.git/config":          `mkdir sub; git init -q sub; git -C sub config core.pager evil`,
	} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			dir := dirOf(t, map[string]string{"f": "x"})
			for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "x"}} {
				require.NoError(t, git(dir, args...))
			}
			server := pygenttest.NewServer(t, pygenttest.Call("bash", map[string]any{"cmd": script}), pygenttest.Call("stop", nil))
			out := runPygent(t, dir, server.Env(), "run", "--docker", "--cwd", "--image", image, "Work.")
			_, after, _ := strings.Cut(out, script)
			require.Contains(t, after, name)
		})
	}
}
