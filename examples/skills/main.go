// Command skills gives an agent a skill: a folder with instructions and a script, in
// the open Agent Skills format. A model reads it when a task fits its description.
// This one is scripted.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

//go:embed skills
var files embed.FS

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// Skills are folders of this machine. A program that brings its own writes them
	// somewhere first; one for a user names the user's, such as ~/.agents/skills.
	dir, err := os.MkdirTemp("", "skills")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}

	model := pygenttest.NewScriptedModel(
		pygenttest.Call("read_skill", map[string]any{"name": "greeting"}),
		pygenttest.Call("bash", map[string]any{"cmd": "sh .pygent/user-skills/greeting/scripts/greet.sh Ada"}),
		pygenttest.Call("stop", map[string]any{"summary": "Ada is greeted."}),
	)
	agent, err := pygent.New(
		pygent.WithModel(model),
		project.Read(project.Skills(filepath.Join(dir, "skills"))),
		pygent.WithDocker(pygent.DockerNever),
	)
	if err != nil {
		return err
	}
	defer agent.Close()
	result, err := agent.RunUntilStop(ctx, "Greet Ada.")
	if err != nil {
		return err
	}

	system := agent.History().Messages()[0].Content
	_, told, _ := strings.Cut(system, "# Skills\n")
	fmt.Println(strings.Split(told, "\n")[1])
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool && strings.Contains(m.Content, "Hello") {
			fmt.Println(strings.Split(m.Content, "\n")[1])
		}
	}
	fmt.Println(result.Summary)
	return nil
}
