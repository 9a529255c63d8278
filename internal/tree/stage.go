package tree

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// stagePrefix begins the names of trees that are not complete yet. What follows
// are two random numbers in base 36, which are hardly ever short.
const (
	stagePrefix    = ".pygent-stage-"
	minStageSuffix = 16
	maxStageSuffix = 26
)

// newStage makes a directory below root, for a tree that is not complete yet. It
// is locked, so that others see that somebody is at it.
func newStage(root *os.Root) (name string, lock *os.File, err error) {
	for {
		// The generator is seeded from the kernel's, and Mkdir refuses a name that
		// is taken: package crypto/rand would add nothing but its size.
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

// errAbandoned tells that a stage was taken for one that nobody is at.
var errAbandoned = errors.New("the tree was taken for abandoned")

func closeLock(lock *os.File) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}

// RemoveStages removes the trees in a directory that somebody began to put
// together and did not live to finish. Those below it stay.
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

// isStage reports whether a name is one that newStage gives.
func isStage(name string) bool {
	suffix, ok := strings.CutPrefix(name, stagePrefix)
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	return ok && len(suffix) >= minStageSuffix && len(suffix) <= maxStageSuffix && strings.IndexFunc(suffix, other) < 0
}
