package pygenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
)

// Request is a request that a [Server] received.
type Request struct {
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte // as it was received

	// Chat is the decoded request. In one of the Responses API, instructions and
	// items of the input become the messages that they stand for, and reasoning
	// items the extra field "reasoning_items" of the message after them. Chat is
	// nil for other endpoints, and if the body could not be decoded.
	Chat *pygent.ChatRequest
	// Stream reports whether the client asked for a stream, and IncludeUsage
	// whether it asked for the usage in it. The Responses API always has that.
	Stream       bool
	IncludeUsage bool
	// Fields are the body's top-level fields, each as it was received.
	Fields map[string]json.RawMessage
	// Err is why the server refused the request, or nil if it did not.
	Err error

	encrypted bool // whether the client asked for the content of reasoning items
}

func (r *Request) isChat() bool { return strings.HasSuffix(r.Path, "/chat/completions") }

func (r *Request) isResponses() bool { return strings.HasSuffix(r.Path, "/responses") }

// decode fills in the fields from the body.
func (r *Request) decode() {
	if err := json.Unmarshal(r.Body, &r.Fields); err != nil {
		r.Err = fmt.Errorf("decode the request: %w", err)
		return
	}
	if r.isResponses() {
		r.Err = r.decodeResponses()
	} else {
		r.Err = r.decodeChat()
	}
}

// decodeChat fills in the fields from the body of a chat completions request.
func (r *Request) decodeChat() error {
	var in struct {
		Model    string
		Messages []pygent.Message
		Tools    []struct{ Function pygent.ToolSpec }
		Stream   bool
		Options  struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return fmt.Errorf("decode the request: %w", err)
	}
	r.Chat = &pygent.ChatRequest{Model: in.Model, Messages: in.Messages}
	for _, t := range in.Tools {
		r.Chat.Tools = append(r.Chat.Tools, t.Function)
	}
	r.Stream, r.IncludeUsage = in.Stream, in.Options.IncludeUsage
	return nil
}

// CheckConversation returns an error if a provider would refuse the conversation.
// It must have messages. Each tool call needs an id, which no other call of the
// message has, and exactly one result right after its message. Each result needs
// a call. Use it for the requests of a [ScriptedModel]; a [Server] checks more.
func CheckConversation(messages []pygent.Message) error {
	if len(messages) == 0 {
		return fmt.Errorf("messages: the list is empty")
	}
	var open []string // ids of calls that have no result yet
	for i, m := range messages {
		if m.Role == pygent.RoleTool {
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return fmt.Errorf("messages[%d]: the tool message answers %q, which the messages before it do not call", i, m.ToolCallID)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("messages[%d]: the tool calls %q before it have no result", i, open)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" {
				return fmt.Errorf("messages[%d]: a call of %s has no id", i, c.Name)
			}
			if slices.Contains(open, c.ID) {
				return fmt.Errorf("messages[%d]: two tool calls have the id %q", i, c.ID)
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("messages: the tool calls %q have no result", open)
	}
	return nil
}

// writeError answers with OpenAI's error body.
func writeError(w http.ResponseWriter, e *pygent.APIError, f *fault) {
	if e.RequestID != "" {
		w.Header().Set("X-Request-Id", e.RequestID)
	}
	if d := e.RetryAfter; d > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
		if d%time.Second != 0 {
			w.Header().Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
		}
	}
	writeJSON(w, e.Status, errorObject(e, f))
}

func errorObject(e *pygent.APIError, f *fault) object {
	body := object{"message": e.Message, "type": errorType(e.Status), "param": nil, "code": nil}
	if e.Code != "" {
		body["code"] = e.Code
	}
	if f != nil && f.errType != "" {
		body["type"] = f.errType
	}
	if f != nil && f.errParam != "" {
		body["param"] = f.errParam
	}
	return object{"error": body}
}

func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "requests"
	case status == http.StatusOK, status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// writeJSON sends a whole body. It does not matter if the client is gone.
func writeJSON(w http.ResponseWriter, status int, body any) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes())
}
