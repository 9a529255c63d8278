// Package openai has models behind OpenAI's APIs: chat completions, as OpenAI, OpenRouter,
// Azure, Ollama, llama.cpp, vLLM and many others serve it, and the Responses API.
//
//	model, err := openai.New(openai.Key(key), openai.BaseURL("http://localhost:11434/v1"))
//	agent, err := pygent.New(pygent.WithModel(model))
//
// What no option gives, [New] reads from the environment: OPENAI_API_KEY, OPENAI_BASE_URL,
// PYGENT_MODEL and the variables of [Config].
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	wire "github.com/x/pygent/internal/openai"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/settings"
)

// DefaultName is the model of requests that name none, unless an option or the environment
// gives another.
const DefaultName = "gpt-4.1-mini"

// Errors of [New] and of a [Model] besides *chat.APIError, to be tested with errors.Is.
var (
	// ErrNoModel is returned when no model is configured: no key, no base URL.
	ErrNoModel = errors.New("no model is configured")
	// ErrAnswerTooLarge is returned for an answer of a server that is larger than models
	// write: in bytes, elements or nesting.
	ErrAnswerTooLarge = chatstream.ErrTooLarge
	// ErrRedirected is returned when a server redirects a request to another host or port,
	// or from https to http. Such a redirect is not followed, because the key would go along.
	ErrRedirected = wire.ErrRedirected
)

// howToSetAModel is the advice of the error for a model that is not configured.
const howToSetAModel = "set OPENAI_API_KEY, or OPENAI_BASE_URL for another server, such as http://localhost:11434/v1 for Ollama"

// Defaults of [Model].
const (
	defaultFirstByte     = 5 * time.Minute
	defaultBetweenChunks = 3 * time.Minute
	defaultAnswerTime    = 30 * time.Minute
)

// Model is a pygent.StreamingModel for OpenAI and every server with its chat
// completions API: OpenRouter, Ollama, llama.cpp, vLLM, Azure and others. It
// uses OpenAI's Responses API for models that need it; see [API]. Make
// one with [New]. It is safe for concurrent use, and one model may
// serve any number of agents.
//
// A call is one attempt: repeating a temporary failure is the agent's task. But when a
// server refuses the form of a request, the model asks again in another form, and
// remembers that for the model's name: by the other API, with another name of a
// parameter, other ids or another order of messages, or without something optional (an
// unsupported parameter, even one of [ExtraBody], fields of messages such as
// reasoning_content, or images). [chat.Delta.Notice] reports each such change.
type Model struct {
	client *wire.Client
}

// Protocol is one of OpenAI's APIs; see [API].
type Protocol string

// The APIs that a [Model] speaks.
const (
	Auto      Protocol = "auto"
	Chat      Protocol = "chat"
	Responses Protocol = "responses"
)

// Option configures a model of [New], or by pygent.WithOpenAI the model that an agent makes. Of
// two that set the same thing the later one counts, and nil ones are ignored. For every limit
// zero means the default, and pygent.NoLimit, which is -1, means none.
type Option func(*options)

type options struct {
	wire.Config
	lookup func(name string) (value string, ok bool)
}

// Key sets the API key, which is sent as a bearer token. An empty one
// changes nothing. Default: OPENAI_API_KEY of the environment. Credentials of
// [Header] go before it: with a header api-key or x-api-key no bearer
// token is sent at all. Servers that need no key need no option.
func Key(key string) Option {
	return func(o *options) { o.Key = cmp.Or(pasted.Trim(key), o.Key) }
}

// BaseURL sets where the API is, up to what precedes "/chat/completions",
// which may be there too. An empty one changes nothing. Default: OPENAI_BASE_URL of the environment,
// then OpenAI itself. A query is sent with every request, as Azure wants it:
//
//	BaseURL("https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=2024-10-21"),
//	Header("api-key", key),
func BaseURL(url string) Option {
	return func(o *options) { o.BaseURL = cmp.Or(pasted.Trim(url), o.BaseURL) }
}

// DefaultModel names the model of requests that name none. An empty one
// changes nothing. Default: PYGENT_MODEL of the environment, then gpt-4.1-mini.
func DefaultModel(name string) Option {
	return func(o *options) { o.Model = cmp.Or(pasted.Trim(name), o.Model) }
}

// API sets the API to use. The default Auto means chat completions,
// which every server has, and the Responses API for a model that refuses tools
// in chat completions or is not served there at all.
//
// In the Responses API nothing is stored on the server. The model's reasoning is sent
// back to it in encrypted form, and kept in the field "openai_response" of its messages.
// Give parameters as for chat completions; they are translated (reasoning_effort,
// verbosity, response_format, max_tokens). Those that it does not have are errors.
func API(api Protocol) Option {
	return func(o *options) { o.Protocol = wire.Protocol(api) }
}

// ExtraBody adds top-level fields to every request, such as temperature
// or reasoning_effort. They override the fields that this package sets. The
// fields model, messages, input, tools and stream are not allowed.
func ExtraBody(fields map[string]any) Option {
	return func(o *options) { o.Extra = fields }
}

// Header adds a header to every request. It may be given more than once.
func Header(name, value string) Option {
	return func(o *options) { o.Headers = append(o.Headers, wire.Header{Name: name, Value: value}) }
}

// CAFile trusts the certificates of a PEM file besides the system's. It
// cannot be combined with [HTTPClient].
func CAFile(path string) Option {
	return func(o *options) { o.CAFile = path }
}

// MaxTokens limits the tokens of one answer. Zero, the default, leaves
// that to the server.
func MaxTokens(n int) Option {
	return func(o *options) { o.MaxTokens = n }
}

// MaxTokensField names the field of chat completions in which
// [MaxTokens] is sent. The default is max_completion_tokens for OpenAI
// and Azure, and max_tokens for all others, since some of them ignore the other
// name. A server that refuses one name gets the other.
func MaxTokensField(name string) Option {
	return func(o *options) { o.MaxTokensField = name }
}

// ParallelToolCalls allows or forbids several tool calls in one answer.
// By default the server decides.
func ParallelToolCalls(allow bool) Option {
	return func(o *options) { o.Parallel = &allow }
}

// StallTimeouts sets how long to wait for the first data of an answer (default 5
// minutes) and between two pieces of it (default 3 minutes). Data means text, reasoning
// or a tool call; comments and empty chunks, with which servers keep a connection open,
// do not count. An answer that is not streamed comes only when it is complete, so the
// first limit holds for all of it. In the Responses API an answer begins before the model
// thinks, so the first limit holds for each silence in it.
func StallTimeouts(first, between time.Duration) Option {
	return func(o *options) { o.FirstByte, o.BetweenChunks = first, between }
}

// AnswerTime limits the time of one answer from the request to its end,
// against servers that never stop sending. The default is 30 minutes. An answer
// that takes longer fails, and the call is not repeated.
func AnswerTime(limit time.Duration) Option {
	return func(o *options) { o.AnswerTime = limit }
}

// SendReasoning says whether the reasoning of earlier answers is sent back to the
// server: reasoning_content and similar fields, and thoughts between tags such as <think>
// to the model that wrote them. The default is true: without it some models answer worse,
// or not at all.
func SendReasoning(send bool) Option {
	return func(o *options) { o.SendReasoning = send }
}

// HTTPClient sets the client that requests go through. Its Timeout, if
// any, limits whole answers.
func HTTPClient(c *http.Client) Option {
	return func(o *options) { o.HTTP = c }
}

// Env sets the function that looks up, by the names of their variables,
// the settings which no option gives. The default is os.LookupEnv; nil disables
// the lookup.
func Env(lookup func(name string) (value string, ok bool)) Option {
	return func(o *options) { o.lookup = lookup }
}

// Config is how to reach a model through OpenAI's APIs, at OpenAI or at
// any server that speaks them.
type Config struct {
	API               Protocol          `json:"api,omitempty"` // default [Auto]
	APIKey            Secret            `json:"api_key,omitempty"`
	BaseURL           string            `json:"base_url,omitempty"` // default https://api.openai.com/v1
	Organization      string            `json:"organization,omitempty"`
	Project           string            `json:"project,omitempty"`
	Headers           map[string]Secret `json:"headers,omitempty"`                           // added to each request
	ExtraBody         map[string]any    `json:"extra_body,omitempty"`                        // fields added to each request; no place for secrets
	CAFile            string            `json:"ca_file,omitempty"`                           // PEM certificates to trust besides the system's
	MaxTokens         int               `json:"max_tokens,omitempty"`                        // of one answer; default the server's
	MaxTokensField    string            `json:"max_tokens_field,omitempty"`                  // what the server calls that limit
	ParallelToolCalls *bool             `json:"parallel_tool_calls,omitempty"`               // default the server's
	StallFirst        time.Duration     `json:"-" seconds:"stall_first_seconds,omitempty"`   // longest wait for the first byte; default 5m
	StallBetween      time.Duration     `json:"-" seconds:"stall_between_seconds,omitempty"` // longest wait between chunks; default 3m
	AnswerTime        time.Duration     `json:"-" seconds:"answer_time_seconds,omitempty"`   // longest time of one answer; default 30m
	SendReasoning     *bool             `json:"send_reasoning,omitempty"`                    // whether reasoning goes back to the model; default true
}

