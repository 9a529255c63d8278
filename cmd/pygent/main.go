// Command pygent is a coding agent for the terminal.
package main

import (
	"os"

	"github.com/x/pygent/cmd/internal/cli"
)

func main() { cli.Main(os.Args[1:]...) }
