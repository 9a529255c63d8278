//go:build !linux

// Command guest runs only in Linux containers. On other systems the guest's
// server runs inside the process of the host.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guest: this program runs on Linux only")
	os.Exit(1)
}
