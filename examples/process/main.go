// A program that hears a command's output while it runs, and talks to a process
// in the workspace, as to a tool server.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
)

func main() {
	ctx := context.Background()
	rt, err := pygent.NewRuntime(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Cleanup()

	live := pygent.BashOutput(func(c pygent.OutputChunk) { fmt.Printf("at %d: %q\n", c.Offset, c.Text) })
	if _, err := rt.Bash(ctx, "echo building; sleep 0.5; echo done", live); err != nil {
		log.Print(err)
		return
	}

	starter, ok := pygent.RuntimeAs[pygent.ProcessStarter](rt)
	if !ok {
		log.Print("this runtime runs no processes")
		return
	}
	server, err := starter.StartProcess(ctx, `while read -r name; do echo "hello, $name"; done`)
	if err != nil {
		log.Print(err)
		return
	}
	defer server.Close()
	fmt.Fprintln(server, "Ada")
	line, err := bufio.NewReader(server).ReadString('\n')
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Print(line)
}
