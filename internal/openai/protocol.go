package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/responses"
)

// Protocol is one of OpenAI's APIs.
type Protocol string

// The APIs that a client speaks. Auto is chat completions, and the Responses API
// for a model that asks for it.
const (
	Auto      Protocol = "auto"
	Chat      Protocol = "chat"
	Responses Protocol = "responses"
)

// assembler puts an answer together, from either API.
type assembler interface {
	Add(data []byte) (chatstream.Delta, error)
	Finished() bool
	OwesCalls() bool // a call is announced, and may follow the finish reason
	Progress() int   // grows with data, and with nothing else
	Used() chatstream.Usage
	Done() // the stream ended with [DONE]
	Finish() (*chatstream.Answer, error)
}

// inResponses reports whether the Responses API is used for a model.
func (c *Client) inResponses(a adaptation) bool {
	return c.protocol == Responses || c.protocol == Auto && a.responses && !a.noResponses
}

func (c *call) inResponses() bool { return c.client.inResponses(c.adaptation) }

// path is where the call goes, below the base URL.
func (c *call) path() string {
	if c.inResponses() {
		return "responses"
	}
	return "chat/completions"
}

func (c *call) assembler() assembler {
	if c.inResponses() {
		return &responses.Assembler{Model: c.name, TakenID: c.takenID}
	}
	return &chatstream.Assembler{TakenID: c.takenID, Alternatives: c.client.wantsSeveral(), TrustDone: c.client.trustsDone(c.name)}
}

// wantsSeveral reports whether several answers are asked for.
func (c *Client) wantsSeveral() bool {
	n, ok := jsonobj.Int(c.params["n"])
	return ok && n > 1
}

// responsesParams returns the optional parameters of a request in the Responses
// API. Reasoning is carried by the conversation, since nothing is stored.
func (c *Client) responsesParams(a adaptation) (params, error) {
	chat := make(params, len(c.params))
	for name, value := range c.params {
		if name == c.maxTokens {
			name = responses.MaxTokens
		}
		chat[name] = value
	}
	p, err := responses.Params(chat)
	if err != nil {
		return nil, err
	}
	if _, given := p["store"]; !given {
		p["store"] = json.RawMessage("false")
	}
	if _, given := p["include"]; !given && c.sendReasoning && !a.noReasoning {
		p["include"] = json.RawMessage(`["reasoning.encrypted_content"]`)
	}
	return p, nil
}

func responsesTools(specs []Tool) []responses.Tool {
	tools := make([]responses.Tool, len(specs))
	for i, s := range specs {
		tools[i] = responses.Tool(s)
	}
	return tools
}

// wantsResponses reports whether the error of a call in chat completions asks
// for the Responses API, in the words of OpenAI, Azure and Copilot.
func wantsResponses(api *Error) bool {
	switch api.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
	default:
		return false
	}
	message := strings.ToLower(api.Message)
	return strings.Contains(message, "v1/responses") ||
		strings.Contains(message, "the responses api") ||
		strings.Contains(message, "not a chat model") ||
		strings.Contains(message, "chatcompletion operation does not work with the specified model") ||
		strings.Contains(message, "not accessible via the /chat/completions endpoint") ||
		api.Code == "unsupported_api_for_model"
}

// lacksResponses reports whether the error of a call in the Responses API says
// that the server lacks the API, as opposed to the model.
func lacksResponses(api *Error) bool {
	switch api.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return !strings.Contains(api.Code, "model") && !strings.Contains(strings.ToLower(api.Message), "model") && !refusesReasoning(api)
	}
	return false
}

// otherAPI returns the change to the other API that err asks for.
func (c *call) otherAPI(api *Error) (change, bool) {
	if c.client.protocol != Auto {
		return change{}, false
	}
	if c.inResponses() {
		if !lacksResponses(api) {
			return change{}, false
		}
		notice := fmt.Sprintf("went back to chat completions: %s does not serve the Responses API", c.client.baseURL)
		return change{adaptation{noResponses: true}, notice, true}, true
	}
	if !wantsResponses(api) {
		return change{}, false
	}
	if !c.adaptation.noResponses {
		return change{adaptation{responses: true}, fmt.Sprintf("switched to the Responses API: %s asks for it", c.name), true}, true
	}
	// No reasoning is the next best, if the server offers that and the user set
	// no effort.
	if _, given := c.client.params["reasoning_effort"]; given || c.adaptation.noEffort || !strings.Contains(api.Message, "reasoning_effort") {
		return change{}, false
	}
	notice := "set reasoning_effort to none: the model takes no tools with more, but in the Responses API"
	return change{adaptation{noEffort: true}, notice, true}, true
}

// refusesReasoning reports whether the error is about reasoning that was sent
// back: the server cannot read it, or misses the item it belongs to.
func refusesReasoning(api *Error) bool {
	message := strings.ToLower(api.Message)
	for _, phrase := range []string{
		"encrypted content", "encrypted_content", "items are not persisted", "required following item",
		"without its required", "duplicate item", "type 'reasoning'", "type \"reasoning\"",
	} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return api.Code == "invalid_encrypted_content"
}
