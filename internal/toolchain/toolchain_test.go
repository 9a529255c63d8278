package toolchain_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolchain"
)

func TestInheritedPassesOnlyWhatIsKnown(t *testing.T) {
	for entry, passes := range map[string]bool{
		"PATH=/bin": true, "LC_ALL=C": true, "http_proxy=http://proxy:1": true, "GOFLAGS=-v": true, "no_proxy=a@b": true,
		"TOKEN=x": false, "APIKEY=x": false, "GITHUB_PAT=x": false, "PGPASSWORD=x": false, "DATABASE_URL=x": false,
		"CARGO_REGISTRY_TOKEN=x": false, "NPM_TOKEN=x": false, "AWS_ACCESS_KEY_ID=x": false, "SSH_AUTH_SOCK=/s": false,
		"DBUS_SESSION_BUS_ADDRESS=x": false, "LD_PRELOAD=/x": false, "BASH_ENV=/x": false, "PYGENT_MODEL=x": false,
		"https_proxy=http://u:p@proxy:1": false, "HTTPS_PROXY=u:p@proxy:1": false, "all_proxy=u:p@proxy": false, "PIP_INDEX_URL=https://token@host/simple": false, "GOPROXY=https://u:p@h,direct": false,
	} {
		want := []string{}
		if passes {
			want = append(want, entry)
		}
		require.Equal(t, want, toolchain.Inherited([]string{entry}, nil), entry)
	}
	require.Equal(t, []string{"TOKEN=x"}, toolchain.Inherited([]string{"TOKEN=x", "TOKENS=y"}, []string{"TOKEN"}))
}

func TestFindReadsToolsButNotTheHome(t *testing.T) {
	home := t.TempDir()
	tools := toolchain.Find([]string{
		"HOME=" + home, "PATH=" + home + ":/:relative:" + home + "/bin:/opt/x/bin", "PYENV_ROOT=" + filepath.Dir(home), "JAVA_HOME=/opt/java",
	}, "/cache")
	for _, path := range []string{filepath.Join(home, "bin"), filepath.Join(home, "lib"), "/opt/x/bin", "/opt/x/lib", "/opt/java", filepath.Join(home, ".cargo", "bin")} {
		require.Contains(t, tools.Read, path)
	}
	for _, path := range []string{home, filepath.Dir(home), "/", "relative", filepath.Join(home, ".ssh"), filepath.Join(home, ".cargo"), filepath.Join(home, ".config")} {
		require.NotContains(t, tools.Read, path)
	}
	require.Contains(t, tools.Env, "CARGO_HOME=/cache/cargo")
	require.Contains(t, tools.Env, "GOBIN=/cache/go/bin")
}

func TestFindKnowsTheHomeByEveryName(t *testing.T) {
	top := t.TempDir()
	home, link := filepath.Join(top, "home"), filepath.Join(top, "link")
	require.NoError(t, os.MkdirAll(filepath.Join(home, "lib"), 0o700))
	require.NoError(t, os.Symlink(home, link))
	for _, env := range [][]string{
		{"HOME=" + home, "PYTHONPATH=" + link + ":" + link + "/lib"},
		{"HOME=" + link, "PYTHONPATH=" + home + ":" + top + ":" + home + "/lib"},
	} {
		read := toolchain.Find(env, "/cache").Read
		require.NotContains(t, read, home)
		require.NotContains(t, read, link)
		require.NotContains(t, read, top)
		require.Contains(t, []string{home + "/lib", link + "/lib"}, read[0], "what is in it can be read")
	}
}

func TestFindReadsNoSettingsThatCommandsCanWrite(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	dots := filepath.Join(home, "dots")
	require.NoError(t, os.Mkdir(dots, 0o700))
	require.NoError(t, os.Symlink(dots, filepath.Join(outside, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dots, "gitconfig"), []byte("[core]\n\texcludesFile = /their/choice\n"), 0o600))
	require.NoError(t, os.Symlink("dots/gitconfig", filepath.Join(home, ".gitconfig")))
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	require.Contains(t, toolchain.Find(env, "/cache").Read, "/their/choice")
	for _, owned := range []string{dots, filepath.Join(outside, "link")} {
		require.NotContains(t, toolchain.Find(env, "/cache", owned).Read, "/their/choice", owned)
	}
}