// MarshalJSON encodes the configuration without its secrets, and its times in seconds.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config // has no methods, and so no recursion
	c.BaseURL = wire.RedactURL(c.BaseURL)
	return jsonobj.MarshalSeconds(plain(c))
}

// UnmarshalJSON is the inverse of MarshalJSON, but for what that leaves out.
func (c *Config) UnmarshalJSON(data []byte) error {
	type plain Config
	return jsonobj.UnmarshalSeconds(data, (*plain)(c))
}

// String is the configuration as JSON, without its secrets.
func (c Config) String() string {
	data, err := c.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("configuration: %v", err)
	}
	return string(data)
}

// GoString is the same as String.
func (c Config) GoString() string { return c.String() }

// LogValue is what log/slog shows: the same as String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Options returns the options of [New] that have the configuration.
func (c Config) Options() []Option {
	var opts []Option
	opts = settings.IfGiven(opts, string(c.APIKey), Key)
	opts = settings.IfGiven(opts, c.BaseURL, BaseURL)
	opts = settings.IfGiven(opts, c.API, API)
	opts = settings.IfGiven(opts, c.CAFile, CAFile)
	opts = settings.IfGiven(opts, c.MaxTokens, MaxTokens)
	opts = settings.IfGiven(opts, c.MaxTokensField, MaxTokensField)
	opts = settings.IfSet(opts, c.ParallelToolCalls, ParallelToolCalls)
	opts = settings.IfSet(opts, c.SendReasoning, SendReasoning)
	opts = settings.IfGiven(opts, c.AnswerTime, AnswerTime)
	header := func(name string) func(string) Option {
		return func(value string) Option { return Header(name, value) }
	}
	opts = settings.IfGiven(opts, c.Organization, header("OpenAI-Organization"))
	opts = settings.IfGiven(opts, c.Project, header("OpenAI-Project"))
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		opts = append(opts, Header(name, string(c.Headers[name])))
	}
	if c.ExtraBody != nil {
		opts = append(opts, ExtraBody(c.ExtraBody))
	}
	if c.StallFirst != 0 || c.StallBetween != 0 {
		opts = append(opts, StallTimeouts(c.StallFirst, c.StallBetween))
	}
	return opts
}

// New returns a model without contacting a server. If there is
// neither a key nor a base URL, the error matches [ErrNoModel] and says how to
// set them. A faulty variable of the environment is a [*ConfigError].
func New(opts ...Option) (*Model, error) {
	o := options{Config: wire.Config{SendReasoning: true}}
	env, err := environmentOf(opts)
	if err != nil {
		return nil, err
	}
	for _, opt := range slices.Concat(env, opts) {
		if opt != nil {
			opt(&o)
		}
	}
	if err := o.limits(); err != nil {
		return nil, err
	}
	o.Model = cmp.Or(o.Model, DefaultName)
	if o.Key == "" && o.BaseURL == "" {
		return nil, fmt.Errorf("%w: there is neither an API key nor a base URL; %s", ErrNoModel, howToSetAModel)
	}
	client, err := wire.New(o.Config)
	if err != nil {
		return nil, err
	}
	return &Model{client: client}, nil
}

// limits checks the limits and fills in their defaults.
func (o *options) limits() error {
	for i, value := range []*time.Duration{&o.FirstByte, &o.BetweenChunks, &o.AnswerTime} {
		option := []string{"openai.StallTimeouts", "openai.StallTimeouts", "openai.AnswerTime"}[i]
		if err := settings.CheckLimit(option, *value); err != nil {
			return fmt.Errorf("option %w", err)
		}
		*value = max(cmp.Or(*value, []time.Duration{defaultFirstByte, defaultBetweenChunks, defaultAnswerTime}[i]), 0)
	}
	if err := settings.CheckLimit("openai.MaxTokens", o.MaxTokens); err != nil {
		return fmt.Errorf("option %w", err)
	}
	o.MaxTokens = max(o.MaxTokens, 0) // leaves it to the server
	return nil
}

