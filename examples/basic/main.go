// Command basic gives an agent a piece of work. It needs a model: set
// OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New()
	if err != nil {
		return err
	}
	defer agent.Close()

	result, err := agent.RunUntilStop(ctx, "Write hello.py that greets the world, run it, and tell me what it printed.")
	if err != nil {
		return err
	}
	fmt.Println(result.Status)
	fmt.Println(result.Summary)
	return nil
}
