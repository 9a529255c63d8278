package pygenttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/jsonobj"
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

// decode fills in the fields from the body, and returns those of the body as
// encoding/json decodes them; nil if it is no object.
func (r *Request) decode(known *memos) map[string]any {
	var err error
	if r.Fields, err = jsonobj.Fields(r.Body); err != nil || r.Fields == nil {
		r.Err = decodeError(err)
		return nil
	}
	plain := make(map[string]any, len(r.Fields))
	if r.isResponses() {
		r.Err = r.decodeResponses(known, plain)
	} else {
		r.Err = r.decodeChat(known, plain)
	}
	for name, raw := range r.Fields {
		if _, done := plain[name]; !done {
			plain[name] = genericJSON(raw)
		}
	}
	return plain
}

func decodeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("decode the request: %w", err)
}

// genericJSON decodes valid JSON as encoding/json does without a type.
func genericJSON(raw json.RawMessage) (v any) {
	_ = json.Unmarshal(raw, &v)
	return v
}

// field decodes a field of the body, unless it is absent.
func (r *Request) field(name string, into any) error {
	raw, ok := r.Fields[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return decodeError(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// decodeChat fills in the fields from those of a chat completions request. It adds to
// plain what it decoded on the way.
func (r *Request) decodeChat(known *memos, plain map[string]any) error {
	var chat pygent.ChatRequest
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	err := cmp.Or(r.field("model", &chat.Model), r.field("stream", &r.Stream), r.field("stream_options", &options))
	if raw := r.Fields["messages"]; jsonobj.BeginsArray(raw) {
		list, messages, wrong := known.messages.list(raw, decodeMessage)
		plain["messages"], chat.Messages = list, messages
		err = cmp.Or(err, decodeError(wrong))
	} else {
		err = cmp.Or(err, r.field("messages", &chat.Messages))
	}
	if raw := r.Fields["tools"]; raw != nil {
		tools := known.chatTools.of(raw, decodeChatTools)
		plain["tools"], chat.Tools = tools.plain, slices.Clone(tools.value)
		err = cmp.Or(err, decodeError(tools.err))
	}
	if err != nil {
		return err
	}
	for i := range chat.Messages {
		chat.Messages[i] = copyMessage(chat.Messages[i])
	}
	r.Chat, r.IncludeUsage = &chat, options.IncludeUsage
	return nil
}

func decodeMessage(raw json.RawMessage) (m pygent.Message, err error) {
	return m, json.Unmarshal(raw, &m)
}

func decodeChatTools(raw json.RawMessage) (tools []chat.ToolSpec, err error) {
	var list []struct{ Function chat.ToolSpec }
	err = json.Unmarshal(raw, &list)
	for _, t := range list {
		tools = append(tools, t.Function)
	}
	return tools, err
}

// copyMessage returns a copy that a script may change.
func copyMessage(m pygent.Message) pygent.Message {
	m.Parts, m.Extra = slices.Clone(m.Parts), maps.Clone(m.Extra)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Extra = maps.Clone(m.ToolCalls[i].Extra)
	}
	return m
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
		if m.Role == chat.RoleTool {
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
	if f != nil && f.generation != "" {
		body["failed_generation"] = f.generation
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
