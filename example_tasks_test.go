package pygent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func ExampleTaskManager() {
	ctx := context.Background()
	model := pygenttest.NewScriptedModel( // or any other Model
		pygenttest.Call("bash", map[string]any{"cmd": "sort names > sorted"}),
		pygenttest.Call("stop", map[string]any{"summary": "sorted holds the names in order"}),
	)
	rt, err := pygent.NewLocalRuntime(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Cleanup()
	tasks, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(model)))
	if err != nil {
		log.Fatal(err)
	}
	defer tasks.Close()

	if err := rt.WriteFile(ctx, "names", []byte("Grace\nAda\n")); err != nil {
		log.Fatal(err)
	}
	id, err := tasks.StartTask(ctx, "Sort the names.", rt, pygent.WithTaskFiles("names"))
	if err != nil {
		log.Fatal(err)
	}
	status, err := tasks.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status, "-", status.Summary())
	if _, err := tasks.CollectFile(ctx, rt, id, "sorted", ""); err != nil {
		log.Fatal(err)
	}
	sorted, err := rt.ReadFile(ctx, "sorted")
	fmt.Printf("%s%v\n", sorted, err)
	// Output:
	// finished - sorted holds the names in order
	// Ada
	// Grace
	// <nil>
}
