// Command template embeds an agent and runs a text template. Templates find
// methods by name at run time, so the linker keeps every exported method of
// Agent, with all that it refers to.
package main

import (
	"context"
	"fmt"
	"os"
	"text/template"

	"github.com/x/pygent"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New()
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "Say hello."); err != nil {
		return err
	}
	return template.Must(template.New("agent").Parse("{{.ID}}\n")).Execute(os.Stdout, agent)
}
