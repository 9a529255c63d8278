package window

import (
	"encoding/json"
	"strings"
)

// Server is a kind of server that tells its windows elsewhere.
type Server string

// The servers that tell their windows elsewhere than in the list of models.
const (
	LlamaCpp Server = "llamacpp"
	LMStudio Server = "organization_owner"
	Ollama   Server = "library"
)

// Where these servers tell it, on the host.
var elsewhere = map[Server]string{
	LlamaCpp: "/props",         // default_generation_settings.n_ctx: can1357/oh-my-pi#440
	LMStudio: "/api/v0/models", // lmstudio.ai/docs/api/rest-api
	Ollama:   "/api/ps",        // context_length of the models that are loaded
}

// Path returns where a kind of server tells its windows; empty if nowhere else.
func (s Server) Path() string { return elsewhere[s] }

// listed is a model in a list, as servers describe it. A field that does not have
// the type that is documented is left out.
type listed struct {
	ID      string `json:"id"`
	Name    string `json:"name"` // Ollama's
	Model   string `json:"model"`
	OwnedBy Server `json:"owned_by"`

	Loaded  json.RawMessage `json:"loaded_context_length"` // LM Studio
	MaxLen  json.RawMessage `json:"max_model_len"`         // vLLM: modal-labs/modal-examples#843; SGLang
	Context json.RawMessage `json:"context_length"`        // OpenRouter, Together, Ollama
	Window  json.RawMessage `json:"context_window"`        // Groq
	Max     json.RawMessage `json:"max_context_length"`    // Mistral, LM Studio
	Meta    struct {
		Context json.RawMessage `json:"n_ctx"` // llama.cpp, llama-swap: mostlygeek/llama-swap#984
	} `json:"meta"`
}

func (l *listed) window() int64 {
	for _, raw := range []json.RawMessage{l.Loaded, l.MaxLen, l.Meta.Context, l.Context, l.Window, l.Max} {
		if n := tokens(raw); n > 0 {
			return n
		}
	}
	return 0
}

// tokens reads a window that can be right; 0 for none.
func tokens(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < least || n > most {
		return 0
	}
	return n
}

// InList returns the window of a model in the list that a server gives, 0 if it
// does not say, and what kind of server that is.
func InList(body []byte, model string) (window int64, kind Server) {
	var list struct {
		Data, Models []json.RawMessage
	}
	if json.Unmarshal(body, &list) != nil {
		return 0, ""
	}
	all := append(list.Data, list.Models...)
	for _, raw := range all {
		var l listed
		if json.Unmarshal(raw, &l) != nil {
			continue
		}
		if len(list.Data) == 1 && kind == "" {
			kind = l.OwnedBy
		}
		if l.ID == model || l.Name == model || l.Model == model || l.Name == model+":latest" {
			return l.window(), l.OwnedBy
		}
	}
	return 0, kind
}

// InProps returns the window that llama.cpp's server says it has.
func InProps(body []byte) int64 {
	var props struct {
		Settings struct {
			Context json.RawMessage `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if json.Unmarshal(body, &props) != nil {
		return 0
	}
	return tokens(props.Settings.Context)
}

// Tells reports whether a host may tell windows at all. OpenAI and Azure do not.
func Tells(host string) bool {
	for _, domain := range []string{"openai.com", "azure.com"} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return false
		}
	}
	return true
}
