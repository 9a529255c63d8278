//go:build !linux

// Command guest runs in Linux containers; elsewhere its server runs in the
// process of the host.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guest: this program runs on Linux only")
	os.Exit(1)
}
