package tree

import (
	"errors"
	"math/rand/v2"
	"os"
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

// newStage makes a temporary directory below root for a tree that is not
// complete yet. The directory is locked, so that other processes see that it is
// in use.
func newStage(root *os.Root) (name string, lock *os.File, err error) {
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
	if err != nil {
		return "", nil, errors.Join(err, root.Remove(name))
	}
	return name, lock, nil
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
// complete their trees. It looks only in root itself, not below.
func RemoveStages(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	err = errors.Join(err, dir.Close())
	for _, name := range names {
		if !isStage(name) {
			continue
		}
		if lock, ok := take(root, name); ok {
			err = errors.Join(err, Remove(root, name), closeLock(lock))
		}
	}
	return err
}

// isStage reports whether newStage may have made a directory of this name.
func isStage(name string) bool {
	suffix, ok := strings.CutPrefix(name, stagePrefix)
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	return ok && len(suffix) >= minStageSuffix && len(suffix) <= maxStageSuffix && strings.IndexFunc(suffix, other) < 0
}
