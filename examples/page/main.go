// Command page shows an agent in a browser: what it says and does while it
// happens, and its questions to the user. Give it a task, or type one there. It works in
// PYGENT_WORKSPACE, as AGENTS.md there says, or in a temporary directory.
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/project"
)

//go:embed page.html
var html string

func init() { pygent.RegisterFace(pygent.FaceWeb, show) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	agent, err := pygent.New(pygent.WithApprovalFor("bash", "write_file", "edit_file"), pygent.WithTools(askUser), project.Read())
	if err == nil {
		defer agent.Close()
		if len(os.Args) > 1 {
			agent.Say(chat.UserMessage(strings.Join(os.Args[1:], " ")))
		}
		err = agent.RunGUI(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
	}
}

// askUser lets the model ask in the middle of its work.
var askUser = pygent.NewTool("ask_user", "Ask the user something in the middle of your work, and wait for the answer.",
	func(ctx context.Context, _ pygent.Runtime, q pygent.Question) (pygent.Answer, error) {
		return pygent.Ask(ctx, q)
	})

// page serves one agent to the browsers that know the token.
type page struct {
	agent *pygent.Agent
	token string
	said  chan struct{}
	stop  atomic.Pointer[context.CancelFunc] // of the last run

	mu      sync.Mutex
	asked   []asked       // what waits for the user; never changed in place
	changed chan struct{} // closed when that changes
	last    int           // the id of the last that was asked
}

// asked is a question to the user: whether a call may run, or one of a tool.
type asked struct {
	ID       int                     `json:"id"`
	Approval *pygent.ApprovalRequest `json:"approval,omitempty"`
	Question *pygent.AskRequest      `json:"question,omitempty"`
	answer   chan input
}

// input is what a browser sends.
type input struct {
	Text                 string
	Asked                int // the id of the question that is answered, if any
	Answer               pygent.Answer
	Stop, Allow, Session bool
}

// show serves the page until ctx ends.
func show(ctx context.Context, s pygent.FaceSession) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &page{agent: s.Agent, token: rand.Text(), said: make(chan struct{}, 1), changed: make(chan struct{})}
	p.wake() // for what the program said
	p.agent.SetApproval(func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		in, err := p.ask(ctx, asked{Approval: &r})
		return pygent.Decision{Allow: in.Allow, Session: in.Session, By: "user"}, err
	})
	p.agent.SetAsk(func(ctx context.Context, r pygent.AskRequest) (pygent.Answer, error) {
		in, err := p.ask(ctx, asked{Question: &r})
		return in.Answer, err
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.index)
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /say", p.say)
	server := &http.Server{Handler: http.NewCrossOriginProtection().Handler(p.guard(l.Addr().String(), mux))}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	go p.work(ctx)
	fmt.Fprintf(s.Out, "http://%s/#%s\n", l.Addr(), p.token)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard keeps other users, and other sites in the user's browser, out. The page itself has
// nothing to hide; its script has the token from the fragment of the address. There is no
// cookie: browsers send one to all ports of a host, and a server of the agent's may be there.
func (p *page) guard(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := r.URL.Path == "/" || r.URL.Query().Get("token") == p.token
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

func (p *page) wake() {
	select {
	case p.said <- struct{}{}:
	default: // it is awake
	}
}

// ask asks on the page, and waits for the answer.
func (p *page) ask(ctx context.Context, q asked) (input, error) {
	q.answer = make(chan input, 1)
	p.mu.Lock()
	p.last++
	q.ID = p.last
	p.setAsked(append(slices.Clone(p.asked), q))
	p.mu.Unlock()
	select {
	case in := <-q.answer:
		return in, nil
	case <-ctx.Done():
		p.answer(input{Asked: q.ID}) // which takes the question back
		return input{}, ctx.Err()
	}
}

// answer reports false if the question is no longer asked.
func (p *page) answer(in input) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.asked, func(q asked) bool { return q.ID == in.Asked })
	if i >= 0 {
		p.asked[i].answer <- in
		p.setAsked(slices.Delete(slices.Clone(p.asked), i, i+1))
	}
	return i >= 0
}

// setAsked changes what waits for the user. The caller holds mu.
func (p *page) setAsked(list []asked) {
	p.asked = list
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *page) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "+
		"script-src 'nonce-"+nonce+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	fmt.Fprint(w, strings.Replace(html, "NONCE", nonce, 1))
}

// events sends the conversation so far, and then every event and every question.
// A browser that lost the connection goes on after the last event that it got.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	after, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	send := func(kind string, v any) {
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", after, kind, data)
		w.(http.Flusher).Flush()
	}
	if err != nil {
		state := p.agent.State() // before the messages: see Agent.State
		after = state.Seq
		send("history", map[string]any{"state": state, "entries": p.agent.History().Entries()})
	}
	events := make(chan pygent.Event)
	go func() {
		defer close(events)
		for e, err := range p.agent.Subscribe(r.Context(), after) {
			if err != nil {
				e = pygent.Event{Type: "gone"} // the page begins anew
			}
			select {
			case events <- e:
			case <-r.Context().Done():
				return
			}
		}
	}()
	for {
		p.mu.Lock()
		asked, changed := p.asked, p.changed
		p.mu.Unlock()
		send("asked", asked)
		for waiting := true; waiting; {
			select {
			case e, more := <-events:
				if !more {
					return
				}
				after = e.Seq
				send("agent", e)
			case <-changed:
				waiting = false
			}
		}
	}
}

// say takes what the user types, and the answers to questions.
func (p *page) say(w http.ResponseWriter, r *http.Request) {
	var in input
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in)
	if in.Asked != 0 && !p.answer(in) {
		err = errors.New("the question was answered, or is no longer asked")
	}
	if cancel := p.stop.Load(); in.Stop && cancel != nil {
		(*cancel)()
	}
	if in.Text != "" {
		_, err = p.agent.Say(chat.UserMessage(in.Text))
		p.wake()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}
