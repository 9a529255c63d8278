// Command pygent-ui is the page in the browser: pygent ui under a name of its own.
package main

import (
	"os"

	"github.com/x/pygent/cmd/internal/cli"
)

func main() { cli.Main(append([]string{"ui"}, os.Args[1:]...)...) }
