package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/pasted"
)

// Defaults of [OpenAIModel].
const (
	defaultOpenAIModel   = "gpt-4.1-mini"
	defaultFirstByte     = 5 * time.Minute
	defaultBetweenChunks = 3 * time.Minute
	defaultAnswerTime    = 30 * time.Minute
)

// OpenAIModel is a [StreamingModel] for OpenAI and every server with its chat
// completions API: OpenRouter, Ollama, llama.cpp, vLLM, Azure and others. It
// uses OpenAI's Responses API for models that need it; see [OpenAIAPI]. Make
// one with [NewOpenAIModel]. It is safe for concurrent use, and one model may
// serve any number of agents.
//
// A call is one attempt: repeating a temporary failure is the agent's task. But when a
// server refuses the form of a request, the model asks again in another form, and
// remembers that for the model's name: by the other API, with another name of a
// parameter, other ids or another order of messages, or without something optional (an
// unsupported parameter, even one of [OpenAIExtraBody], fields of messages such as
// reasoning_content, or images). [chat.Delta.Notice] reports each such change.
type OpenAIModel struct {
	client *openai.Client
}

// OpenAIProtocol is one of OpenAI's APIs; see [OpenAIAPI].
type OpenAIProtocol string

// The APIs that an [OpenAIModel] speaks.
const (
	OpenAIAuto      OpenAIProtocol = "auto"
	OpenAIChat      OpenAIProtocol = "chat"
	OpenAIResponses OpenAIProtocol = "responses"
)

// OpenAIOption configures [NewOpenAIModel] or, given to [New], the model that the
// agent makes.
type OpenAIOption interface {
	Option
	setOpenAI(*openAIOptions)
}

type openAIOption struct {
	name string
	set  func(*openAIOptions)
}

func (opt openAIOption) setAgent(o *options) {
	o.give(partOpenAI, opt.name, true)
	o.openai = append(o.openai, opt)
}

func (opt openAIOption) setOpenAI(o *openAIOptions) { opt.set(o) }

type openAIOptions struct{ openai.Config }

// openAIEnvironment is the option [OpenAIEnv].
type openAIEnvironment struct{ lookup func(string) (string, bool) }

func (env openAIEnvironment) setAgent(o *options) {
	o.give(partOpenAI, "OpenAIEnv", true)
	o.openai = append(o.openai, env)
}

func (openAIEnvironment) setOpenAI(*openAIOptions) {}

// OpenAIKey sets the API key, which is sent as a bearer token. An empty one
// changes nothing. Default: OPENAI_API_KEY of the environment. Credentials of
// [OpenAIHeader] go before it: with a header api-key or x-api-key no bearer
// token is sent at all. Servers that need no key need no option.
func OpenAIKey(key string) OpenAIOption {
	return openAIOption{"OpenAIKey", func(o *openAIOptions) { o.Key = cmp.Or(pasted.Trim(key), o.Key) }}
}

// OpenAIBaseURL sets where the API is, up to what precedes "/chat/completions",
// which may be there too. An empty one changes nothing. Default: OPENAI_BASE_URL of the environment,
// then OpenAI itself. A query is sent with every request, as Azure wants it:
//
//	OpenAIBaseURL("https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=2024-10-21"),
//	OpenAIHeader("api-key", key),
func OpenAIBaseURL(url string) OpenAIOption {
	return openAIOption{"OpenAIBaseURL", func(o *openAIOptions) { o.BaseURL = cmp.Or(pasted.Trim(url), o.BaseURL) }}
}

// OpenAIDefaultModel names the model of requests that name none. An empty one
// changes nothing. Default: PYGENT_MODEL of the environment, then gpt-4.1-mini.
func OpenAIDefaultModel(name string) OpenAIOption {
	return openAIOption{"OpenAIDefaultModel", func(o *openAIOptions) { o.Model = cmp.Or(pasted.Trim(name), o.Model) }}
}

// OpenAIAPI sets the API to use. The default OpenAIAuto means chat completions,
// which every server has, and the Responses API for a model that refuses tools
// in chat completions or is not served there at all.
//
// In the Responses API nothing is stored on the server. The model's reasoning is sent
// back to it in encrypted form, and kept in the field "openai_response" of its messages.
// Give parameters as for chat completions; they are translated (reasoning_effort,
// verbosity, response_format, max_tokens). Those that it does not have are errors.
func OpenAIAPI(api OpenAIProtocol) OpenAIOption {
	return openAIOption{"OpenAIAPI", func(o *openAIOptions) { o.Protocol = openai.Protocol(api) }}
}

