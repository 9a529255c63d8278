// These tests hold what Linux adds to the owners of files: setuid bits, immutable files, and
// the users of images.

package pygent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// requireNoSetid fails if a file has the setuid or setgid bit. It returns the
// number of files.
func requireNoSetid(t *testing.T, dir string) (files int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode()&(fs.ModeSetuid|fs.ModeSetgid), "%q", path)
		files++
		return nil
	}))
	return files
}

// newSetidRuntime returns a runtime on a directory in which a container of any
// user may write.
func newSetidRuntime(t *testing.T, image string) (r pygent.Runtime, dir string) {
	t.Helper()
	dir = realTempDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	return newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(image), pygent.WithWorkspace(dir)), dir
}

// Common operations on setuid files succeed, but without the bit.
func TestWorkOnSetuidFilesSucceedsWithoutTheBit(t *testing.T) {
	t.Parallel()
	testEngine(t)
	r, dir := newSetidRuntime(t, testImage())
	ctx := context.Background()
	require.NoError(t, r.WriteFile(ctx, "tool.deb", debian(t)))
	require.NoError(t, r.WriteFile(ctx, "tool.tar", setidTar(t)))
	for _, script := range []string{
		"dpkg -i tool.deb && dpkg -s tool | grep -q 'ok installed' && test -x /usr/bin/tool",
		"mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates && touch root/var/lib/dpkg/status && dpkg --root=$PWD/root -i tool.deb && test -x root/usr/bin/tool",
		"mkdir tar && tar xpf tool.tar -C tar && test -x tar/usr/bin/tool",
		"cp -a /bin/su copy && cp -p /bin/su copy2 && cp /bin/su copy3 && ./copy --version",
		"install -m 4755 /bin/true installed && ./installed",
		"mkdir -m 2775 group && chmod g+s group && touch group/f && chmod -R u+s,g+s group",
		"git init -q --shared shared && cd shared && touch f && git add f && git -c user.name=n -c user.email=e commit -qm m && git fsck",
		`python3 -c 'import shutil, os; shutil.copy2("/bin/su", "python"); os.chmod("python", 0o6755)' && test -x python`,
		`perl -e 'chmod(06755, "python") == 1 or die; mkdir("perl", 02775) or die'`,
		"mkdir his && chown 1000:1000 his && cd his && setpriv --reuid 1000 --regid 1000 --clear-groups sh -ec '" +
			"export HOME=$PWD; git init -q --shared shared; mkdir t; tar xpf ../tool.tar -C t; test -x t/usr/bin/tool; chmod 6755 t/usr/bin/tool'",
		"mkdir nobodys && chown nobody nobodys && cd nobodys && su nobody -s /bin/sh -c 'tar xpf ../tool.tar && cp -a usr/bin/tool t && chmod u+s,g+s t && install -m 2755 t i'",
	} {
		res := bash(t, r, script)
		require.Zero(t, res.ExitCode, "%s\n%s", script, res.Output)
		requireNoSetid(t, dir)
	}
	require.Greater(t, requireNoSetid(t, dir), 50)
}

// Small tools request the bit already when they make a file.
func TestSmallToolsExtractSetuidFilesWithoutTheBit(t *testing.T) {
	t.Parallel()
	testEngine(t)
	r, dir := newSetidRuntime(t, testBusyboxImage())
	require.NoError(t, r.WriteFile(context.Background(), "tool.tar", setidTar(t)))
	res := bash(t, r, "tar xpf tool.tar && test -x usr/bin/tool && cp -a usr/bin/tool copy && chmod 6755 copy")
	require.Zero(t, res.ExitCode, res.Output)
	requireNoSetid(t, dir)
}

// packed are the files of a package.
var packed = []tar.Header{
	{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "./usr/bin/tool", Typeflag: tar.TypeReg, Mode: 0o4755, Size: 2},
	{Name: "./usr/bin/tool-group", Typeflag: tar.TypeReg, Mode: 0o2755, Size: 2},
	{Name: "./usr/spool/", Typeflag: tar.TypeDir, Mode: 0o2775},
}

func setidTar(t *testing.T) []byte { return tarFile(t, "#!", packed...) }

func tarFile(t *testing.T, content string, headers ...tar.Header) []byte {
	t.Helper()
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	for _, h := range headers {
		h.Format, h.ModTime = tar.FormatGNU, time.Unix(1e9, 0)
		require.NoError(t, w.WriteHeader(&h))
		if h.Size > 0 {
			_, err := w.Write([]byte(content))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// debian returns a package for dpkg.
func debian(t *testing.T) []byte {
	t.Helper()
	const control = "Package: tool\nVersion: 1\nArchitecture: all\nMaintainer: n <e>\nDescription: d\n"
	b := bytes.NewBufferString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar", tarFile(t, control, tar.Header{Name: "./control", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(control))})},
		{"data.tar", setidTar(t)},
	} {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, 0, 0, 0, "100644", len(member.data))
		b.Write(member.data)
		if len(member.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// Cleanup also walks the whole tree, for files that existed before and for
// whatever the filter does not cover.
func TestKeptWorkspaceHoldsNoSetuidFiles(t *testing.T) {
	t.Parallel()
	testEngine(t)
	dir := realTempDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	require.Zero(t, bash(t, r, `mkdir "$(printf '\377')" && touch "$(printf '\376')" "$(printf '\377')/f"
python3 -c '
import os
for _ in range(4000):
    os.mkdir("d"); os.chdir("d")'`).ExitCode)
	for _, name := range []string{"a", "z", "\xff/f", "\xfe"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, nil, 0o755))
		require.NoError(t, os.Chmod(file, 0o755|fs.ModeSetuid|fs.ModeSetgid))
	}
	require.NoError(t, r.Cleanup())
	for _, name := range []string{"a", "z", "\xff/f", "\xfe"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o755), info.Mode(), "%q", name)
	}
}

