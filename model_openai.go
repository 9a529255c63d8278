package pygent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/openai/openai-go/v3/option"
)

// Defaults of [OpenAIModel].
const (
	defaultOpenAIBaseURL = "https://api.openai.com/v1"
	defaultOpenAIModel   = "gpt-4.1-mini"
	defaultFirstByte     = 5 * time.Minute
	defaultBetweenChunks = 3 * time.Minute
	defaultAnswerTime    = 30 * time.Minute
)

// OpenAIModel is a [StreamingModel] for OpenAI and every server with its chat
// completions API: OpenRouter, Ollama, llama.cpp, vLLM, Azure and others. Models
// that want OpenAI's Responses API are spoken to in that; see [OpenAIAPI]. Make
// one with [NewOpenAIModel]. It is safe for concurrent use, and one model may
// serve any number of agents.
//
// A call is one attempt: the agent repeats what can pass. But a server that
// refuses the form of a request is asked again in another one, and that is
// remembered for the model's name. It may be the other API, another name of a
// parameter, ids and an order of messages that the server takes; or the request
// without something optional: a parameter that is not supported (also one of
// [OpenAIExtraBody]), fields of messages such as reasoning_content, images.
// Each time is told by [Delta.Notice].
type OpenAIModel struct {
	options       []option.RequestOption // of the SDK
	client        *http.Client
	api           OpenAIProtocol
	baseURL       *url.URL // without query or user
	model         string
	maxTokens     string // the field of params that limits the tokens of an answer
	hasKey        bool
	redact        func(string) string // takes the key out of a text; a function, so that no print of the model shows it
	params        params
	sendReasoning bool
	firstByte     time.Duration
	betweenChunks time.Duration
	answerTime    time.Duration

	mu      sync.Mutex
	learned map[string]adaptation // by model name; the values are never modified
}

// OpenAIOption configures [NewOpenAIModel].
type OpenAIOption func(*openAIOptions)

type openAIOptions struct {
	key, baseURL, model, caFile string
	api                         OpenAIProtocol
	headers                     []header
	extra                       map[string]any
	maxTokens                   int
	maxTokensField              string
	parallel                    *bool
	firstByte, betweenChunks    time.Duration
	answerTime                  time.Duration
	sendReasoning               bool
	client                      *http.Client
	env                         func(string) (string, bool)
}

type header struct{ name, value string }

// OpenAIKey sets the API key, sent as a bearer token. Empty, the default, means
// OPENAI_API_KEY of the environment; unless [OpenAIHeader] gives credentials
// itself. Beside a header api-key or x-api-key no bearer token is sent at all.
// Servers that need no key need none.
func OpenAIKey(key string) OpenAIOption { return func(o *openAIOptions) { o.key = key } }

// OpenAIBaseURL sets where the API is, up to what precedes "/chat/completions".
// Empty, the default, means OPENAI_BASE_URL of the environment, then OpenAI
// itself. A query is sent with every request, as Azure wants it:
//
//	OpenAIBaseURL("https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=2024-10-21"),
//	OpenAIHeader("api-key", key),
func OpenAIBaseURL(url string) OpenAIOption { return func(o *openAIOptions) { o.baseURL = url } }

// OpenAIDefaultModel names the model of requests that name none. Empty, the
// default, means PYGENT_MODEL of the environment, then gpt-4.1-mini.
func OpenAIDefaultModel(name string) OpenAIOption { return func(o *openAIOptions) { o.model = name } }

// OpenAIExtraBody adds top-level fields to every request, such as temperature
// or reasoning_effort. They win over the fields this package sets, but model,
// messages, input, tools and stream cannot be given.
func OpenAIExtraBody(fields map[string]any) OpenAIOption {
	return func(o *openAIOptions) { o.extra = fields }
}

// OpenAIHeader adds a header to every request. It may be given more than once.
func OpenAIHeader(name, value string) OpenAIOption {
	return func(o *openAIOptions) { o.headers = append(o.headers, header{name, value}) }
}

// OpenAICAFile trusts the certificates of a PEM file besides the system's. It
// cannot be combined with [OpenAIHTTPClient].
func OpenAICAFile(path string) OpenAIOption { return func(o *openAIOptions) { o.caFile = path } }

// OpenAIMaxTokens limits the tokens of one answer. Zero, the default, leaves
// that to the server.
func OpenAIMaxTokens(n int) OpenAIOption { return func(o *openAIOptions) { o.maxTokens = n } }

// OpenAIMaxTokensField names the field of chat completions that
// [OpenAIMaxTokens] is sent in. The default is max_completion_tokens for OpenAI
// and Azure, and max_tokens for all others, since some of these ignore the other
// name. A server that refuses the one gets the other.
func OpenAIMaxTokensField(name string) OpenAIOption {
	return func(o *openAIOptions) { o.maxTokensField = name }
}

// OpenAIParallelToolCalls allows or forbids several tool calls in one answer.
// By default that is left to the server.
func OpenAIParallelToolCalls(allow bool) OpenAIOption {
	return func(o *openAIOptions) { o.parallel = &allow }
}

