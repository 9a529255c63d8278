// Command page shows an agent in a browser: what it says and does while it
// happens, and questions about its calls. Give it a task, or type one there.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/x/pygent"
)

//go:embed page.html
var html []byte

func init() { pygent.RegisterFace(pygent.FaceWeb, show) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	agent, err := pygent.New(pygent.WithApprovalFor("bash", "write_file", "edit_file"))
	if err == nil {
		defer agent.Close()
		if len(os.Args) > 1 {
			agent.Say(pygent.UserMessage(strings.Join(os.Args[1:], " ")))
		}
		err = agent.RunGUI(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
	}
}

// page serves one agent to the browsers that know the token.
type page struct {
	agent *pygent.Agent
	token string
	said  chan struct{}
	stop  atomic.Pointer[context.CancelFunc] // of the last run
	asked sync.Map                           // the calls in question, by id: chan pygent.Decision
}

// show serves the page until ctx ends.
func show(ctx context.Context, s pygent.FaceSession) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &page{agent: s.Agent, token: rand.Text(), said: make(chan struct{}, 1)}
	p.wake() // for what the program said
	p.agent.SetApproval(p.approve)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.index)
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /say", p.say)
	server := &http.Server{Handler: http.NewCrossOriginProtection().Handler(p.guard(l.Addr().String(), mux))}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	go p.work(ctx)
	fmt.Fprintf(s.Out, "http://%s/?token=%s\n", l.Addr(), p.token)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard keeps other users, and other sites in the user's browser, out.
func (p *page) guard(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("pygent")
		known := err == nil && cookie.Value == p.token || r.URL.Query().Get("token") == p.token
		if r.Host != host || !known {
			http.Error(w, "open the address that the program printed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// work runs the agent whenever something was said. How a run ends is an event.
func (p *page) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.said:
		}
		if len(p.agent.State().Unheard) > 0 {
			run, cancel := context.WithCancel(ctx)
			p.stop.Store(&cancel)
			p.agent.RunUntilStop(run, "", pygent.WithEndOnReply())
			cancel()
		}
	}
}

// approve asks on the page.
func (p *page) approve(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	answer := make(chan pygent.Decision, 1)
	p.asked.Store(r.Call.ID, answer)
	defer p.asked.Delete(r.Call.ID)
	select {
	case d := <-answer:
		return d, nil
	case <-ctx.Done():
		return pygent.Decision{}, ctx.Err()
	}
}

func (p *page) index(w http.ResponseWriter, _ *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "pygent", Value: p.token, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'")
	w.Write(html)
}

// events sends the conversation so far, and then every event. A browser that
// lost the connection goes on after the last event that it got.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	send := func(id int64, kind string, v any) {
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", id, kind, data)
		w.(http.Flusher).Flush()
	}
	after, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		state := p.agent.State() // before the messages: see Agent.State
		after = state.Seq
		send(after, "history", map[string]any{"state": state, "messages": p.agent.History().Messages()})
	}
	for e, err := range p.agent.Subscribe(r.Context(), after) {
		if err != nil {
			send(0, "gone", err.Error()) // the page begins anew
			return
		}
		send(e.Seq, "agent", e)
	}
}

// say takes what the user types, and the answers to questions.
func (p *page) say(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text, Call           string
		Stop, Allow, Session bool
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in)
	if answer, ok := p.asked.LoadAndDelete(in.Call); ok {
		answer.(chan pygent.Decision) <- pygent.Decision{Allow: in.Allow, Session: in.Session, By: "user"}
	}
	if cancel := p.stop.Load(); in.Stop && cancel != nil {
		(*cancel)()
	}
	if in.Text != "" {
		_, err = p.agent.Say(pygent.UserMessage(in.Text))
		p.wake()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (p *page) wake() {
	select {
	case p.said <- struct{}{}:
	default: // it is awake
	}
}
