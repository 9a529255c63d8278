//go:build !unix

package treedir

import (
	"io/fs"
	"os"
)

// nonblock has no meaning here.
const nonblock = 0

func keepOwner(*os.Root, string, fs.FileInfo) {}
