// Package hush keeps the interpreter of scripts from writing to the log of the process when
// a program starts that has it: where the address space is limited (RLIMIT_AS), it says
// that it got none of 4 GiB, whether there is a script or not.
//
// Packages are initialized in the order of their paths, as far as their imports allow, and
// this one imports nothing of the interpreter's: so it comes before. [End] ends it, before
// the program's own code.
package hush

import (
	"bytes"
	"io"
	"log"
)

// told begins what is left out.
var told = []byte("Starlark failed to allocate")

// filter leaves out what the interpreter says, and passes on all else.
type filter struct{ io.Writer }

// Write implements io.Writer. The log writes each entry at once.
func (f filter) Write(p []byte) (int, error) {
	if bytes.Contains(p, told) {
		return len(p), nil
	}
	return f.Writer.Write(p)
}

func init() { log.SetOutput(filter{log.Writer()}) }

// End has the log be as it was, unless somebody has changed it since.
func End() {
	if f, ours := log.Writer().(filter); ours {
		log.SetOutput(f.Writer)
	}
}
