//go:build !linux

package tree_test

import "io/fs"

func blocks(fs.FileInfo) int64 { return 0 }
