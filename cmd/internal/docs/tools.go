package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/cmd/internal/cli"
	"github.com/x/pygent/project"
)

// toolsPage has the tools that the model is offered.
func toolsPage(string) (string, error) {
	p := newPage("Tools", "The tools that pygent offers to the model. `WithTools` and `RegisterTool` add your own; `WithDisabledTools`, `--omit-tool` and `disabled_tools` hide some. Descriptions are what the model reads.")
	err := documented(func(agent *pygent.Agent) error {
		for _, t := range agent.Tools().Tools() {
			if err := p.tool(t); err != nil {
				return err
			}
		}
		return nil
	})
	return p.String(), err
}

// tool describes a tool with its arguments.
func (p *page) tool(t pygent.Tool) error {
	p.section(2, code(t.Name))
	p.WriteString(t.Description + "\n")
	var schema struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(t.Parameters, &schema); err != nil {
		return fmt.Errorf("tool %s: %w", t.Name, err)
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		needed := "no"
		if slices.Contains(schema.Required, name) {
			needed = "yes"
		}
		rows = append(rows, []string{code(name), typeOf(property.Type), needed, property.Description})
	}
	if len(rows) > 0 {
		p.WriteString("\n")
		p.table([]string{"Argument", "Type", "Required", "Meaning"}, rows)
	}
	return nil
}

// typeOf returns the type that a schema names.
func typeOf(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, one := range t {
			names = append(names, typeOf(one))
		}
		return strings.Join(names, " or ")
	}
	return ""
}

// slashCommandsPage has the commands of a session.
func slashCommandsPage(string) (string, error) {
	p := newPage("Slash commands", "In a session, a line that begins with `/` is a command. Tab completes it, `/help` lists all commands, and `/help NAME` describes one. Programs add their own with `WithCommands`.")
	var rows [][]string
	err := documented(func(agent *pygent.Agent) error {
		for _, c := range agent.Commands() {
			rows = append(rows, []string{code(strings.TrimSpace("/" + c.Name + " " + c.Usage)), strings.TrimSpace(sentence(c.Summary) + ". " + c.Help)})
		}
		return nil
	})
	p.WriteString("\n")
	p.table([]string{"Command", "What it does"}, rows)
	return p.String(), err
}

// documented calls fn with an agent that has what the command's has, in a workspace with a
// skill, for which there is a tool.
func documented(fn func(*pygent.Agent) error) error {
	dir, err := os.MkdirTemp("", "pygent-docs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	skill := filepath.Join(dir, ".agents", "skills", "example")
	if err := os.MkdirAll(skill, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("---\nname: example\ndescription: an example\n---\n"), 0o600); err != nil {
		return err
	}
	none := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return nil, errors.ErrUnsupported
	})
	agent, err := pygent.New(pygent.WithModel(none), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(dir), pygent.WithCommands(cli.SlashCommands()...), project.Read())
	if err != nil {
		return err
	}
	return errors.Join(fn(agent), agent.Close())
}
