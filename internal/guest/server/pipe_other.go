//go:build !unix

package server

import (
	"io"
	"os"
	"sync"
)

// pending returns 0: it is not known how many bytes wait in a pipe to be read.
func pending(*os.File) int64 { return 0 }

// take waits until something is in a pipe, and moves what fits into buf from there to
// another place. What is between the two is not known either.
func take(pipe *os.File, _ sync.Locker, buf []byte, to io.Writer) (n int, err error) {
	if n, err = pipe.Read(buf); n > 0 {
		_, _ = to.Write(buf[:n])
	}
	return n, err
}
