package tree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stagePrefix begins the names of temporary directories for trees that are not
// complete yet. Two random numbers in base 36 follow, which are hardly ever
// short.
const (
	stagePrefix    = ".pygent-stage-"
	minStageSuffix = 16
	maxStageSuffix = 26
)

// What is in a stage: the tree, and a file that tells a stage from somebody's
// directory of the same name.
const (
	stageTree = "tree"
	stageMark = "made-by-pygent"
)

// markOf is the content of the mark of a stage. A copy under another name has
// another mark.
func markOf(name string) string {
	return "pygent removes the directory " + name + " when no process uses it.\n"
}

// newStage makes a temporary directory below root for a tree that is not
// complete yet, with an empty directory for the tree. It is locked, so that
// other processes see that it is in use. The directory for the tree has a mode that the
// umask may limit.
func newStage(root *os.Root, mode fs.FileMode) (name string, lock *os.File, err error) {
	for {
		// math/rand is seeded by the kernel, and Mkdir refuses a name that
		// exists. So crypto/rand would only make the program larger.
		name = stagePrefix + strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
		if err := root.Mkdir(name, 0o700); err != nil {
			return "", nil, err
		}
		lock, err = hold(root, name)
		if !errors.Is(err, errAbandoned) {
			break
		}
	}
	if err == nil {
		err = fillStage(root, name, mode)
	}
	if err != nil {
		return "", nil, errors.Join(err, Remove(root, name), closeLock(lock))
	}
	return name, lock, nil
}

// fillStage makes what is in a new stage.
func fillStage(root *os.Root, name string, mode fs.FileMode) error {
	if err := root.WriteFile(filepath.Join(name, stageMark), []byte(markOf(name)), 0o600); err != nil {
		return err
	}
	return root.Mkdir(filepath.Join(name, stageTree), mode)
}

// errAbandoned means that another process has removed the stage because it took
// it for abandoned.
var errAbandoned = errors.New("the tree was taken for abandoned")

func closeLock(lock *os.File) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}

// RemoveStages removes the temporary directories of processes that did not
// complete their trees, until ctx ends. It looks only in root itself, not below.
func RemoveStages(ctx context.Context, root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	err = errors.Join(err, dir.Close())
	for _, name := range names {
		if ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if !isStage(root, name) {
			continue
		}
		if lock, ok := take(root, name); ok {
			err = errors.Join(err, removeStage(ctx, root, name), closeLock(lock))
		}
	}
	return err
}

// removeStage removes a stage until ctx ends. What is left then still has its mark.
func removeStage(ctx context.Context, root *os.Root, name string) error {
	if err := remove(ctx, root, filepath.Join(name, stageTree)); err != nil {
		return err
	}
	return Remove(root, name)
}

// isStage reports whether newStage made a directory. One whose process was
// killed before it began the mark is not recognised. It is empty.
func isStage(root *os.Root, name string) bool {
	return mayBeStage(name) && isMarked(root, name)
}

// isMarked reports whether a directory has the mark of its name, or nothing but
// the beginning of it, as a process leaves it that is killed while it writes.
func isMarked(root *os.Root, name string) bool {
	mark, err := root.OpenFile(filepath.Join(name, stageMark), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return false
	}
	defer mark.Close()
	if info, err := mark.Stat(); err != nil || !info.Mode().IsRegular() {
		return false // reading a pipe would wait for its writer
	}
	want := markOf(name)
	content, err := io.ReadAll(io.LimitReader(mark, int64(len(want))+1))
	return err == nil && (string(content) == want || strings.HasPrefix(want, string(content)) && hasOnlyMark(root, name))
}

func hasOnlyMark(root *os.Root, name string) bool {
	dir, err := root.Open(name)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2)
	return err == nil && len(names) == 1
}

// mayBeStage reports whether newStage may have chosen a name.
func mayBeStage(name string) bool {
	suffix, ok := strings.CutPrefix(name, stagePrefix)
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	return ok && len(suffix) >= minStageSuffix && len(suffix) <= maxStageSuffix && strings.IndexFunc(suffix, other) < 0
}

// MakeStage makes a temporary directory below root that [RemoveStages] removes
// once this process has ended. name is that of an empty directory in it, which no other
// user can read. release
// removes it with what it has.
func MakeStage(root *os.Root) (name string, release func() error, err error) {
	stage, lock, err := newStage(root, 0o700)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(stage, stageTree), func() error {
		// The mark goes last, so that what a kill leaves is known for what it is.
		err := Remove(root, filepath.Join(stage, stageTree))
		return errors.Join(err, Remove(root, stage), closeLock(lock))
	}, nil
}
