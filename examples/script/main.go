// Command script sets an agent up by three start-up scripts: a tool, commands, and a
// team of personas. The model is scripted, so no key is needed. The command pygent
// runs such scripts by itself: pygent --script team.star.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/script"
)

//go:embed *.star lib/*.star
var scripts embed.FS

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "script")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, scripts); err != nil {
		return err
	}
	agent, err := newAgent(ctx, dir)
	if err != nil {
		return err
	}
	defer agent.Close()
	if err := agent.Runtime().WriteFile(ctx, "todo.txt", []byte("one\ntwo\n")); err != nil {
		return err
	}
	for _, line := range []string{"/todo", "/review main.py"} {
		result, err := agent.RunCommand(ctx, line, nil)
		if err != nil {
			return err
		}
		fmt.Print(result.Output)
		if result.Message != nil {
			if _, err := agent.RunUntilStop(ctx, result.Message.Text()); err != nil {
				return err
			}
		}
	}
	return nil
}

// newAgent makes an agent of the scripts in a directory.
func newAgent(ctx context.Context, dir string) (*pygent.Agent, error) {
	var opts []pygent.Option
	var settings []pygent.ConfigTable
	var team []pygent.Persona
	for _, name := range []string{"tool.star", "command.star", "team.star"} {
		s, err := script.Load(ctx, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		opts = append(opts, s.Options()...)
		settings = append(settings, s.Settings())
		team = append(team, s.Personas()...)
	}
	cfg, err := pygent.ConfigSources{NoFiles: true, Tables: settings}.Load()
	if err != nil {
		return nil, err
	}
	fmt.Println(cfg.Persona.Name+"'s limits:", cfg.Limits.MaxSteps, "steps,", cfg.MaxTasks, "tasks")
	cfg.TaskPersonas = team
	model := pygenttest.NewScriptedModel(
		pygenttest.Calls(
			pygenttest.Call("lint", map[string]any{"paths": []string{"main.py"}, "fix": true}),
			pygenttest.Call("bash", map[string]any{"cmd": "pylint main.py"}),
			pygenttest.Call("list_personas", nil)),
		pygenttest.Call("stop", map[string]any{"summary": "It is fine."}))
	return pygent.New(append(append(cfg.Options(), opts...), pygent.WithModel(model), pygent.WithDocker(pygent.DockerNever), pygent.OnEvent(func(e pygent.Event) {
		switch {
		case e.Type == pygent.EventUser:
			fmt.Println("to the model:", e.Text)
		case e.Type == pygent.EventToolDone && e.Call.Name != "stop":
			fmt.Println(e.Call.Name+":", e.Output.Content)
		}
	}))...)
}