func TestFindFollowsTheIncludesOfGit(t *testing.T) {
	home := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	want := []string{
		write(".gitconfig", "[include]\n\tpath = a/one\n[includeIf \"gitdir:~/work/\"]\n\tpath = ~/two\n[core]\n\texcludesFile = ~/ignored\n[credential]\n\thelper = store --file ~/passwords\n"),
		write("a/one", "[include]\n\tpath = three\n\tpath = one\n"), // one includes itself over and over
		write("a/three", "[user]\n\tname = x\n"),
		write("two", ""),
		write("ignored", ""),
	}
	write("passwords", "")
	tools := toolchain.Find([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, "/cache")
	require.Subset(t, tools.Read, want)
	require.NotContains(t, tools.Read, filepath.Join(home, "passwords"))
}

func TestFindTakesModulesFromTheUsersCache(t *testing.T) {
	home := t.TempDir()
	downloads := filepath.Join(home, "go", "pkg", "mod", "cache", "download")
	require.NoError(t, os.MkdirAll(downloads, 0o700))
	env := []string{"HOME=" + home}
	require.Contains(t, toolchain.Find(env, "/cache").Env, "GOPROXY=file://"+downloads+",https://proxy.golang.org,direct")

	settings := filepath.Join(home, ".config", "go", "env")
	require.NoError(t, os.MkdirAll(filepath.Dir(settings), 0o700))
	require.NoError(t, os.WriteFile(settings, []byte("GOPROXY=https://corp\n"), 0o600))
	tools := toolchain.Find(env, "/cache")
	require.Contains(t, tools.Env, "GOPROXY=file://"+downloads+",https://corp")
	require.Subset(t, tools.Read, []string{downloads, settings})

	// Commands must not see a password in the settings.
	require.NoError(t, os.WriteFile(settings, []byte("GOPROXY=https://u:password@corp\nGOFLAGS=-v\n"), 0o600))
	tools = toolchain.Find(env, "/cache")
	require.Contains(t, tools.Env, "GOPROXY=file://"+downloads+",https://proxy.golang.org,direct")
	require.NotContains(t, tools.Read, settings)

	// No proxy may learn the name of a private module.
	private := toolchain.Find(append(env, "GOPRIVATE=corp.test/*"), "/cache").Env
	require.Contains(t, private, "GOPROXY=file://"+downloads+",direct")
	require.Contains(t, private, "GONOPROXY=none")
}

// TestFindRunsNoProgramOfTheWorkspace puts a git into a virtual environment in
// the workspace, where commands can write.
func TestFindRunsNoProgramOfTheWorkspace(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	home, work, ran := filepath.Join(root, "home"), filepath.Join(root, "work"), filepath.Join(root, "ran")
	for _, dir := range []string{home, filepath.Join(work, "bin"), filepath.Join(root, "bin")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[include]\n\tpath = more\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "more"), nil, 0o600))
	evil := filepath.Join(work, "bin", "git")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\necho >"+ran+"\n"), 0o700))
	require.NoError(t, os.Symlink(evil, filepath.Join(root, "bin", "git")))
	require.NoError(t, os.Symlink(filepath.Join(work, "bin"), filepath.Join(root, "link")))
	path := os.Getenv("PATH")
	for _, dir := range []string{filepath.Join(work, "bin"), filepath.Join(root, "bin"), filepath.Join(root, "link"), "relative"} {
		t.Setenv("PATH", dir+":"+path)
		tools := toolchain.Find([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, "/cache", work)
		require.NoFileExists(t, ran, dir)
		require.Contains(t, tools.Read, filepath.Join(home, "more"), "another git is found")
	}
}
