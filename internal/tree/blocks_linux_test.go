package tree_test

import (
	"io/fs"
	"syscall"
)

// blocks returns the space that a file takes on the disk, in bytes.
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }
