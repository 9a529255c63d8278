package pygenttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/strict"
)

// Provider is a provider of models whose rules a [Server] can enforce.
type Provider string

// The providers that refuse more than OpenAI does.
const (
	// Gemini is Gemini's OpenAI-compatible endpoint. Calls have a thought
	// signature, which must be sent back with them.
	Gemini Provider = "gemini"
	// Mistral is Mistral's own service. The id of a call has nine letters and
	// digits, also in the server's own replies.
	Mistral Provider = "mistral"
	// Ollama is a server that runs Ollama.
	Ollama Provider = "ollama"
	// Gemma is a server whose model has no system role, as Gemma's chat template says it.
	Gemma Provider = "gemma"
)

// Strict makes the server also refuse what the provider refuses, with the
// provider's messages. Gemini and Mistral have no Responses API.
func (s *Server) Strict(p Provider) *Server {
	if p == Gemini {
		s.rules.know([]string{"extra_content"}) // calls that it signed in an earlier process come back, too
	}
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	s.rules.provider = p
	return s
}

// Window makes the server refuse requests of more tokens, as OpenAI does. It counts
// a token for every four bytes of the request. 0, the default, is for any length.
func (s *Server) Window(tokens int) *Server {
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	s.rules.window = tokens
	return s
}

// Knows makes the server accept these fields in addition to OpenAI's format, as
// parameters and in messages and calls.
func (s *Server) Knows(fields ...string) *Server {
	s.rules.know(fields)
	return s
}

// rules are what the server refuses. They are safe for concurrent use.
type rules struct {
	mu       sync.Mutex
	provider Provider
	fields   map[string]bool // accepted in addition to the format
	window   int             // in tokens; 0 for any
	// reasoning has the id of the reasoning item before each item of the
	// Responses API, by the item's id.
	reasoning map[string]string
}

// check returns why the request is refused, or nil. fields are those of its body.
func (r *rules) check(req *Request, fields map[string]any) *strict.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	parsed, refusal := strict.Decoded(fields, r.known)
	switch {
	case refusal != nil:
	case req.isResponses():
		refusal = r.checkResponses(parsed)
	default:
		refusal = r.checkChat(parsed)
	}
	if refusal == nil {
		refusal = r.tooLong(req)
	}
	return refusal
}

// tooLong refuses a request that exceeds the window, in the words of OpenAI
// (openai/evals#1377; for the Responses API anomalyco/opencode#6071).
func (r *rules) tooLong(req *Request) *strict.Refusal {
	tokens := int(estimate(req.Body, pygent.Message{}).PromptTokens)
	if r.window == 0 || tokens <= r.window {
		return nil
	}
	message := fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
		"Please reduce the length of the messages.", r.window, tokens)
	if req.isResponses() {
		message = "Your input exceeds the context window of this model. Please adjust your input and try again."
	}
	return &strict.Refusal{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: codeContext, Message: message}
}

// known reports whether a field is accepted in addition to the format. The
// caller holds r.mu.
func (r *rules) known(field string) bool { return r.fields[field] }

func (r *rules) know(fields []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fields == nil {
		r.fields = make(map[string]bool)
	}
	for _, name := range fields {
		r.fields[name] = true
	}
}

func (r *rules) checkChat(req strict.Request) *strict.Refusal {
	own := map[Provider]func(strict.Request) *strict.Refusal{
		Gemini: strict.Gemini, Mistral: strict.Mistral, Ollama: strict.Ollama, Gemma: strict.Gemma,
	}[r.provider]
	if own != nil {
		if refusal := own(req); refusal != nil {
			return refusal
		}
	}
	return strict.OpenAIChat(req)
}

func (r *rules) checkResponses(req strict.Request) *strict.Refusal {
	switch r.provider {
	case Gemini, Mistral:
		return notServed(http.StatusNotFound, "Not Found")
	case Ollama:
		if refusal := strict.OllamaResponses(req); refusal != nil {
			return refusal
		}
	}
	return strict.OpenAIResponses(req, strict.Issued{
		Verified:  isEncryptedReasoning,
		Reasoning: func(id string) string { return r.reasoning[id] },
	})
}

// speak adds to a message what the provider adds, and makes the server accept
// its extra fields from then on, since clients send them back.
func (r *rules) speak(m *pygent.Message) {
	if r.named() == Gemini && len(m.ToolCalls) > 0 && m.ToolCalls[0].Extra == nil {
		signature := json.RawMessage(`{"google":{"thought_signature":"c2NyaXB0ZWQ="}}`)
		m.ToolCalls[0].Extra = map[string]json.RawMessage{"extra_content": signature}
	}
	r.know(slices.Collect(maps.Keys(m.Extra)))
	for _, call := range m.ToolCalls {
		r.know(slices.Collect(maps.Keys(call.Extra)))
	}
}

// issue remembers which reasoning the items of a response came after.
func (r *rules) issue(items []item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(items) == 0 || items[0].whole["type"] != "reasoning" {
		return
	}
	if r.reasoning == nil {
		r.reasoning = make(map[string]string)
	}
	reasoning := items[0].whole["id"].(string)
	for _, it := range items[1:] {
		r.reasoning[it.whole["id"].(string)] = reasoning
	}
}

func (r *rules) named() Provider {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.provider
}

// callID returns the id of the n-th call.
func (r *rules) callID(n int) string {
	if r.named() == Mistral {
		return fmt.Sprintf("call%05d", n)
	}
	return fmt.Sprintf("call_%d", n)
}

const reasoningOf = "the reasoning of "

// encryptedReasoning returns the content of the reasoning item with the given
// id, which only this server reads.
func encryptedReasoning(id string) string {
	return base64.StdEncoding.EncodeToString([]byte(reasoningOf + id))
}

func isEncryptedReasoning(content string) bool {
	b, err := base64.StdEncoding.DecodeString(content)
	return err == nil && strings.HasPrefix(string(b), reasoningOf)
}

// writeRefusal answers in the provider's form.
func writeRefusal(w http.ResponseWriter, r *strict.Refusal) {
	if r.Body != nil {
		writeJSON(w, r.Status, r.Body)
		return
	}
	body := object{"message": r.Message, "type": r.Type, "param": nil, "code": nil}
	if r.Param != "" {
		body["param"] = r.Param
	}
	if r.Code != "" {
		body["code"] = r.Code
	}
	writeJSON(w, r.Status, object{"error": body})
}
