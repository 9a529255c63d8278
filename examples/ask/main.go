// Command ask has a tool that asks the user in the middle of its call. Here the
// program answers; in a session, the user does so at the prompt. A scripted model
// calls the tool, so no key is needed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

type releaseInput struct {
	Version string `json:"version"`
}

// form asks for two values. An editor or a page can show it as a form.
const form = `{"type":"object","properties":{
	"channel":{"type":"string","enum":["beta","stable"]},
	"announce":{"type":"boolean"}},"required":["channel"]}`

func release(ctx context.Context, _ pygent.Runtime, in releaseInput) (string, error) {
	answer, err := pygent.Ask(ctx, pygent.Question{
		Prompt: "Where shall " + in.Version + " go?",
		Schema: json.RawMessage(form),
	})
	if err != nil {
		return "", err // pygent.ErrNobodyToAsk, for example
	}
	if answer.Declined {
		return "the user does not want a release", nil
	}
	var chosen struct {
		Channel  string
		Announce bool
	}
	if err := json.Unmarshal(answer.Values, &chosen); err != nil {
		return "", err
	}
	return fmt.Sprintf("released %s as %s, announced: %t", in.Version, chosen.Channel, chosen.Announce), nil
}

func answer(_ context.Context, r pygent.AskRequest) (pygent.Answer, error) {
	fmt.Printf("%s asks: %s\n", r.From.Call.Name, r.Question.Prompt)
	return pygent.Answer{Values: json.RawMessage(`{"channel":"beta"}`)}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(pygenttest.Call("release", map[string]any{"version": "1.0"}), pygenttest.Call("stop", nil))
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithAsk(answer),
		pygent.WithTools(pygent.NewTool("release", "Release a version", release)))
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "Release 1.0."); err != nil {
		return err
	}
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			fmt.Println(m.Text())
		}
	}
	return nil
}
