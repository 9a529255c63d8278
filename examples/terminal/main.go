// Command terminal is a session at a terminal with a model, a tool and a command of
// its own. The import of the package terminal is all that makes the session one with
// panels, completion and menus; without it, and where the input or the output is no
// terminal, it is plain text by lines. The model knows only two phrases, so no key is
// needed: try "two teas, please", "/price" and Tab.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	_ "github.com/x/pygent/terminal"
)

var prices = map[string]int{"coffee": 3, "tea": 2, "toast": 4}

// order is what the tool is called with.
type order struct {
	What string `json:"what" jsonschema:"what is ordered"`
	Many int    `json:"many" jsonschema:"how many"`
}

// bill is a tool of the model. The session shows its calls as it does those of any
// other.
func bill(_ context.Context, _ pygent.Runtime, o order) (string, error) {
	price, ok := prices[o.What]
	if !ok {
		return "", fmt.Errorf("%s is not on the menu", o.What)
	}
	return fmt.Sprintf("%d × %s: %d", o.Many, o.What, o.Many*price), nil
}

// waiter is the model.
func waiter(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == chat.RoleTool:
		return say("That makes **" + last.Text() + "**."), nil
	case strings.Contains(last.Text(), "teas"):
		return &pygent.ChatResponse{
			Message: pygent.Message{Role: chat.RoleAssistant, ToolCalls: []pygent.ToolCall{
				{ID: "call_1", Name: "bill", Arguments: `{"what":"tea","many":2}`},
			}},
			FinishReason: chat.FinishToolCalls,
		}, nil
	}
	return say("What would you like? There is tea."), nil
}

func say(text string) *pygent.ChatResponse {
	return &pygent.ChatResponse{Message: chat.AssistantMessage(text), FinishReason: chat.FinishStop}
}

// tellPrice is the command /price. The model does not hear of it.
func tellPrice(_ context.Context, _ *pygent.Agent, args string, out io.Writer) error {
	price, ok := prices[args]
	if !ok {
		return fmt.Errorf("it is none of %s", strings.Join(onMenu(), ", "))
	}
	_, err := fmt.Fprintf(out, "%s is %d\n", args, price)
	return err
}

func onMenu() []string { return slices.Sorted(maps.Keys(prices)) }

func main() {
	// A signal ends the session, and what the agent has started. Ctrl-C is a key of
	// the session as long as it has the terminal.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	agent, err := pygent.New(
		pygent.WithModel(pygent.ModelFunc(waiter)),
		pygent.WithPersona(pygent.Persona{Name: "Waiter", Description: "a waiter who is brief"}),
		pygent.WithTools(pygent.NewTool("bill", "Write the bill", bill)),
		pygent.WithCommands(pygent.Command{
			Name: "price", Usage: "WHAT", Summary: "tell what something costs",
			Run: tellPrice,
			// Complete offers words; the session picks those that begin with what is typed.
			Complete: func(context.Context, *pygent.Agent, []string) []string { return onMenu() },
		}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	// For the commands of the program pygent, such as /cp and /diff, there is
	// commands.All in github.com/x/pygent/commands; for a real model in a project, which
	// AGENTS.md describes, there is project.Read in github.com/x/pygent/project.
	return agent.RunInteractive(ctx)
}