// environmentOf returns what the environment says about a model with these options.
func environmentOf(opts []Option) ([]Option, error) {
	o := options{lookup: os.LookupEnv}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.lookup == nil {
		return nil, nil
	}
	var c Config
	var model string
	set := settings.New(append(c.settings(), settings.Setting{Key: "model", Env: "PYGENT_MODEL", Value: settings.Word(&model)})...)
	set.ReadVariables(settings.Sources{Lookup: o.lookup})
	var faults []error
	for _, fault := range set.Faults {
		faults = append(faults, (*ConfigError)(fault))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return settings.IfGiven(c.Options(), model, DefaultModel), nil
}

// String names the model and its server. It does not contain the key.
func (m *Model) String() string {
	return fmt.Sprintf("openai.Model(%s at %s)", m.client.Model(), m.client.BaseURL())
}

// GoString is the same as String, so that %#v does not show the key.
func (m *Model) GoString() string { return m.String() }

// LogValue is the same as String, so that logs do not show the key.
func (m *Model) LogValue() slog.Value { return slog.StringValue(m.String()) }

// DefaultModel returns the name of the model for requests that name none.
func (m *Model) DefaultModel() string { return m.client.Model() }

// LeavesCalls reports whether the server may leave the calls of a model in the text of its
// answers, for want of a parser: it is none of the services that are known to deliver
// them, and has delivered no call of this model to this process. See pygent.Model.
func (m *Model) LeavesCalls(model string) bool { return m.client.LeavesCalls(model) }

// CloseIdleConnections closes connections kept for later calls, for programs
// that make many models.
func (m *Model) CloseIdleConnections() { m.client.CloseIdleConnections() }

// BaseURL is the address of the API.
func (m *Model) BaseURL() string { return m.client.BaseURL() }

// MaxTokens is the limit of the tokens of one answer; 0 leaves it to the server.
func (m *Model) MaxTokens() int { return m.client.MaxTokens() }

// IsDeployment reports whether all answers come from one deployment of Azure's, whatever
// model they name.
func (m *Model) IsDeployment() bool { return m.client.Azure() }

// Chat asks for one answer, in one piece. Errors of the server are of type
// [*chat.APIError]; when ctx ends, the error is its cause.
func (m *Model) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	return m.ask(ctx, req, nil)
}

// ChatStream asks for one answer and emits it while it is being written. Its
// response and errors are those of Chat.
func (m *Model) ChatStream(ctx context.Context, req *chat.Request, emit func(chat.Delta)) (*chat.Response, error) {
	if emit == nil {
		return m.ask(ctx, req, nil)
	}
	return m.ask(ctx, req, func(d wire.Delta) {
		emit(chat.Delta{Withdrawn: d.Withdrawn, Text: d.Text, Reasoning: d.Reasoning, Notice: d.Notice, Call: newCallDelta(d.Call)})
	})
}

// ask converts a request, and what comes of it.
func (m *Model) ask(ctx context.Context, req *chat.Request, emit func(wire.Delta)) (*chat.Response, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("the context is nil")
	case req == nil:
		return nil, errors.New("model request: it is nil")
	}
	messages, err := bridge.EncodeMessages(req.Messages)
	if err != nil {
		return nil, fmt.Errorf("model request: %w", err)
	}
	tools := make([]wire.Tool, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = wire.Tool(t)
	}
	answer, err := m.client.Chat(ctx, &wire.Request{Model: req.Model, Messages: messages, Tools: tools, MustCall: req.MustCall}, emit)
	var failed *wire.Error
	switch {
	case errors.As(err, &failed):
		return nil, (*chat.APIError)(failed)
	case err != nil:
		return nil, err
	}
	return newChatResponse(answer)
}

func newChatResponse(a *chatstream.Answer) (*chat.Response, error) {
	msg, err := bridge.AnswerMessage(a)
	if err != nil {
		return nil, fmt.Errorf("model response: %w", err)
	}
	return &chat.Response{
		Message:      msg.(chat.Message),
		FinishReason: chat.FinishReason(a.FinishReason),
		Usage:        chat.Usage{PromptTokens: a.Usage.Prompt, CompletionTokens: a.Usage.Completion, CachedTokens: a.Usage.Cached, CacheWriteTokens: a.Usage.CacheWrite, ReasoningTokens: a.Usage.Reasoning},
		Model:        a.Model,
		ID:           a.ID,
		Cost:         a.Usage.Cost,
	}, nil
}

// ContextWindow asks the server how many tokens the context window of a model
// holds; an empty name means the default model. It returns 0 if the server does
// not tell, as OpenAI's own.
func (m *Model) ContextWindow(ctx context.Context, name string) int64 {
	return m.client.Window(ctx, name)
}

// ListModels asks the server for the names of its models, in its order.
func (m *Model) ListModels(ctx context.Context) ([]string, error) {
	names, err := m.client.Models(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the server's models: %w", err)
	}
	return names, nil
}

// ReportsCost reports whether answers of the model's server say what they cost.
func (m *Model) ReportsCost() bool { return m.client.ReportsCost() }

func newCallDelta(d chatstream.CallDelta) *chat.CallDelta {
	if d == (chatstream.CallDelta{}) {
		return nil
	}
	call := chat.CallDelta(d)
	return &call
}
