// Command delegate_config reads pygent.toml in this directory, which names a file
// to work on and a persona that writes tests. A background agent with this
// persona writes tests for the file. The model is scripted, so no key is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func main() {
	path := flag.String("config", "examples/delegate_config/pygent.toml", "the configuration file")
	flag.Parse()
	if err := run(context.Background(), *path); err != nil {
		log.Fatal(err)
	}
}

const tests = `test "$(sh sum.sh)" = 0 && test "$(sh sum.sh 1 2 3)" = 6 && echo "all tests pass"
`

func run(ctx context.Context, path string) error {
	cfg, err := pygent.LoadConfig(path)
	if err != nil {
		return err
	}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("write_file", map[string]any{"path": "sum_test.sh", "content": tests}),
		pygenttest.Call("bash", map[string]any{"cmd": "sh sum_test.sh"}),
		pygenttest.Call("stop", map[string]any{"summary": "I wrote two tests, and both pass."}))
	agent, err := pygent.New(append(cfg.Options(), pygent.WithModel(model))...)
	if err != nil {
		return err
	}
	defer agent.Close()

	tasks := agent.Tasks()
	id, err := tasks.StartTask(ctx, "Write tests for sum.sh in sum_test.sh, and run them.", agent.Runtime(), pygent.WithTaskFiles("sum.sh"))
	if err != nil {
		return err
	}
	status, err := tasks.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s. %s\n", status.Persona.Name, status, status.Summary())
	if _, err := tasks.CollectFile(ctx, agent.Runtime(), id, "sum_test.sh", ""); err != nil {
		return err
	}
	result, err := agent.Runtime().Bash(ctx, "sh sum_test.sh")
	fmt.Print(result.Output)
	return err
}
