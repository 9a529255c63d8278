package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/cmd/internal/localserver"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/screen"
	config "github.com/x/pygent/internal/settings"
	"github.com/x/pygent/openai"
	face "github.com/x/pygent/terminal"
)

// firstModel is a model that a person chooses where none is configured.
type firstModel struct {
	name, baseURL string
	key           string // empty for none
}

// hasNoModel reports whether nothing says which model to use.
func hasNoModel(cfg pygent.Config) bool {
	return cfg.Model == "" && cfg.OpenAI.APIKey == "" && cfg.OpenAI.BaseURL == ""
}

// offerModel has the person at a terminal choose a model for this session, and perhaps for
// later ones: of a server on this machine, or of one whose key they type. If nobody is at a
// terminal, or nothing is chosen, it changes nothing.
func offerModel(ctx context.Context, cfg *pygent.Config) error {
	if !seen() || os.Getenv("TERM") == "dumb" {
		return nil
	}
	m, chosen, err := chooseModel(ctx, localserver.Find(ctx, localserver.Usual()))
	if err != nil || !chosen {
		return err
	}
	cfg.Model, cfg.OpenAI.BaseURL, cfg.OpenAI.APIKey = m.name, m.baseURL, pygent.Secret(m.key)
	m.offerToSave(ctx)
	return nil
}

// chooseModel has the person choose one of the models of servers, or another server.
func chooseModel(ctx context.Context, servers []localserver.Server) (m firstModel, chosen bool, err error) {
	var models []firstModel
	var rows []string
	for _, s := range servers {
		for _, name := range s.Models {
			models = append(models, firstModel{name: name, baseURL: s.BaseURL})
			rows = append(rows, fmt.Sprintf("%s  (%s, %s)", name, s.Name, s.BaseURL))
		}
	}
	first := len(rows)
	rows = append(rows, "OpenAI, with your key", "OpenRouter, with your key", "Another server")
	at, err := face.Choose(ctx, os.Stdin, screen.Stdout(), "No model is configured. Which one do you want to use?", rows)
	switch {
	case errors.Is(err, face.ErrNoTerminal) || errors.Is(err, face.ErrNotChosen):
		return m, false, nil
	case err != nil:
		return m, false, err
	case at < first:
		return models[at], true, nil
	}
	switch at - first {
	case 0:
		m, chosen = firstModel{name: openai.DefaultName, baseURL: "https://api.openai.com/v1"}.ask(ctx, true)
	case 1:
		m, chosen = firstModel{name: "openai/gpt-4.1-mini", baseURL: "https://openrouter.ai/api/v1"}.ask(ctx, true)
	default:
		address, ok := answerTo(ctx, console.Question{Prompt: "Base URL of the server, such as http://192.168.1.5:8000/v1: ", Pasted: true})
		if address = strings.TrimSpace(address); ok && address != "" {
			m, chosen = firstModel{name: openai.DefaultName, baseURL: address}.ask(ctx, false)
		}
	}
	return m, chosen, nil
}

// ask asks for the key, which is not shown, and for the name of the model, whose default
// is the name that the model has.
func (m firstModel) ask(ctx context.Context, needsKey bool) (_ firstModel, ok bool) {
	prompt := "API key (not shown): "
	if !needsKey {
		prompt = "API key (not shown; Enter for none): "
	}
	key, ok := answerTo(ctx, console.Question{Prompt: prompt, Hidden: true, Pasted: true})
	if m.key = strings.TrimSpace(key); !ok || needsKey && m.key == "" {
		return m, false
	}
	name, ok := answerTo(ctx, console.Question{Prompt: fmt.Sprintf("Model (Enter for %s): ", m.name), Pasted: true})
	if name = strings.TrimSpace(name); name != "" {
		m.name = name
	}
	return m, ok
}

// offerToSave asks whether the model is for later sessions, too, and then writes the user's
// configuration. A file that exists is not changed: the person reads what to add to it.
func (m firstModel) offerToSave(ctx context.Context) {
	home, err := os.UserHomeDir()
	if err != nil {
		return
	}
	path := filepath.Join(home, config.HomeFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		note("to use this model in later sessions, set model, openai.base_url and openai.api_key in %s", short(path))
		return
	}
	answer, ok := ask(ctx, fmt.Sprintf("Save this in %s for later sessions? Only you can read the file. [y/N] ", short(path)))
	if !ok || !isYes(answer) {
		return
	}
	if err := config.Create(path, []byte(m.settings())); err != nil {
		warn(fmt.Sprintf("not saved: %v", err))
		return
	}
	note("saved in %s", short(path))
}

// settings is the model as a configuration. A string of JSON is one of TOML, too.
func (m firstModel) settings() string {
	quoted := func(text string) string {
		data, _ := json.Marshal(text) // a string has no error
		return string(data)
	}
	text := fmt.Sprintf("model = %s\n\n[openai]\nbase_url = %s\n", quoted(m.name), quoted(m.baseURL))
	if m.key != "" {
		text += "api_key = " + quoted(m.key) + "\n"
	}
	return text
}