// OpenAIStallTimeouts sets how long to wait for the first data of an answer
// (default 5 minutes) and between two pieces of it (default 3 minutes). Zero
// turns a limit off. Data is text, reasoning or a tool call; comments and empty
// chunks, by which servers keep a connection open, are none. An answer that is
// not streamed is not sent before it is complete, so the first limit holds for
// all of it; and in the Responses API, where an answer begins before the model
// thinks, for each silence in it.
func OpenAIStallTimeouts(first, between time.Duration) OpenAIOption {
	return func(o *openAIOptions) { o.firstByte, o.betweenChunks = first, between }
}

// OpenAIAnswerTime limits the time of one answer from the request to its end,
// for servers that send a little for ever. The default is 30 minutes; zero turns
// the limit off. An answer that takes longer fails and is not asked for again.
func OpenAIAnswerTime(limit time.Duration) OpenAIOption {
	return func(o *openAIOptions) { o.answerTime = limit }
}

// OpenAISendReasoning tells whether the reasoning of earlier answers
// (reasoning_content and its like) goes back to the server with them. The
// default is true: some models answer worse, or not at all, without.
func OpenAISendReasoning(send bool) OpenAIOption {
	return func(o *openAIOptions) { o.sendReasoning = send }
}

// OpenAIHTTPClient sets the client that requests go through. Its Timeout, if
// any, limits whole answers.
func OpenAIHTTPClient(c *http.Client) OpenAIOption { return func(o *openAIOptions) { o.client = c } }

// OpenAIEnv sets where settings that no option gives are looked up: the
// default is os.LookupEnv. Nil means nowhere.
func OpenAIEnv(lookup func(name string) (value string, ok bool)) OpenAIOption {
	return func(o *openAIOptions) { o.env = lookup }
}