// Cleanup returns an error about what keeps its owner.
func TestCleanupTellsWhatItCannotGiveToTheOwner(t *testing.T) {
	t.Parallel()
	testEngine(t)
	if os.Geteuid() != 0 {
		return // without root the owner does not change
	}
	dir := realTempDir(t)
	require.NoError(t, os.Chown(dir, nobody, nobody))
	r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	require.Zero(t, bash(t, r, `touch a "$(printf 'b\377')" c`).ExitCode)
	setImmutable(t, filepath.Join(dir, "b\xff"), true)
	defer setImmutable(t, filepath.Join(dir, "b\xff"), false)
	err = r.Cleanup()
	require.ErrorContains(t, err, `"b\xff"`)
	require.NotErrorIs(t, err, pygent.ErrCleanupIncomplete)
	require.Equal(t, "65534:65534", ownerOf(t, filepath.Join(dir, "a")))
	require.Equal(t, "65534:65534", ownerOf(t, filepath.Join(dir, "c")))
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

// The commands of the local runtime have the same filter whenever they are
// confined.
func TestLocalCommandsMakeNoSetuidFiles(t *testing.T) {
	t.Parallel()
	r, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Cleanup()) }()
	info := r.(pygent.Describer).Describe(t.Context())
	if info.Protection == "none" && os.Geteuid() != 0 {
		return // a filter would need no_new_privs, which would break sudo
	}
	res := bash(t, r, `cp /bin/true s && chmod 6755 s && install -m 4755 /bin/true i && mkdir -m 2775 d && stat -c '%n %a' d i s`)
	require.Zero(t, res.ExitCode, res.Output)
	require.Equal(t, "d 775\ni 755\ns 755\n", res.Output)
}

func TestLocalCommandsOfAUserMakeNoSetuidFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	t.Parallel()
	if os.Geteuid() == nobody {
		return // this process runs the test named below
	}
	asNobody(t, "TestLocalCommandsMakeNoSetuidFiles", nobody)
}

func TestCommandsCanWriteTheWorkspaceWhoeverTheImageNames(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives a directory to others")
	}
	requireDocker(t)
	for kind, also := range map[string][]pygent.RuntimeOption{"guest": nil, "exec": {pygent.WithTestPlainExec()}} {
		own := enginetest.ImageOf(t, "1000", testImage())
		for name, tt := range map[string]struct {
			owner int
			mode  os.FileMode
			opts  []pygent.RuntimeOption
			says  string // of the notes
		}{
			"the user's":              {1000, 0o755, nil, ""},
			"anybody's":               {1001, 0o777, nil, ""},
			"root's":                  {0, 0o755, nil, "Commands run as the workspace's owner, 0:0, since user"},
			"another user's":          {1001, 0o755, nil, "Commands run as the workspace's owner, 1001:1001, since user"},
			"of a user who is chosen": {1001, 0o755, []pygent.RuntimeOption{pygent.WithContainerUser("1000")}, "Commands cannot write the workspace: they run as user 1000"},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := realTempDir(t)
				require.NoError(t, os.Chown(dir, tt.owner, tt.owner))
				require.NoError(t, os.Chmod(dir, tt.mode))
				r := newTestRuntime(t, pygent.NewDockerRuntime, append(slices.Concat(tt.opts, also), pygent.WithImage(own), pygent.WithWorkspace(dir))...)
				res := bash(t, r, "echo made >file; ls -A")
				notes := r.(pygent.Describer).Describe(t.Context()).Notes
				if tt.says == "" {
					require.Empty(t, notes)
				} else {
					require.Len(t, notes, 1)
					require.Contains(t, notes[0], tt.says)
					require.Contains(t, res.Note, tt.says)
					require.Empty(t, bash(t, r, "true").Note, "it is told once")
				}
				require.NoError(t, r.Cleanup())
				if tt.owner == 1001 && tt.opts != nil {
					require.NoFileExists(t, filepath.Join(dir, "file"))
					return
				}
				require.Equal(t, "file\n", res.Output)
				info, err := os.Stat(filepath.Join(dir, "file"))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(tt.owner), fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid))
			})
		}
	}
}

func TestCommandsReachAWorktreeBelowADirectoryOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has a directory in /root")
	}
	requireDocker(t)
	dir, err := os.MkdirTemp("/root", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := gitWorld{t, dir}
	w.repo("main")
	for user, says := range map[string]string{"": "Commands run as the workspace's owner, 0:0, since the user", "1000": "choose another one with --user, or --repository none"} {
		opts := []pygent.RuntimeOption{pygent.WithImage(enginetest.ImageOf(t, "1000", testImage())), pygent.WithWorkspace(w.at("main-tree"))}
		if user != "" {
			opts = append(opts, pygent.WithContainerUser(user))
		}
		r := newTestRuntime(t, pygent.NewDockerRuntime, opts...)
		res, err := r.Bash(t.Context(), "git status --porcelain")
		if user != "" {
			require.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "A  staged\n", res.Output)
		require.Contains(t, res.Note, says)
	}
}
