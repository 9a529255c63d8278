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
To see a session without a model, run "pygent demo".`

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
	var end *endError
	switch {
	case errors.As(err, &end):
		return end.hint()
	case errors.Is(err, sessions.ErrInUse):
		return "close it there, or continue another one: pygent sessions list --all"
	case errors.Is(err, pygent.ErrDockerUnavailable):
		return "use --no-docker to run commands on this machine"
	case errors.Is(err, pygent.ErrRuntimeStart) && strings.Contains(err.Error(), "pull image"):
		return "choose another image with --image, or run commands on this machine with --no-docker"
	}
	return ""
}

// endError says how a run ended that reached a limit, or made no progress.
type endError struct {
	reason string // in the words of the library
	onward string // the command that goes on, without the flag of the limit; empty for none
}

// Error is the reason.
func (e *endError) Error() string { return e.reason }

// raised says for each limit of the library by which flag a person sets it. Its name ends the
// reason of a run that reached it.
var raised = map[string]string{
	"(MaxSteps)":     "--max-steps N",
	"(MaxToolCalls)": "-e PYGENT_MAX_TOOL_CALLS=N",
	"(MaxTokens)":    "-e PYGENT_MAX_TOKENS=N",
	"(MaxCost)":      "--max-cost AMOUNT",
	"(MaxTime)":      "--timeout TIME",
	"(StepTimeout)":  "-e PYGENT_STEP_TIMEOUT=TIME",
}

// hint says how a run goes on that has reached a limit, and how to set the limit.
func (e *endError) hint() string {
	for name, flag := range raised {
		switch {
		case !strings.HasSuffix(e.reason, name):
		case e.onward == "":
			return flag + " sets another limit"
		default:
			return fmt.Sprintf("to continue: %s %s", e.onward, flag)
		}
	}
	return ""
}
