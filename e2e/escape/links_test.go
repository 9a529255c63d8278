//go:build linux

package escape

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// TestLinksLeadNowhere uses links in the workspace in all ways, while the runtime
// runs, and in a new one that has not started yet.
func TestLinksLeadNowhere(t *testing.T) {
	everywhere(t, places(), func(t *testing.T, v *victim, p place) {
		secret := v.path("beside/secret")
		links := map[string]string{
			"file": secret, "dir": filepath.Dir(secret), "up": strings.Repeat("../", 20) + secret,
			"self": "/proc/self/root" + secret, "one": "/proc/1/root" + secret, "env": "/proc/self/environ",
		}
		dir := dirOf(t, nil)
		r := p.new(t, pygent.WithWorkspace(dir))
		for name, target := range links {
			bash(t, r, "ln -s "+target+" "+name+" && mkdir -p in && ln -s ../"+name+" in/"+name)
		}
		all := filepath.Join(t.TempDir(), "all")
		attack := func(r pygent.Runtime) {
			for _, name := range []string{"file", "dir/secret", "up", "self", "one", "env", "in/file", "in/dir/secret", "in/up"} {
				throughLink(t, v, r, name)
			}
		}
		attack(r)
		require.NoError(t, r.ExportFile(t.Context(), ".", all))
		v.silentTree(t, all)
		require.NoError(t, r.Cleanup())
		attack(p.new(t, pygent.WithWorkspace(dir)))
	})
}

// throughLink uses a link in all ways. None may reach the file behind it.
func throughLink(t *testing.T, v *victim, r pygent.Runtime, link string) {
	t.Helper()
	ctx := t.Context()
	data, _ := r.ReadFile(ctx, link)
	v.silent(t, "reading "+link, string(data))
	data, _, _ = r.(pygent.RangeReader).ReadFileRange(ctx, link, 0, 1000)
	v.silent(t, "reading a range of "+link, string(data))
	out := filepath.Join(t.TempDir(), "out")
	_ = r.ExportFile(ctx, link, out)
	v.silentTree(t, filepath.Dir(out))
	_ = r.WriteFile(ctx, link, []byte("written"))
	_ = r.UploadFile(ctx, "main_test.go", link)
	_, _ = r.Bash(ctx, "true", pygent.BashDir(filepath.Dir(link)))
}

// TestDelegatedFilesStayInside delegates and collects links in every order that
// would lead a later file out of its tree.
func TestDelegatedFilesStayInside(t *testing.T) {
	attacks := map[string]struct {
		script string // run by the parent; T is the victim's directory without its first slash
		files  []string
	}{
		// In the workspace the link leads to a directory of the same name there. In a
		// copy where "up" is a directory and not a link, it would lead outside.
		"a directory reached through a link": {
			`mkdir -p a/b/c/d/e/f p "$T/home/.ssh"; echo evil | tee a/b/c/d/e/f/x >"$T/home/.ssh/authorized_keys"; ln -s a/b/c/d/e/f up; ln -s "../up/../../../../../../$T/home/.ssh" p/d`,
			[]string{"up/x", "p", "p/d/authorized_keys"},
		},
		"a link that is written through": {
			`mkdir k; ln -s "/$T/home/.ssh" l; echo evil >k/authorized_keys`, []string{"l", "l/authorized_keys", "k"},
		},
		"the environment of pygent": {`ln -s /proc/self/environ env`, []string{"."}},
		"the environment, by name":  {`ln -s /proc/self/environ env`, []string{"env"}},
		"the environment, deeper":   {`mkdir d; ln -s /proc/self/environ d/env; ln -s d/env e`, []string{"d"}},
		"descriptors of pygent":     {`ln -s /proc/self/fd fd`, []string{"."}},
		"keys":                      {`ln -s "/$T/home/.ssh" keys; ln -s "/$T/home/.ssh/id_ed25519" key`, []string{"keys", "key"}},
		"keys, below a link":        {`ln -s "/$T/home/.ssh" keys`, []string{"keys/id_ed25519"}},
		"keys, far up":              {`ln -s "../../../../../../../../../$T/home" home`, []string{"home/.ssh/id_ed25519", "home", "."}},
	}
	everywhere(t, places(), func(t *testing.T, v *victim, p place) {
		for name, a := range attacks {
			t.Run(name, func(t *testing.T) {
				r := p.new(t, pygent.WithEnv("T="+strings.TrimPrefix(v.root, "/")))
				bash(t, r, a.script)
				v.silent(t, "the task", delegate(t, r, a.files))
				v.silentTree(t, exported(t, r))
			})
		}
	})
}

// delegate makes a task print all its files, collects them, and returns
// everything that was printed.
func delegate(t *testing.T, r pygent.Runtime, files []string) string {
	t.Helper()
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": `find . | head -100; find . -type f -o -type l | head -100 | while read -r f; do echo "$f:"; head -c 1000000 "$f"; readlink "$f"; done; ln -s /proc/self/environ back; env`}),
		pygenttest.Call("stop", nil)).RepeatLast()
	tasks, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(model)))
	require.NoError(t, err)
	defer func() { require.NoError(t, tasks.Close()) }()
	id, err := tasks.StartTask(t.Context(), "Look at the files.", r, pygent.WithTaskFiles(files...))
	if err != nil {
		return err.Error()
	}
	_, err = tasks.Wait(t.Context(), id)
	require.NoError(t, err)
	for _, path := range append(files, "back", ".") {
		_, _ = tasks.CollectFile(t.Context(), r, id, path, "")
		_, _ = tasks.CollectFile(t.Context(), r, id, path, "collected/"+filepath.Base(path))
	}
	said, err := tasks.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	data, err := json.Marshal(said)
	require.NoError(t, err)
	return string(data)
}

// exported returns a directory with everything that is in a workspace.
func exported(t *testing.T, r pygent.Runtime) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "exported")
	if err := r.ExportFile(t.Context(), ".", dir); err != nil {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	return dir
}
