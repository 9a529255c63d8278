//go:build !unix

package workspace

// Owner always returns false: files have no such owners on this system.
func (t *Tree) Owner() (uid, gid int, ok bool) { return 0, 0, false }
