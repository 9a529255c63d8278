//go:build !unix

package workspace

// Owner returns false: files have no such owners here.
func (t *Tree) Owner() (uid, gid int, ok bool) { return 0, 0, false }
