package strict

import (
	"net/http"
	"regexp"
)

var (
	// responsesOnly matches models that chat completions do not have
	// (arbs-io/vscode-openai#358). For those that notChat matches, OpenAI's
	// message differs (egoist/chatwise-releases#1256).
	responsesOnly = regexp.MustCompile(`codex|^o\d+-pro|^gpt-5[.\d]*-pro|deep-research`)
	notChat       = regexp.MustCompile(`^gpt-5\.3-codex`)
	// reasoningModels matches models that accept neither max_tokens
	// (tailcallhq/forgecode#1081) nor a temperature (johny-b/llmcomp#69).
	reasoningModels = regexp.MustCompile(`^(o\d|gpt-5)`)
	// noneOnly matches models that accept function tools in chat completions only
	// without reasoning. alwaysReasoning matches those of them that reason by
	// default (openai/openai-openapi#541, pipecat-ai/pipecat#4043,
	// BerriAI/litellm#34569).
	noneOnly        = regexp.MustCompile(`^gpt-5\.[456]`)
	alwaysReasoning = regexp.MustCompile(`^gpt-5\.6`)
)

// chatModel checks the rules of chat completions that depend on the model.
func (r Request) chatModel() *Refusal {
	model := text(r.fields["model"])
	if responsesOnly.MatchString(model) {
		found := refuse("model", "", "This model is only supported in v1/responses and not in v1/chat/completions.")
		if notChat.MatchString(model) {
			found.Message = "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?"
		}
		found.Status = http.StatusNotFound
		return found
	}
	if reasoningModels.MatchString(model) {
		if found := r.fixedParameters(); found != nil {
			return found
		}
	}
	if noneOnly.MatchString(model) {
		return r.effort(model)
	}
	return nil
}

// fixedParameters refuses parameters that a reasoning model does not accept.
func (r Request) fixedParameters() *Refusal {
	if has(r.fields, "max_tokens") {
		return refuse("max_tokens", "unsupported_parameter",
			"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	}
	if t := r.fields["temperature"]; t != nil && t != 1.0 {
		return refuse("temperature", "unsupported_value",
			"Unsupported value: 'temperature' does not support %v with this model. Only the default (1) value is supported.", t)
	}
	return nil
}

// effort checks the reasoning effort of a model that does not reason in a
// request with tools.
func (r Request) effort(model string) *Refusal {
	effort, given := r.fields["reasoning_effort"]
	if effort == "minimal" {
		return refuse("reasoning_effort", "unsupported_value",
			"Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.")
	}
	if has(r.fields, "tools") && effort != "none" && (given || alwaysReasoning.MatchString(model)) {
		return refuse("reasoning_effort", "",
			"Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.", model)
	}
	return nil
}

// responsesModel checks the rules of the Responses API that depend on the model.
func (r Request) responsesModel() *Refusal {
	model := text(r.fields["model"])
	if noneOnly.MatchString(model) && obj(r.fields["reasoning"])["effort"] == "minimal" {
		return refuse("reasoning.effort", "unsupported_value",
			"Unsupported value: 'minimal' is not supported with the '%s' model. Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.", model)
	}
	return nil
}
