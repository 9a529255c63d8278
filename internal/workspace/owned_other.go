//go:build !unix

package workspace

import "io/fs"

// ours trusts the directory for temporary files, which is each user's own.
func ours(fs.FileInfo) bool { return true }
