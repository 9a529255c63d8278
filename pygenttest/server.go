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
	"github.com/x/pygent/internal/strict"
)

// Server is a fake server with OpenAI's chat completions and Responses APIs on a
// loopback port. It answers with the replies of a script, as a stream where that is
// asked for, and records every request. Any key is accepted.
//
// Requests are checked as OpenAI checks them, and as another provider does
// after [Server.Strict]: schemas and names of tools, fields and content of
// messages, their order, parameters, what the model named can do. A refused
// request gets the provider's status, code and words, and uses up no reply.
// Fields beyond the format are taken back from clients once the server has
// sent them in a reply of the script.
//
// It serves POST /v1/chat/completions and /v1/responses (and every other path
// that ends like them, as Azure's do) and GET /v1/models. It is safe for concurrent use.
type Server struct {
	http      *httptest.Server
	script    script
	requests  recorder[Request]
	rules     rules
	responses atomic.Int64
	closing   context.Context // ends what handlers wait for
	close     context.CancelFunc
}

// NewServer starts a server that is closed when the test ends.
func NewServer(tb testing.TB, replies ...Reply) *Server {
	tb.Helper()
	s, err := Start(replies...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server outside of a test, in a TestMain or a main function,
// say. Close it when done.
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

// Close stops the server, cutting answers that are being given, and waits for
// its goroutines. It may be called more than once.
func (s *Server) Close() {
	s.close()
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the base URL for clients, "http://127.0.0.1:PORT/v1".
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

// Loop starts every script of the server again after its last reply.
func (s *Server) Loop() *Server {
	s.script.setLoop()
	return s
}

// RepeatLast gives the last reply of a script again when it has ended.
func (s *Server) RepeatLast() *Server {
	s.script.setRepeat()
	return s
}

// Remaining returns how many replies were not given yet, those of [Server.On]
// not counted.
func (s *Server) Remaining() int { return s.script.remaining() }

// Requests returns the requests received so far, in order, whatever their
// path.
func (s *Server) Requests() []Request { return s.requests.all() }

// WaitRequests returns when n requests were received in all, or with an error
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
	answers := req.isChat() || req.isResponses()
	if answers {
		req.decode()
	}
	var refusal *strict.Refusal
	if answers && r.Method == http.MethodPost {
		if refusal = s.rules.check(&req); refusal != nil {
			req.Err = refusal
		}
	}
	s.requests.add(req)
	switch {
	case answers && r.Method != http.MethodPost:
		writeError(w, &pygent.APIError{Status: http.StatusMethodNotAllowed, Message: "Not allowed to " + r.Method + " on " + r.URL.Path}, nil)
	case refusal != nil:
		writeRefusal(w, refusal)
	case answers && req.Err != nil:
		writeError(w, &pygent.APIError{Status: http.StatusBadRequest, Message: req.Err.Error()}, nil)
	case answers:
		s.serveModel(ctx, w, &req)
	case strings.HasSuffix(r.URL.Path, "/models"):
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []object{
			{"id": modelName, "object": "model", "created": created, "owned_by": "pygenttest"},
		}})
	default:
		writeError(w, &pygent.APIError{Status: http.StatusNotFound, Message: "Unknown request URL: " + r.Method + " " + r.URL.Path}, nil)
	}
}

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
	h := head{id: resp.ID, model: cmp.Or(resp.Model, req.Chat.Model, modelName), quirks: r.quirks}
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
	// maxBody bounds what is read of a request.
	maxBody = 256 << 20
)
