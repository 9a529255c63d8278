package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/toolchain"
)

// gitConfig is the system's configuration of git in the containers of a sandbox: that git
// works in directories of somebody else, who the user is, and then what the image's own
// says. A file of the system is the only place that a repository's configuration, and that
// of the container's user, takes precedence over. The programs that git starts for another
// repository, as "git clone ." does, read it, too, while they get no settings of ours from
// the environment.
func gitConfig(ctx context.Context, workspace string) string {
	var b strings.Builder
	b.WriteString("[safe]\n\tdirectory = *\n[user]\n")
	name, email := toolchain.GitIdentity(ctx, os.Environ(), workspace, workspace)
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, s := range [][2]string{{"name", name}, {"email", email}} {
		if s[1] != "" {
			fmt.Fprintf(&b, "\t%s = \"%s\"\n", s[0], quote.Replace(s[1]))
		}
	}
	b.WriteString("[include]\n\tpath = /etc/gitconfig\n")
	return b.String()
}

// gitConfigPath is where a container sees its configuration of git.
func (s containerSpec) gitConfigPath() string { return path.Join(s.guestDir(), "gitconfig") }

// keepForMount writes a file into the user's cache, for engines to mount, under a name made
// of its content. It is an error where others may change it.
func keepForMount(kind, text string) (string, error) {
	dir, err := binary.CacheDir()
	if err != nil {
		return "", err
	}
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := fmt.Sprintf("%s-%x", kind, sha256.Sum256([]byte(text)))[:len(kind)+23]
	if is, err := root.ReadFile(name); err != nil || string(is) != text {
		temp := name + "-" + rand.Text() + ".tmp"
		err := root.WriteFile(temp, []byte(text), 0o644)
		if err == nil {
			err = root.Chmod(temp, 0o644) // the container's user reads it, whatever our umask
		}
		if err == nil {
			err = root.Rename(temp, name)
		}
		if err != nil {
			return "", errors.Join(err, root.Remove(temp))
		}
	}
	at, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err == nil {
		err = owner.Secluded(at)
	}
	return at, err
}
