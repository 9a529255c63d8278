// Command delegate_personas shows a main agent and two personas that work on
// files at the same time. The main agent writes a function, delegates its tests
// and its documentation, waits for both, and collects the files that they made.
// The model is scripted, so no key is needed.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// say is a tool call of the scripted model.
func say(tool string, args map[string]any) pygenttest.Reply { return pygenttest.Call(tool, args) }

// lead decides what the main agent does, by how many answers it has given.
func lead(req *pygent.ChatRequest) pygenttest.Reply {
	ids, answers := tasksOf(req.Messages)
	switch answers {
	case 0:
		return say("write_file", map[string]any{"path": "add.sh", "content": "echo $(($1 + $2))\n"})
	case 1:
		return pygenttest.Calls(
			say("delegate_persona_task", map[string]any{"persona": "Tester", "prompt": "Test add.sh in test.sh.", "files": []string{"add.sh"}}),
			say("delegate_persona_task", map[string]any{"persona": "Writer", "prompt": "Document add.sh in add.md.", "files": []string{"add.sh"}}))
	case 2:
		return pygenttest.Calls(
			say("task_status", map[string]any{"task_id": ids[0], "wait": 60}),
			say("task_status", map[string]any{"task_id": ids[1], "wait": 60}))
	case 3:
		return pygenttest.Calls(
			say("collect_file", map[string]any{"task_id": ids[0], "path": "test.sh"}),
			say("collect_file", map[string]any{"task_id": ids[1], "path": "add.md"}))
	case 4:
		return say("bash", map[string]any{"cmd": "sh test.sh && cat add.md"})
	}
	return say("stop", map[string]any{"summary": "add.sh is tested and documented."})
}

// tasksOf finds the ids of the tasks in a conversation, and counts the model's
// answers.
func tasksOf(messages []pygent.Message) (ids []string, answers int) {
	for _, m := range messages {
		if rest, ok := strings.CutPrefix(m.Text(), "started task "); ok {
			ids = append(ids, strings.Fields(rest)[0])
		}
		if m.Role == chat.RoleAssistant {
			answers++
		}
	}
	return ids, answers
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(pygenttest.Decide(lead)).RepeatLast().
		On("You are Tester", say("bash", map[string]any{"cmd": `echo 'test "$(sh add.sh 2 3)" = 5 && echo passed' > test.sh`}), say("stop", nil)).
		On("You are Writer", say("write_file", map[string]any{"path": "add.md", "content": "add.sh prints the sum of two numbers.\n"}), say("stop", nil))
	agent, err := pygent.New(
		pygent.WithModel(model),
		pygent.TaskPersonas(
			pygent.Persona{Name: "Tester", Description: "writes tests"},
			pygent.Persona{Name: "Writer", Description: "writes documentation"}))
	if err != nil {
		return err
	}
	defer agent.Close()

	result, err := agent.RunUntilStop(ctx, "Write add.sh, with tests and documentation.")
	if err != nil {
		return err
	}
	fmt.Println(result.Summary)
	for _, m := range agent.History().Messages() {
		if _, output, ok := strings.Cut(m.Text(), "sh test.sh && cat add.md\n"); ok {
			fmt.Print(output)
		}
	}
	tasks, err := agent.Tasks().Tasks(ctx, pygent.TaskFilter{})
	for _, t := range tasks {
		fmt.Printf("%s: %s, %d steps\n", t.Persona.Name, t, t.Steps)
	}
	return err
}
