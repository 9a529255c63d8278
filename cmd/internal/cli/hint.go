package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

// howToSetAModel are the ways to a model.
const howToSetAModel = `set one of these:
  OpenAI      OPENAI_API_KEY=sk-...
  OpenRouter  OPENAI_API_KEY=sk-or-... OPENAI_BASE_URL=https://openrouter.ai/api/v1 PYGENT_MODEL=openai/gpt-4.1-mini
  Ollama      OPENAI_BASE_URL=http://localhost:11434/v1 PYGENT_MODEL=qwen3
  llama.cpp   OPENAI_BASE_URL=http://localhost:8080/v1
To see a session without any model, run "pygent demo".`

// withHint adds what the user of the command can do about an error. What it says of a
// model takes the place of the library's advice, which is the same in short.
func withHint(err error) error {
	if errors.Is(err, pygent.ErrNoModel) {
		return fmt.Errorf("%w; %s", pygent.ErrNoModel, howToSetAModel)
	}
	if h := hint(err); h != "" {
		return fmt.Errorf("%w; %s", err, h)
	}
	return err
}

// hint says what the user of the command can do about an error of the library,
// or "". The library's errors do not know the flags.
func hint(err error) string {
	switch {
	case errors.Is(err, sessions.ErrInUse):
		return "leave it there, or go on with another one: pygent sessions list --all"
	case errors.Is(err, pygent.ErrDockerUnavailable):
		return "--no-docker runs commands on this machine"
	case errors.Is(err, pygent.ErrRuntimeStart) && strings.Contains(err.Error(), "pull image"):
		return "--image chooses another image, and --no-docker runs commands on this machine"
	}
	return ""
}
