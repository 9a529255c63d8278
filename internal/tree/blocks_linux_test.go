package tree_test

import (
	"io/fs"
	"syscall"
)

// blocks returns how many bytes of the disk a file takes.
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }
