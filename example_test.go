// These examples need more than one part of the API; they are in the documentation of the
// package.

package pygent_test

import (
	"context"
	"fmt"
	"log"
	"strings"

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

// A tool of a delegated task asks. No user is there, so the question comes to the
// model that delegated the task, which answers it with the tool send_task.
func ExampleAsk_task() {
	ctx := context.Background()
	release := pygent.NewTool("release", "Release the program", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		answer, err := pygent.Ask(ctx, pygent.Question{Prompt: "Which channel?", Options: []string{"beta", "stable"}})
		if err != nil {
			return "", err // pygent.ErrNobodyToAsk, for example
		}
		return "released as " + answer.Text, nil
	})
	model := pygenttest.NewScriptedModel( // or any other Model
		pygenttest.Call("delegate_task", map[string]any{"prompt": "Release it."}),
		pygenttest.Call("task_status", map[string]any{"wait": 60}),
		pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			status := req.Messages[len(req.Messages)-1].Text()
			id, _, _ := strings.Cut(status, ":")
			fmt.Println(status[strings.Index(status, "Which"):])
			return pygenttest.Call("send_task", map[string]any{"task_id": id, "message": "1"})
		}),
		pygenttest.Call("task_status", map[string]any{"wait": 60}),
		pygenttest.Call("stop", nil),
	).On("Release it.",
		pygenttest.Call("release", nil),
		pygenttest.Call("stop", map[string]any{"summary": "It is out."}))

	rt, err := pygent.NewLocalRuntime(ctx)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), pygent.WithTools(release),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone && e.Call.Name == "release" {
				fmt.Println(e.Output.Content)
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "Have it released."); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Which channel?
	//     1. beta
	//     2. stable
	//   (answer with send_task)
	// released as beta
}

// The program decides about hosts instead of a user: it allows the hosts of the
// company, and no others.
func ExampleWithHostApproval() {
	decide := func(_ context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
		for _, host := range r.Hosts {
			if !strings.HasSuffix(host, ".corp.example") {
				return pygent.HostDecision{Reason: "only hosts of corp.example are allowed"}, nil
			}
		}
		return pygent.HostDecision{Allow: true, Session: true}, nil
	}
	agent, err := pygent.New(pygent.WithAllowedHosts("pypi.org", "files.pythonhosted.org"),
		pygent.WithHostApproval(decide))
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
}