// OpenAIExtraBody adds top-level fields to every request, such as temperature
// or reasoning_effort. They override the fields that this package sets. The
// fields model, messages, input, tools and stream are not allowed.
func OpenAIExtraBody(fields map[string]any) OpenAIOption {
	return openAIOption{"OpenAIExtraBody", func(o *openAIOptions) { o.Extra = fields }}
}

// OpenAIHeader adds a header to every request. It may be given more than once.
func OpenAIHeader(name, value string) OpenAIOption {
	return openAIOption{"OpenAIHeader", func(o *openAIOptions) { o.Headers = append(o.Headers, openai.Header{Name: name, Value: value}) }}
}

// OpenAICAFile trusts the certificates of a PEM file besides the system's. It
// cannot be combined with [OpenAIHTTPClient].
func OpenAICAFile(path string) OpenAIOption {
	return openAIOption{"OpenAICAFile", func(o *openAIOptions) { o.CAFile = path }}
}

// OpenAIMaxTokens limits the tokens of one answer. Zero, the default, leaves
// that to the server.
func OpenAIMaxTokens(n int) OpenAIOption {
	return openAIOption{"OpenAIMaxTokens", func(o *openAIOptions) { o.MaxTokens = n }}
}

// OpenAIMaxTokensField names the field of chat completions in which
// [OpenAIMaxTokens] is sent. The default is max_completion_tokens for OpenAI
// and Azure, and max_tokens for all others, since some of them ignore the other
// name. A server that refuses one name gets the other.
func OpenAIMaxTokensField(name string) OpenAIOption {
	return openAIOption{"OpenAIMaxTokensField", func(o *openAIOptions) { o.MaxTokensField = name }}
}

// OpenAIParallelToolCalls allows or forbids several tool calls in one answer.
// By default the server decides.
func OpenAIParallelToolCalls(allow bool) OpenAIOption {
	return openAIOption{"OpenAIParallelToolCalls", func(o *openAIOptions) { o.Parallel = &allow }}
}

// OpenAIStallTimeouts sets how long to wait for the first data of an answer (default 5
// minutes) and between two pieces of it (default 3 minutes). Data means text, reasoning
// or a tool call; comments and empty chunks, with which servers keep a connection open,
// do not count. An answer that is not streamed comes only when it is complete, so the
// first limit holds for all of it. In the Responses API an answer begins before the model
// thinks, so the first limit holds for each silence in it.
func OpenAIStallTimeouts(first, between time.Duration) OpenAIOption {
	return openAIOption{"OpenAIStallTimeouts", func(o *openAIOptions) { o.FirstByte, o.BetweenChunks = first, between }}
}

// OpenAIAnswerTime limits the time of one answer from the request to its end,
// against servers that never stop sending. The default is 30 minutes. An answer
// that takes longer fails, and the call is not repeated.
func OpenAIAnswerTime(limit time.Duration) OpenAIOption {
	return openAIOption{"OpenAIAnswerTime", func(o *openAIOptions) { o.AnswerTime = limit }}
}

// OpenAISendReasoning says whether the reasoning of earlier answers is sent back to the
// server: reasoning_content and similar fields, and thoughts between tags such as <think>
// to the model that wrote them. The default is true: without it some models answer worse,
// or not at all.
func OpenAISendReasoning(send bool) OpenAIOption {
	return openAIOption{"OpenAISendReasoning", func(o *openAIOptions) { o.SendReasoning = send }}
}

// OpenAIHTTPClient sets the client that requests go through. Its Timeout, if
// any, limits whole answers.
func OpenAIHTTPClient(c *http.Client) OpenAIOption {
	return openAIOption{"OpenAIHTTPClient", func(o *openAIOptions) { o.HTTP = c }}
}

// OpenAIEnv sets the function that looks up, by the names of their variables,
// the settings which no option gives. The default is os.LookupEnv; nil disables
// the lookup.
func OpenAIEnv(lookup func(name string) (value string, ok bool)) OpenAIOption {
	return openAIEnvironment{lookup}
}

