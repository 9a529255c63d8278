package checkpoint

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/owner"
)

// besideDir is the directory of a store in which each agent with checkpoints has a file
// that it locks as long as it works in a workspace. So two that work in one know of each
// other, also if one of them was killed.
const besideDir = "beside"

// presence is the file of a book.
type presence struct {
	root *os.Root
	name string
	file *os.File
}

// Beside returns what to tell of others that work in the directory of a workspace, too,
// with checkpoints in the same store; "" if there are none. It can be asked again.
func (b *Book) Beside(dir string) (string, error) {
	unlock, err := b.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	sum := sha256.Sum256([]byte(dir))
	prefix := hex.EncodeToString(sum[:12]) + "-"
	if b.here == nil {
		if b.here, err = appear(filepath.Join(b.dir, besideDir), prefix); err != nil {
			return "", err
		}
	}
	n, err := b.here.others(prefix)
	if n == 0 || err != nil {
		return "", err
	}
	return fmt.Sprintf("%s in this directory, too. An undo takes back only what changed during the calls of its own session",
		numeral.Count(n, "other session")+map[bool]string{true: " works", false: " work"}[n == 1]), nil
}

// appear makes the file of a book, and locks it.
func appear(dir, prefix string) (*presence, error) {
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return nil, err
	}
	for {
		p := &presence{root: root, name: prefix + rand.Text()}
		p.file, err = root.OpenFile(p.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = filelock.Lock(p.file)
		}
		if err == nil && p.isNamed() {
			return p, nil
		}
		if p.file != nil {
			_ = filelock.Close(p.file) // somebody took it for one that was left, and removes it
		}
		if err != nil && !errors.Is(err, filelock.ErrHeld) {
			return nil, errors.Join(err, root.Close())
		}
	}
}

// isNamed reports whether the file still has its name.
func (p *presence) isNamed() bool {
	is, err := p.file.Stat()
	if err != nil {
		return false
	}
	named, err := p.root.Lstat(p.name)
	return err == nil && os.SameFile(is, named)
}

// others counts the files that somebody else holds, and removes those that nobody does.
func (p *presence) others(prefix string) (n int, err error) {
	entries, err := fs.ReadDir(p.root.FS(), ".")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || e.Name() == p.name {
			continue
		}
		f, err := p.root.OpenFile(e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue // it has gone
		}
		if err := filelock.Lock(f); err != nil {
			n++
			_ = f.Close()
			continue
		}
		_ = p.root.Remove(e.Name()) // its process was killed
		_ = filelock.Close(f)
	}
	return n, err
}

// leave removes the file.
func (p *presence) leave() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.root.Remove(p.name), filelock.Close(p.file), p.root.Close())
}
