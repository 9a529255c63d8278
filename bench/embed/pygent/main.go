// Command pygent is the smallest program that embeds an agent.
package main

import (
	"context"
	"fmt"
	"os"

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
	result, err := agent.RunUntilStop(ctx, "Say hello.")
	if err != nil {
		return err
	}
	fmt.Println(result.Summary)
	return nil
}
