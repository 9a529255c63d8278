// Command commands gives an agent two commands, and runs lines as a page or an
// editor would that shows the agent. The model is scripted, so no key is needed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// count writes something for the user. The model does not hear of it.
func count(_ context.Context, a *pygent.Agent, _ string, out io.Writer) error {
	_, err := fmt.Fprintln(out, a.History().Len(), "messages")
	return err
}

// review makes a message for the model.
func review(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
	if args == "" {
		return pygent.Message{}, fmt.Errorf("name a file")
	}
	return chat.UserMessage("Read " + args + " and tell what is wrong with it."), nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New(
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("The loop never ends."))),
		pygent.WithCommands(
			pygent.Command{Name: "count", Summary: "tell how long the conversation is", Run: count},
			pygent.Command{Name: "review", Usage: "FILE", Summary: "have a file reviewed", Message: review},
		))
	if err != nil {
		return err
	}
	defer agent.Close()
	for _, line := range []string{"/help", "/review", "/review main.go", "/count", "/exit"} {
		fmt.Println(">", line)
		leave, err := act(ctx, agent, line)
		if err != nil {
			fmt.Println("error:", err)
		}
		if leave {
			break
		}
	}
	return nil
}

// act carries out what the user typed.
func act(ctx context.Context, agent *pygent.Agent, line string) (leave bool, err error) {
	if word, _, _ := strings.Cut(line, " "); strings.LastIndex(word, "/") != 0 { // a path begins a message, too
		return false, tell(ctx, agent, line)
	}
	result, err := agent.RunCommand(ctx, line, nil)
	fmt.Print(result.Output)
	if err == nil && result.Message != nil {
		err = tell(ctx, agent, result.Message.Text())
	}
	return result.Leave, err
}

func tell(ctx context.Context, agent *pygent.Agent, text string) error {
	result, err := agent.RunUntilStop(ctx, text, pygent.WithEndOnReply())
	fmt.Println(result.Summary)
	return err
}
