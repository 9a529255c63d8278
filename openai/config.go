package openai

import (
	"github.com/x/pygent/internal/bridge"
	wire "github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/settings"
)

func init() {
	bridge.OpenAISettings = func(c any) []settings.Setting { return c.(*Config).settings() }
}

func (c *Config) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "openai.api_key", Also: []string{"openai_api_key"}, Env: "OPENAI_API_KEY", Secret: true, Value: settings.Secret(&c.APIKey)},
		{Key: "openai.base_url", Also: []string{"openai_base_url"}, Env: "OPENAI_BASE_URL", Secret: true, Show: wire.RedactURL, Value: settings.URL(&c.BaseURL, `such as "https://api.openai.com/v1", without user or password (the key goes into api_key)`)},
		{Key: "openai.api", Env: "PYGENT_OPENAI_API", Value: settings.Choice(&c.API, `"auto", "chat" or "responses"`, Auto, Chat, Responses)},
		{Key: "openai.organization", Env: "OPENAI_ORG_ID", Value: settings.Word(&c.Organization)},
		{Key: "openai.project", Env: "OPENAI_PROJECT_ID", Value: settings.Word(&c.Project)},
		{Key: "openai.headers", Env: "PYGENT_OPENAI_HEADERS", Secret: true, Value: settings.Headers(&c.Headers)},
		{Key: "openai.extra_body", Env: "PYGENT_OPENAI_EXTRA_BODY", Secret: true, Value: settings.Object(&c.ExtraBody)},
		{Key: "openai.ca_file", Env: "PYGENT_OPENAI_CA_FILE", Value: settings.Path(&c.CAFile)},
		{Key: "openai.max_tokens", Env: "PYGENT_OPENAI_MAX_TOKENS", Value: settings.OrNone(settings.Int(&c.MaxTokens), settings.NoLimit)},
		{Key: "openai.max_tokens_field", Env: "PYGENT_OPENAI_MAX_TOKENS_FIELD", Value: settings.Word(&c.MaxTokensField)},
		{Key: "openai.parallel_tool_calls", Env: "PYGENT_OPENAI_PARALLEL_TOOL_CALLS", Value: settings.Bool(&c.ParallelToolCalls)},
		{Key: "openai.stall_first", Env: "PYGENT_OPENAI_STALL_FIRST", Value: settings.OrNone(settings.Duration(&c.StallFirst), settings.NoLimit)},
		{Key: "openai.stall_between", Env: "PYGENT_OPENAI_STALL_BETWEEN", Value: settings.OrNone(settings.Duration(&c.StallBetween), settings.NoLimit)},
		{Key: "openai.answer_time", Env: "PYGENT_OPENAI_ANSWER_TIME", Value: settings.OrNone(settings.Duration(&c.AnswerTime), settings.NoLimit)},
		{Key: "openai.send_reasoning", Env: "PYGENT_OPENAI_SEND_REASONING", Value: settings.Bool(&c.SendReasoning)},
	}
}

// ConfigError is one fault of a configuration.
type ConfigError struct {
	Source string // the file's path, "environment" or "-e"
	Line   int    // in the file, from 1; 0 when there is none
	Column int    // in bytes, from 1
	Key    string // the key or variable; empty when the fault concerns none
	Err    error  // what is wrong
}

// Error has the form of a compiler's message: file, line, column, what is
// wrong.
func (e *ConfigError) Error() string { return (*settings.Fault)(e).Error() }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }
