// Command config_file reads settings from pygent.toml in this directory, and
// shows what they do. Its model is scripted, so no key is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func main() {
	path := flag.String("config", "examples/config_file/pygent.toml", "the configuration file")
	flag.Parse()
	if err := run(context.Background(), *path); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	cfg, err := pygent.LoadConfig(path)
	if err != nil {
		return err
	}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "curl example.com"}),
		pygenttest.Call("stop", nil),
	)
	agent, err := pygent.New(append(cfg.Options(), pygent.WithModel(model))...)
	if err != nil {
		return err
	}
	defer agent.Close()

	fmt.Printf("%s, %s\n", agent.Persona().Name, agent.Persona().Description)
	if _, err := agent.RunUntilStop(ctx, "Fetch a page."); err != nil {
		return err
	}
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			fmt.Println(m.Text())
		}
	}
	return nil
}
