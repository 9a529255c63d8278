// Package openai asks servers with OpenAI's APIs for answers: chat completions,
// as every server has them, and the Responses API. It is what the root's
// openai.Model is made of.
//
// A [Client] knows a server. A call is one attempt. It sends the request in the
// form that the server is known to accept, limits the time of the answer, and
// assembles the answer with packages chatstream and responses. If a server
// refuses the form of a request, the client asks again in another form and
// remembers that for the model's name.
//
// Neither the server nor its answers are trusted: answers are bounded,
// redirects to other hosts are refused, and errors show no key.
//
// The events of a stream are read by an [EventReader]. It never holds more than one event in
// memory, and refuses an event above a limit.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/openai/openai-go/v3/option"

	"github.com/x/pygent/internal/boundset"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/pasted"
)

// DefaultBaseURL is where OpenAI is.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config says how to reach a server, and what to ask of it.
type Config struct {
	Key            string
	BaseURL        string // may have a query, which goes with every request; default [DefaultBaseURL]
	Model          string // of requests that name none
	Protocol       Protocol
	Headers        []Header
	Extra          map[string]any // top-level fields of every request
	MaxTokens      int            // of an answer; 0 leaves that to the server
	MaxTokensField string         // default as the host is known to call it
	Parallel       *bool          // whether an answer may have several calls
	SendReasoning  bool           // whether reasoning goes back to the server
	CAFile         string         // a PEM file; not together with HTTP
	HTTP           *http.Client

	// Limits of time; 0 for none.
	FirstByte, BetweenChunks, AnswerTime time.Duration
}

// Header is a header of every request.
type Header struct{ Name, Value string }

// Client asks one server. It is safe for concurrent use.
type Client struct {
	options       []option.RequestOption // of the SDK
	http          *http.Client
	protocol      Protocol
	baseURL       *url.URL // without query or user
	model         string
	maxTokens     string // the field of params that limits the tokens of an answer
	maxAnswer     int    // that limit; 0 for none
	hasKey        bool
	redact        func(string) string // takes the key out of a text; a function, so that no print of the client shows it
	params        params
	sendReasoning bool
	firstByte     time.Duration
	betweenChunks time.Duration
	answerTime    time.Duration

	head     atomic.Pointer[requestHead] // of the last request
	answered atomic.Bool                 // whether the server has ever answered, be it with an error

	mu      sync.Mutex
	learned map[string]adaptation // by model name; the values are never modified
	habits  map[string]habits     // by model name
	told    map[string]bool       // what people were told, once
}

// Request is what a model is asked to answer.
type Request struct {
	Model    string // empty for the client's
	Messages Messages
	Tools    []Tool
	MustCall bool // the answer has to call a tool
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema; empty for a tool without arguments
}

// Delta is a piece of an answer, or a notice of what was changed in a request.
type Delta struct {
	Text, Reasoning string
	Notice          string
	Withdrawn       bool // what was emitted so far is taken back
	Call            chatstream.CallDelta
}