// NewOpenAIModel returns a model. It contacts nobody. Without a key and a base
// URL the error matches [ErrNoModel] and says how to set them.
func NewOpenAIModel(opts ...OpenAIOption) (*OpenAIModel, error) {
	o := openAIOptions{
		firstByte:     defaultFirstByte,
		betweenChunks: defaultBetweenChunks,
		answerTime:    defaultAnswerTime,
		sendReasoning: true,
		env:           os.LookupEnv,
	}
	apply(&o, opts)
	if err := o.complete(); err != nil {
		return nil, err
	}
	base, query, err := parseBaseURL(cmp.Or(o.baseURL, defaultOpenAIBaseURL))
	if err != nil {
		return nil, err
	}
	o.maxTokensField = cmp.Or(o.maxTokensField, maxTokensField(base.Hostname()))
	p, err := o.params()
	if err != nil {
		return nil, err
	}
	client, err := o.httpClient()
	if err != nil {
		return nil, err
	}
	client = guarded(client)
	m := &OpenAIModel{
		options:       o.requestOptions(client, base, query),
		client:        client,
		api:           o.api,
		baseURL:       base,
		model:         o.model,
		maxTokens:     o.maxTokensField,
		hasKey:        o.key != "" || o.headerCredentials(),
		redact:        redactor(append(o.secrets(), querySecrets(query)...)),
		params:        p,
		sendReasoning: o.sendReasoning,
		firstByte:     o.firstByte,
		betweenChunks: o.betweenChunks,
		answerTime:    o.answerTime,
		learned:       map[string]adaptation{},
	}
	if m.api == OpenAIResponses {
		if _, err := m.responsesParams(adaptation{}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// String names the model and its server. It shows no key.
func (m *OpenAIModel) String() string {
	return fmt.Sprintf("OpenAIModel(%s at %s)", m.model, m.baseURL)
}

// GoString is String, so that no print shows more.
func (m *OpenAIModel) GoString() string { return m.String() }

// LogValue is String, so that no log shows more.
func (m *OpenAIModel) LogValue() slog.Value { return slog.StringValue(m.String()) }

// DefaultModel returns the name of the model that answers requests which name
// none.
func (m *OpenAIModel) DefaultModel() string { return m.model }

// CloseIdleConnections closes connections kept for later calls, for programs
// that make many models.
func (m *OpenAIModel) CloseIdleConnections() { m.client.CloseIdleConnections() }

// Chat asks for one answer, in one piece. Errors of the server are of type
// [*APIError]; when ctx ends, the error is its cause.
func (m *OpenAIModel) Chat(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	return m.chat(ctx, req, nil)
}

// ChatStream asks for one answer and emits it while it is being written. Its
// response and errors are those of Chat.
func (m *OpenAIModel) ChatStream(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error) {
	return m.chat(ctx, req, emit)
}

// complete fills in from the environment what no option gave.
func (o *openAIOptions) complete() error {
	lookup := func(name string) string {
		if o.env == nil {
			return ""
		}
		value, _ := o.env(name)
		return strings.TrimSpace(value)
	}
	o.key = strings.TrimSpace(o.key)
	if o.key == "" && !o.headerCredentials() {
		o.key = lookup("OPENAI_API_KEY")
	}
	if strings.ContainsFunc(o.key, unicode.IsControl) {
		return errors.New("the API key holds control characters")
	}
	for _, h := range o.headers {
		if h.name == "" || strings.ContainsFunc(h.name, notInHeaderName) || strings.ContainsFunc(h.value, unicode.IsControl) {
			return fmt.Errorf("header %q: name or value cannot be sent", h.name)
		}
	}
	o.baseURL = cmp.Or(strings.TrimSpace(o.baseURL), lookup("OPENAI_BASE_URL"))
	o.model = cmp.Or(o.model, lookup("PYGENT_MODEL"), defaultOpenAIModel)
	switch o.api = cmp.Or(o.api, OpenAIAuto); o.api {
	case OpenAIAuto, OpenAIChat, OpenAIResponses:
	default:
		return fmt.Errorf("API %q: want %s, %s or %s", o.api, OpenAIAuto, OpenAIChat, OpenAIResponses)
	}
	if o.key == "" && o.baseURL == "" {
		return fmt.Errorf("%w: there is neither an API key nor a base URL. %s", ErrNoModel, howToSetAModel)
	}
	return nil
}

const howToSetAModel = `Set one of these:
  OpenAI      OPENAI_API_KEY=sk-...
  OpenRouter  OPENAI_API_KEY=sk-or-... OPENAI_BASE_URL=https://openrouter.ai/api/v1 PYGENT_MODEL=openai/gpt-4.1-mini
  Ollama      OPENAI_BASE_URL=http://localhost:11434/v1 PYGENT_MODEL=qwen3
  llama.cpp   OPENAI_BASE_URL=http://localhost:8080/v1
To see a session without any model, run "pygent demo".`

func notInHeaderName(r rune) bool {
	return r <= ' ' || r > unicode.MaxASCII || strings.ContainsRune("()<>@,;:\\\"/[]?={}\x7f", r)
}

// maxTokensField is what a host calls the limit of an answer. OpenAI and Azure
// refuse max_tokens for newer models. Of the others some ignore
// max_completion_tokens without a word (Ollama), and none max_tokens; one that
// refuses it says so, and gets the other.
func maxTokensField(host string) string {
	for _, domain := range []string{"openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return "max_completion_tokens"
		}
	}
	return "max_tokens"
}

// params encodes the optional parameters of requests.
func (o *openAIOptions) params() (params, error) {
	if o.maxTokens < 0 {
		return nil, fmt.Errorf("the limit of %d tokens is negative", o.maxTokens)
	}
	fields := map[string]any{}
	if o.maxTokens > 0 {
		fields[o.maxTokensField] = o.maxTokens
	}
	if o.parallel != nil {
		fields["parallel_tool_calls"] = *o.parallel
	}
	for name, value := range o.extra {
		switch name {
		case "model", "messages", "input", "tools", "stream":
			return nil, fmt.Errorf("extra body field %s: the model sets it itself", name)
		}
		fields[name] = value
	}
	p := params{}
	for name, value := range fields {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("extra body field %s: %w", name, err)
		}
		p[name] = raw
	}
	return p, nil
}

func (o *openAIOptions) httpClient() (*http.Client, error) {
	switch {
	case o.caFile != "" && o.client != nil:
		return nil, errors.New("a CA file cannot be combined with an HTTP client: set the client's own")
	case o.client != nil:
		return o.client, nil
	case o.caFile == "":
		return &http.Client{}, nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("system certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: no PEM certificate in it", o.caFile)
	}
	transport, ok := boundedTransport().(*http.Transport)
	if !ok {
		return nil, errors.New("a CA file needs the standard http.DefaultTransport: set an HTTP client instead")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// requestOptions are the SDK's settings.
func (o *openAIOptions) requestOptions(client *http.Client, base *url.URL, query url.Values) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithHTTPClient(client),
		option.WithBaseURL(base.String()),
		option.WithMaxRetries(0),                     // the agent repeats
		option.WithHeader("Accept-Encoding", "gzip"), // decodeBody decodes it, and not the transport
	}
	if o.key != "" && !o.keyHeader() {
		opts = append(opts, option.WithAPIKey(o.key))
	}
	for name, values := range query {
		for _, v := range values {
			opts = append(opts, option.WithQueryAdd(name, v))
		}
	}
	for _, h := range o.headers {
		opts = append(opts, option.WithHeader(h.name, h.value))
	}
	return opts
}

// parseBaseURL splits the query, which goes with every request, from the rest.
func parseBaseURL(s string) (*url.URL, url.Values, error) {
	u, err := url.Parse(s)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) { // without the URL, which may hold a password
			err = parse.Err
		}
		return nil, nil, fmt.Errorf("base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, nil, fmt.Errorf("base URL %q: want something like %s", redactURL(s), defaultOpenAIBaseURL)
	}
	if u.User != nil {
		return nil, nil, fmt.Errorf("base URL %q: credentials belong into the key or a header", redactURL(s))
	}
	query := u.Query()
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, query, nil
}
