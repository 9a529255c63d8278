//go:build linux

package escape

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// victim is what a person has on a machine: a home with keys, files beside it,
// and keys in the environment. Every secret contains the word, so no text that
// an attack sees may contain it.
type victim struct {
	root string // has home, tmp, and the files beside them
	word string
}

// secrets are the files of a victim, below its root. No attack may read or change
// them.
var secrets = []string{
	"home/.ssh/id_ed25519", "home/.ssh/authorized_keys", "home/.aws/credentials", "home/.npmrc", "home/.netrc", "home/.bashrc",
	"home/.profile", "home/.docker/config.json", "home/.kube/config", "home/.git-credentials", "home/.config/gh/hosts.yml",
	"home/.pygent.toml", "home/documents/diary", "tmp/pygent-other/data", "tmp/other", "beside/secret",
}

// keys are variables that hold a secret of the victim.
var keys = []string{
	"OPENAI_API_KEY", "GITHUB_TOKEN", "GITHUB_PAT", "NPM_TOKEN", "PGPASSWORD", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY",
	"SOME_APIKEY", "SLACK_WEBHOOK", "MY_UNKNOWN_VARIABLE", "LD_PRELOAD_OTHER", "SSH_AUTH_SOCK", "HTTPS_PROXY_AUTH",
}

func plant() (*victim, error) {
	root, err := os.MkdirTemp("", "victim-")
	if err != nil {
		return nil, err
	}
	v := &victim{root: root, word: "CANARY" + rand.Text()}
	for _, name := range secrets {
		file := v.path(name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte("# "+v.word+" "+name+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	return v, os.Chmod(root, 0o755)
}

// here returns the victim whose environment this process has.
func here(t *testing.T) *victim {
	t.Helper()
	root, word, ok := strings.Cut(os.Getenv(planted), "|")
	require.True(t, ok)
	return &victim{root, word}
}

func (v *victim) path(name string) string { return filepath.Join(v.root, filepath.FromSlash(name)) }

func (v *victim) remove() { _ = os.RemoveAll(v.root) }

// environ returns the environment of a process of the victim. It keeps the
// settings of Go's caches.
func (v *victim) environ(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains(keys, name) || strings.HasPrefix(name, "XDG_") || name == "HOME" || name == "TMPDIR"
	})
	env = append(env, "HOME="+v.path("home"), "TMPDIR="+v.path("tmp"), planted+"="+v.root+"|"+v.word)
	for _, key := range keys {
		env = append(env, key+"="+v.word+"-"+key)
	}
	return env
}

// state returns everything that an attack must not change: the files with their
// modes, owners and contents, and the entries of directories.
func (v *victim) state(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	err := filepath.WalkDir(v.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(v.root, path)
		if err != nil {
			return err
		}
		if ours(filepath.ToSlash(name)) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		state[name] = fmt.Sprint(info.Mode(), " ", ownerOf(info))
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			state[name] += " " + string(data)
		}
		return nil
	})
	require.NoError(t, err)
	return state
}

// ours reports whether a path belongs to pygent or its tools, which keep files in
// the home and in TMPDIR.
func ours(name string) bool {
	switch name {
	case "home/.cache", "home/.local", "home/go", "home/.npm", "home/.cargo":
		return true
	}
	rest, ok := strings.CutPrefix(name, "tmp/")
	return ok && !slices.ContainsFunc(secrets, func(s string) bool {
		return s == name || strings.HasPrefix(s, "tmp/"+rest+"/")
	})
}

// silent requires that a text contains no secret of the victim.
func (v *victim) silent(t *testing.T, what, text string) {
	t.Helper()
	if at := strings.Index(text, v.word); at >= 0 {
		t.Fatalf("%s shows a secret: %q", what, text[max(0, at-200):min(len(text), at+200)])
	}
}

// silentTree requires that no regular file below dir contains a secret. One would
// if a link had been followed when it was copied there.
func (v *victim) silentTree(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			v.silent(t, path, string(data))
		}
		return err
	})
	require.NoError(t, err)
}

// watched runs an attack and requires that it leaves the victim unchanged.
func (v *victim) watched(t *testing.T, attack func()) {
	t.Helper()
	before := v.state(t)
	attack()
	require.Equal(t, before, v.state(t))
}
