package pygenttest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/strict"
)

// Server is a fake server with OpenAI's chat completions and Responses APIs on a
// loopback port. It answers with the replies of a script, as a stream if the
// client asks for one, and records every request. It accepts any key.
//
// It checks requests as OpenAI does and, after [Server.Strict], as another
// provider does: schemas and names of tools, fields and content of messages,
// their order, parameters, and what the requested model can do. A refused request
// gets the provider's status, code and message, and uses up no reply. The server
// accepts fields that are not in the format if it has sent them itself in a
// reply, or after [Server.Knows].
//
// It serves POST /v1/chat/completions and /v1/responses (and every other path
// with the same ending, as Azure's have) and GET /v1/models. It is safe for
// concurrent use.
type Server struct {
	http      *httptest.Server
	script    script
	requests  recorder[Request]
	rules     rules
	known     memos
	responses atomic.Int64
	closing   context.Context // ends the waits of handlers
	close     context.CancelFunc
}

// NewServer starts a server that is closed when the test ends. It fails the test
// if the server cannot start.
func NewServer(tb testing.TB, replies ...Reply) *Server {
	tb.Helper()
	s, err := Start(replies...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server outside of a test, for example in TestMain or in main.
// Close it when done.
func Start(replies ...Reply) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the fake model server: %w", err)
	}
	s := &Server{}
	s.closing, s.close = context.WithCancel(context.Background())
	s.script.add(replies)
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	s.http.Start()
	return s, nil
}

// Close stops the server and waits for its goroutines. It cuts off answers that
// are being sent. It may be called more than once.
func (s *Server) Close() {
	s.close()
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL returns the base URL for clients, "http://127.0.0.1:PORT/v1".
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Env returns the variables, each "NAME=value", that make pygent use the
// server: OPENAI_BASE_URL and OPENAI_API_KEY.
func (s *Server) Env() []string {
	return []string{"OPENAI_BASE_URL=" + s.URL(), "OPENAI_API_KEY=sk-scripted"}
}

// Add appends replies to the script.
func (s *Server) Add(replies ...Reply) *Server {
	s.script.add(replies)
	return s
}

// On gives conversations that contain text a script of their own, as
// [ScriptedModel.On] does.
func (s *Server) On(text string, replies ...Reply) *Server {
	s.script.route(text, replies)
	return s
}

// Loop makes every script of the server start again after its last reply.
func (s *Server) Loop() *Server {
	s.script.setLoop()
	return s
}

// RepeatLast makes the server repeat the last reply of a script that has ended.
func (s *Server) RepeatLast() *Server {
	s.script.setRepeat()
	return s
}

// Remaining returns how many replies were not given yet, without those of
// [Server.On].
func (s *Server) Remaining() int { return s.script.remaining() }

// Requests returns the requests received so far, in order, to any path, except for
// those of the list of models, which a client may ask for at any time.
func (s *Server) Requests() []Request { return s.requests.all() }

// KeepRequests has [Server.Requests] return only the last n requests, so that a long
// run takes no memory. 0, the default, keeps all.
func (s *Server) KeepRequests(n int) *Server {
	s.requests.keep(max(n, 0))
	return s
}

// WaitRequests waits until n requests were received in all, or returns an error
// when ctx ends. A request is received before its answer begins.
func (s *Server) WaitRequests(ctx context.Context, n int) error { return s.requests.wait(ctx, n) }

// ServeHTTP answers one request. It is exported so that the server can be
// mounted elsewhere, behind TLS or a proxy.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, &pygent.APIError{Status: http.StatusRequestEntityTooLarge, Message: err.Error()}, nil)
		return
	}
	req := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	refusal := s.decode(&req)
	if req.Method != http.MethodGet || !strings.HasSuffix(req.Path, "/models") {
		s.requests.add(req)
	}
	switch {
	case refusal != nil:
		writeRefusal(w, refusal)
	case req.isChat() || req.isResponses():
		s.serveModel(ctx, w, &req)
	case strings.HasSuffix(req.Path, "/models"):
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []object{
			{"id": modelName, "object": "model", "created": created, "owned_by": "pygenttest"},
		}})
	default:
		writeRefusal(w, notServed(http.StatusNotFound, "Unknown request URL: "+req.Method+" "+req.Path))
	}
}

// decode fills in the fields of a request to a model. It returns why the request
// is refused, or nil.
func (s *Server) decode(req *Request) *strict.Refusal {
	if !req.isChat() && !req.isResponses() {
		return nil
	}
	fields := req.decode(&s.known)
	if req.Method != http.MethodPost {
		return notServed(http.StatusMethodNotAllowed, "Not allowed to "+req.Method+" on "+req.Path)
	}
	refusal := s.rules.check(req, fields)
	if refusal == nil && req.Err != nil {
		refusal = notServed(http.StatusBadRequest, req.Err.Error())
	}
	if refusal != nil {
		req.Err = refusal
	}
	return refusal
}

// notServed returns a refusal of the server itself.
func notServed(status int, message string) *strict.Refusal {
	return &strict.Refusal{Status: status, Type: "invalid_request_error", Message: message}
}

// serveModel gives the next reply of the script.
func (s *Server) serveModel(ctx context.Context, w http.ResponseWriter, req *Request) {
	r, err := s.script.take(req.Chat)
	if err != nil {
		writeError(w, &pygent.APIError{Status: http.StatusUnprocessableEntity, Code: "script_ended", Message: err.Error()}, nil)
		return
	}
	if r.first.wait(ctx) != nil {
		abort()
	}
	for name, values := range r.header {
		w.Header()[name] = values
	}
	a := &answer{reply: r, w: w}
	if r.fault != nil && r.fault.raw {
		a.raw(ctx, s.wire(r, req, &pygent.ChatResponse{}))
		return
	}
	resp, err := r.respond(ctx, req.Chat, func() string { return s.rules.callID(s.script.callNumber()) })
	if err != nil {
		a.fail(ctx, err)
		return
	}
	s.rules.speak(&resp.Message)
	format := s.wire(r, req, resp)
	if req.Stream {
		a.stream(ctx, format, resp)
	} else {
		a.plain(format, resp)
	}
}

// wire returns the format that the request asks for.
func (s *Server) wire(r Reply, req *Request, resp *pygent.ChatResponse) wire {
	h := head{id: resp.ID, model: cmp.Or(resp.Model, req.Chat.Model, modelName), quirks: r.quirks, cost: resp.Cost}
	usage := resp.Usage
	if usage == (pygent.Usage{}) && r.usage == nil {
		usage = estimate(req.Body, resp.Message)
	}
	if usage != (pygent.Usage{}) {
		h.usage = &usage
	}
	n := s.responses.Add(1)
	if !req.isResponses() {
		h.id = cmp.Or(h.id, fmt.Sprintf("chatcmpl-%d", n))
		return &encoder{head: h, withUsage: req.IncludeUsage}
	}
	h.id = cmp.Or(h.id, fmt.Sprintf("resp_%d", n))
	format := &responder{head: h, encrypted: req.encrypted}
	s.rules.issue(format.items(resp))
	return format
}

// estimate counts a token for every four bytes.
func estimate(prompt []byte, m pygent.Message) pygent.Usage {
	n := len(m.Text())
	for _, c := range m.ToolCalls {
		n += len(c.Name) + len(c.Arguments)
	}
	return pygent.Usage{PromptTokens: int64(len(prompt)/4 + 1), CompletionTokens: int64(n/4 + 1)}
}

const (
	modelName = "scripted"
	// maxBody is the size in bytes of the largest request that is read.
	maxBody = 256 << 20
)
