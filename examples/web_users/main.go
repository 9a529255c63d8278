// Command web_users lets the people of a program with a web server of its own have
// sessions on a page, each only theirs. The page is below /agent, behind the program's
// login, and ends with it. The model only repeats what it hears, so no key is needed;
// sign in as ada with the password lovelace, or as bob with the password builder.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	kept, err := os.MkdirTemp("", "web_users-") // a real program keeps them
	if err != nil {
		return err
	}
	defer os.RemoveAll(kept)
	agents, err := web.New(web.WithBasePath("/agent"), web.WithUser(signedIn),
		web.WithOpen(directory(kept).open), web.WithList(directory(kept).list),
		web.WithLimits(web.Limits{Sessions: 5, Upload: 10 << 20}))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "The page of the program. Its agents are at /agent/.")
	})
	mux.Handle("/agent/", login(agents))
	return serve(ctx, mux, agents)
}

// serve serves until ctx ends. The sessions end first, and their streams with them, so
// that the web server need not wait for pages that are open.
func serve(ctx context.Context, handler http.Handler, agents *web.Server) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, agents.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Printf("http://%s/agent/\n", listener.Addr())
	select {
	case err = <-ended:
		return errors.Join(err, agents.Close())
	case <-ctx.Done():
	}
	err = agents.Close()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(within))
	fmt.Println("all sessions are closed")
	return err
}

// passwords are those of the users. A real program has none in its source.
var passwords = map[string]string{"ada": "lovelace", "bob": "builder"}

// signedIn says who makes a request.
func signedIn(r *http.Request) (string, error) {
	user, given, _ := r.BasicAuth()
	want, known := passwords[user]
	if !known || subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1 {
		return "", errors.New("nobody is signed in")
	}
	return user, nil
}

// login has the browser ask who it is. The server of the agents asks signedIn, too: what
// it does for a user never depends on what is in front of it.
func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := signedIn(r); err != nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="agents"`)
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// directory has a directory of sessions for each user.
type directory string

// list lists the sessions of a user.
func (s directory) list(_ context.Context, user string) ([]sessions.Info, error) {
	list, err := sessions.List(filepath.Join(string(s), user))
	if errors.Is(err, os.ErrNotExist) {
		err = nil // the user has none yet
	}
	return list, err
}

// open makes the agent of a session. One that goes on is in the list: the server checks
// that.
func (s directory) open(_ context.Context, o web.Open) (*pygent.Agent, error) {
	id := o.Continue
	if id == "" {
		id = sessions.NewID()
	}
	return pygent.New(pygent.WithModel(pygent.ModelFunc(repeat)), sessions.Keep(filepath.Join(string(s), o.User, id)))
}

// repeat is the model.
func repeat(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	heard := req.Messages[len(req.Messages)-1].Text()
	return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: "You said: " + heard}}, nil
}