// New returns a client. It does not contact the server.
func New(c Config) (*Client, error) {
	if err := c.readPasted(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	base, query, err := parseBaseURL(cmp.Or(c.BaseURL, DefaultBaseURL))
	if err != nil {
		return nil, err
	}
	c.MaxTokensField = cmp.Or(c.MaxTokensField, maxTokensField(base.Hostname()))
	p, err := c.params()
	if err != nil {
		return nil, err
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return nil, err
	}
	client := c.client(guarded(httpClient), base, query, p)
	if c.Protocol == Responses {
		if _, err := client.responsesParams(adaptation{}); err != nil {
			return nil, err
		}
	}
	return client, nil
}

// client returns the client for checked settings.
func (c *Config) client(httpClient *http.Client, base *url.URL, query url.Values, p params) *Client {
	return &Client{
		options:       c.requestOptions(httpClient, base, query),
		http:          httpClient,
		protocol:      c.Protocol,
		baseURL:       base,
		model:         c.Model,
		maxTokens:     c.MaxTokensField,
		maxAnswer:     c.MaxTokens,
		hasKey:        c.Key != "" || c.hasCredentials(),
		redact:        redactor(append(c.secrets(), querySecrets(query)...)),
		params:        p,
		sendReasoning: c.SendReasoning,
		firstByte:     c.FirstByte,
		betweenChunks: c.BetweenChunks,
		answerTime:    c.AnswerTime,
		learned:       map[string]adaptation{},
		habits:        map[string]habits{},
		told:          map[string]bool{},
	}
}

// BaseURL returns the server's URL without anything that may be secret.
func (c *Client) BaseURL() string { return c.baseURL.String() }

// ReportsCost reports whether the server is known to say what each answer costs.
func (c *Client) ReportsCost() bool {
	return isIn(strings.ToLower(c.baseURL.Hostname()), "openrouter.ai", "perplexity.ai")
}

// Azure reports whether the server is Azure's, where a name is that of a deployment.
func (c *Client) Azure() bool {
	return isIn(strings.ToLower(c.baseURL.Hostname()), "azure.com")
}

// Model returns the model of requests that name none.
func (c *Client) Model() string { return c.model }

// delivered has the servers and models that have delivered a call as a call, for all
// clients of the process.
var delivered boundset.Set

// LeavesCalls reports whether the server may leave a model's calls in the text of its
// answers, for want of a parser: it is none of the services that are known to have one,
// and has delivered no call of this model to this process.
func (c *Client) LeavesCalls(model string) bool {
	return !isIn(strings.ToLower(c.baseURL.Hostname()), parsing...) && !delivered.Has(c.modelKey(model))
}

// parsing are the domains of services that deliver calls as calls.
var parsing = []string{
	"openai.com", "azure.com", "googleapis.com", "mistral.ai", "anthropic.com", "x.ai", "groq.com", "cohere.com", "cohere.ai",
	"deepseek.com", "moonshot.ai", "moonshot.cn", "z.ai", "bigmodel.cn", "aliyuncs.com", "minimax.io", "perplexity.ai",
	"amazonaws.com", "githubcopilot.com", "github.ai", "openrouter.ai", "together.xyz", "together.ai", "fireworks.ai", "cerebras.ai",
	"sambanova.ai", "nvidia.com", "databricks.com", "snowflakecomputing.com",
}

func (c *Client) modelKey(model string) boundset.Key {
	return boundset.Of(c.baseURL.String(), cmp.Or(model, c.model))
}

// CloseIdleConnections closes connections that are kept for later calls.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Chat asks for an answer, in one piece if emit is nil. It repeats the request
// only in another form that the server may accept, and never after it emitted
// text. The error is the cause of ctx's end, an [*Error], or one of encoding
// the request.
func (c *Client) Chat(ctx context.Context, req *Request, emit func(Delta)) (*chatstream.Answer, error) {
	name := cmp.Or(req.Model, c.model)
	here := adaptation{mustCall: req.MustCall && len(req.Tools) > 0 && c.params[toolChoice] == nil} // for this call alone
	for {
		attempt := &call{client: c, req: req, name: name, adaptation: c.known(name).and(here), emit: emit}
		answer, err := attempt.do(ctx)
		if err == nil && len(answer.ToolCalls) > 0 {
			delivered.Add(c.modelKey(name))
		}
		if err == nil || attempt.emitted {
			return answer, err
		}
		change, ok := attempt.adapt(err)
		if !ok {
			return nil, err
		}
		if emit != nil {
			emit(Delta{Notice: change.notice})
		}
		here = here.and(change.adaptation)
		if change.lasting {
			c.learn(name, change.adaptation)
		}
	}
}

// readPasted reads the values that people paste, whoever gave them.
func (c *Config) readPasted() error {
	c.Headers = slices.Clone(c.Headers)
	type reading struct {
		what string
		at   *string
		read func(string) (string, error)
	}
	all := []reading{{"API key", &c.Key, pasted.Key}, {"base URL", &c.BaseURL, pasted.URL}, {"name of the model", &c.Model, pasted.Word}}
	for i := range c.Headers {
		h := &c.Headers[i]
		all = append(all, reading{fmt.Sprintf("value of the header %q", h.Name), &h.Value, pasted.Header})
	}
	for _, r := range all {
		value, err := r.read(*r.at)
		if err != nil {
			return fmt.Errorf("the %s: %w", r.what, err)
		}
		*r.at = value
	}
	return nil
}

// check refuses what cannot be sent.
func (c *Config) check() error {
	for _, h := range c.Headers {
		if h.Name == "" || strings.ContainsFunc(h.Name, notInHeaderName) {
			return fmt.Errorf("header %q: this name cannot be sent", h.Name)
		}
	}
	switch c.Protocol = cmp.Or(c.Protocol, Auto); c.Protocol {
	case Auto, Chat, Responses:
		return nil
	}
	return fmt.Errorf("API %q: want %s, %s or %s", c.Protocol, Auto, Chat, Responses)
}

func notInHeaderName(r rune) bool {
	return r <= ' ' || r > unicode.MaxASCII || strings.ContainsRune("()<>@,;:\\\"/[]?={}\x7f", r)
}

// maxTokensField is the name of the limit of an answer for a host. OpenAI and
// Azure refuse max_tokens for newer models. Some of the others silently ignore
// max_completion_tokens (Ollama), but none max_tokens. A server that refuses
// one name gets the other.
func maxTokensField(host string) string {
	if isIn(host, "openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com") {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// isIn reports whether a host is one of the domains, or in one.
func isIn(host string, domains ...string) bool {
	return slices.ContainsFunc(domains, func(domain string) bool {
		return host == domain || strings.HasSuffix(host, "."+domain)
	})
}

// params encodes the optional parameters of requests.
func (c *Config) params() (params, error) {
	fields := map[string]any{}
	if c.MaxTokens > 0 {
		fields[c.MaxTokensField] = c.MaxTokens
	}
	if c.Parallel != nil {
		fields["parallel_tool_calls"] = *c.Parallel
	}
	for name, value := range c.Extra {
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

// requestOptions are the SDK's settings.
func (c *Config) requestOptions(client *http.Client, base *url.URL, query url.Values) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithHTTPClient(client),
		option.WithBaseURL(base.String()),
		option.WithHeader("User-Agent", "pygent"),
		option.WithHeader("Accept", "application/json"),
		option.WithHeader("Accept-Encoding", "gzip"), // decodeBody decodes it, and not the transport
	}
	if c.Key != "" && !c.keyHeader() {
		opts = append(opts, option.WithHeader("Authorization", "Bearer "+c.Key))
	}
	for name, values := range query {
		for _, v := range values {
			opts = append(opts, option.WithQueryAdd(name, v))
		}
	}
	for _, h := range c.Headers {
		opts = append(opts, option.WithHeader(h.Name, h.Value))
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
	if !isHTTP(u) {
		return nil, nil, fmt.Errorf("base URL %q: want something like %s", RedactURL(s), DefaultBaseURL)
	}
	if u.User != nil {
		return nil, nil, fmt.Errorf("base URL %q: credentials belong into the key or a header", RedactURL(s))
	}
	query := u.Query()
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, query, nil
}