// OpenAIConfig is how to reach a model through OpenAI's APIs, at OpenAI or at
// any server that speaks them.
type OpenAIConfig struct {
	API               OpenAIProtocol    `json:"api,omitempty"` // default [OpenAIAuto]
	APIKey            Secret            `json:"api_key,omitempty"`
	BaseURL           string            `json:"base_url,omitempty"` // default https://api.openai.com/v1
	Organization      string            `json:"organization,omitempty"`
	Project           string            `json:"project,omitempty"`
	Headers           map[string]Secret `json:"headers,omitempty"`             // added to each request
	ExtraBody         map[string]any    `json:"extra_body,omitempty"`          // fields added to each request; no place for secrets
	CAFile            string            `json:"ca_file,omitempty"`             // PEM certificates to trust besides the system's
	MaxTokens         int               `json:"max_tokens,omitempty"`          // of one answer; default the server's
	MaxTokensField    string            `json:"max_tokens_field,omitempty"`    // what the server calls that limit
	ParallelToolCalls *bool             `json:"parallel_tool_calls,omitempty"` // default the server's
	StallFirst        time.Duration     `json:"stall_first,omitempty"`         // longest wait for the first byte; default 5m
	StallBetween      time.Duration     `json:"stall_between,omitempty"`       // longest wait between chunks; default 3m
	AnswerTime        time.Duration     `json:"answer_time,omitempty"`         // longest time of one answer; default 30m
	SendReasoning     *bool             `json:"send_reasoning,omitempty"`      // whether reasoning goes back to the model; default true
}

// MarshalJSON encodes the configuration without its secrets.
func (c OpenAIConfig) MarshalJSON() ([]byte, error) {
	type plain OpenAIConfig // has no methods, and so no recursion
	c.BaseURL = openai.RedactURL(c.BaseURL)
	return json.Marshal(plain(c))
}

// String is the configuration as JSON, without its secrets.
func (c OpenAIConfig) String() string {
	data, err := c.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("configuration: %v", err)
	}
	return string(data)
}

// GoString is the same as String.
func (c OpenAIConfig) GoString() string { return c.String() }

// LogValue is what log/slog shows: the same as String.
func (c OpenAIConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c OpenAIConfig) options() []OpenAIOption {
	var opts []OpenAIOption
	opts = given(opts, string(c.APIKey), OpenAIKey)
	opts = given(opts, c.BaseURL, OpenAIBaseURL)
	opts = given(opts, c.API, OpenAIAPI)
	opts = given(opts, c.CAFile, OpenAICAFile)
	opts = given(opts, c.MaxTokens, OpenAIMaxTokens)
	opts = given(opts, c.MaxTokensField, OpenAIMaxTokensField)
	opts = addIfSet(opts, c.ParallelToolCalls, OpenAIParallelToolCalls)
	opts = addIfSet(opts, c.SendReasoning, OpenAISendReasoning)
	opts = given(opts, c.AnswerTime, OpenAIAnswerTime)
	header := func(name string) func(string) OpenAIOption {
		return func(value string) OpenAIOption { return OpenAIHeader(name, value) }
	}
	opts = given(opts, c.Organization, header("OpenAI-Organization"))
	opts = given(opts, c.Project, header("OpenAI-Project"))
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		opts = append(opts, OpenAIHeader(name, string(c.Headers[name])))
	}
	if c.ExtraBody != nil {
		opts = append(opts, OpenAIExtraBody(c.ExtraBody))
	}
	if c.StallFirst != 0 || c.StallBetween != 0 {
		opts = append(opts, OpenAIStallTimeouts(c.StallFirst, c.StallBetween))
	}
	return opts
}

// NewOpenAIModel returns a model without contacting a server. If there is
// neither a key nor a base URL, the error matches [ErrNoModel] and says how to
// set them.
func NewOpenAIModel(opts ...OpenAIOption) (*OpenAIModel, error) {
	env, err := openAIEnvironmentOf(opts)
	if err != nil {
		return nil, err
	}
	o := openAIOptions{openai.Config{SendReasoning: true}}
	setAll(&o, slices.Concat(env, opts), OpenAIOption.setOpenAI)
	if err := o.limits(); err != nil {
		return nil, err
	}
	o.Model = cmp.Or(o.Model, defaultOpenAIModel)
	if o.Key == "" && o.BaseURL == "" {
		return nil, fmt.Errorf("%w: there is neither an API key nor a base URL; %s", ErrNoModel, howToSetAModel)
	}
	client, err := openai.New(o.Config)
	if err != nil {
		return nil, err
	}
	return &OpenAIModel{client: client}, nil
}

// limits checks the limits and fills in their defaults.
func (o *openAIOptions) limits() error {
	for i, value := range []*time.Duration{&o.FirstByte, &o.BetweenChunks, &o.AnswerTime} {
		option := []string{"OpenAIStallTimeouts", "OpenAIStallTimeouts", "OpenAIAnswerTime"}[i]
		if err := checkLimit(option, *value); err != nil {
			return fmt.Errorf("option %w", err)
		}
		*value = max(cmp.Or(*value, []time.Duration{defaultFirstByte, defaultBetweenChunks, defaultAnswerTime}[i]), 0)
	}
	if err := checkLimit("OpenAIMaxTokens", o.MaxTokens); err != nil {
		return fmt.Errorf("option %w", err)
	}
	o.MaxTokens = max(o.MaxTokens, 0) // leaves it to the server
	return nil
}

// openAIEnvironmentOf returns what the environment says about a model with these
// options.
func openAIEnvironmentOf(opts []OpenAIOption) ([]OpenAIOption, error) {
	lookup := os.LookupEnv
	for _, opt := range opts {
		if env, ok := opt.(openAIEnvironment); ok {
			lookup = env.lookup
		}
	}
	if lookup == nil {
		return nil, nil
	}
	c, err := ConfigSources{Lookup: lookup}.loadVariables()
	if err != nil {
		return nil, err
	}
	return given(c.OpenAI.options(), c.Model, OpenAIDefaultModel), nil
}

// String names the model and its server. It does not contain the key.
func (m *OpenAIModel) String() string {
	return fmt.Sprintf("OpenAIModel(%s at %s)", m.client.Model(), m.client.BaseURL())
}

// GoString is the same as String, so that %#v does not show the key.
func (m *OpenAIModel) GoString() string { return m.String() }

// LogValue is the same as String, so that logs do not show the key.
func (m *OpenAIModel) LogValue() slog.Value { return slog.StringValue(m.String()) }

// DefaultModel returns the name of the model for requests that name none.
func (m *OpenAIModel) DefaultModel() string { return m.client.Model() }

// LeavesCalls reports whether the server may leave the calls of a model in the text of its
// answers, for want of a parser: it is none of the services that are known to deliver
// them, and has delivered no call of this model to this process. See [Model].
func (m *OpenAIModel) LeavesCalls(model string) bool { return m.client.LeavesCalls(model) }

// CloseIdleConnections closes connections kept for later calls, for programs
// that make many models.
func (m *OpenAIModel) CloseIdleConnections() { m.client.CloseIdleConnections() }

// Chat asks for one answer, in one piece. Errors of the server are of type
// [*APIError]; when ctx ends, the error is its cause.
func (m *OpenAIModel) Chat(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	return m.ask(ctx, req, nil)
}

// ChatStream asks for one answer and emits it while it is being written. Its
// response and errors are those of Chat.
func (m *OpenAIModel) ChatStream(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error) {
	if emit == nil {
		return m.ask(ctx, req, nil)
	}
	return m.ask(ctx, req, func(d openai.Delta) {
		emit(Delta{Withdrawn: d.Withdrawn, Text: d.Text, Reasoning: d.Reasoning, Notice: d.Notice, Call: newCallDelta(d.Call)})
	})
}

// ask converts a request, and what comes of it.
func (m *OpenAIModel) ask(ctx context.Context, req *ChatRequest, emit func(openai.Delta)) (*ChatResponse, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case req == nil:
		return nil, errors.New("model request: it is nil")
	}
	messages, err := bridge.EncodeMessages(req.Messages)
	if err != nil {
		return nil, fmt.Errorf("model request: %w", err)
	}
	tools := make([]openai.Tool, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = openai.Tool(t)
	}
	answer, err := m.client.Chat(ctx, &openai.Request{Model: req.Model, Messages: openai.List(messages), Tools: tools, MustCall: req.MustCall}, emit)
	var failed *openai.Error
	switch {
	case errors.As(err, &failed):
		return nil, (*APIError)(failed)
	case err != nil:
		return nil, err
	}
	return newChatResponse(answer)
}

func newChatResponse(a *chatstream.Answer) (*ChatResponse, error) {
	msg, err := bridge.AnswerMessage(a)
	if err != nil {
		return nil, fmt.Errorf("model response: %w", err)
	}
	return &ChatResponse{
		Message:      msg.(Message),
		FinishReason: chat.FinishReason(a.FinishReason),
		Usage:        Usage{PromptTokens: a.Usage.Prompt, CompletionTokens: a.Usage.Completion, CachedTokens: a.Usage.Cached, CacheWriteTokens: a.Usage.CacheWrite, ReasoningTokens: a.Usage.Reasoning},
		Model:        a.Model,
		ID:           a.ID,
		Cost:         a.Usage.Cost,
	}, nil
}
