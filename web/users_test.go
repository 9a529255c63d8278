package web_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// signedIn is the login of a host: a header tells who it is.
func signedIn(r *http.Request) (string, error) {
	if user := r.Header.Get("X-User"); user != "" {
		return user, nil
	}
	return "", errors.New("nobody is signed in")
}

// users is a server whose host knows who makes a request.
type users struct {
	*served
	ids map[string]string // of the session of each user
}

func serveUsers(t *testing.T, replies map[string][]pygenttest.Reply) *users {
	t.Helper()
	u := &users{serveAt(t, web.WithUser(signedIn)), map[string]string{}}
	for user, list := range replies {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("the notes of "+user), 0o600))
		id, err := u.server.Add(user, newAgent(t, pygenttest.NewScriptedModel(list...), pygent.WithWorkspace(dir)))
		require.NoError(t, err)
		u.ids[user] = id
	}
	return u
}

// as lets a user see their own session.
func (u *users) as(user string) *served {
	s := *u.served
	s.id = u.ids[user]
	s.client = &http.Client{Transport: asUser{user, u.client.Transport}}
	return &s
}

// asUser makes all requests as those of a user.
type asUser struct {
	user string
	next http.RoundTripper
}

func (a asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", a.user)
	r.Header.Del("Authorization")
	return a.next.RoundTrip(r)
}

func TestTheStreamOfAUserTellsOfTheirOwnSessionsAlone(t *testing.T) {
	u := serveUsers(t, map[string][]pygenttest.Reply{"ada": {pygenttest.Text("For Ada.")}, "eve": {pygenttest.Text("For Eve.")}})
	ada, eve := u.as("ada"), u.as("eve")
	own := eve.open("")
	spy := *eve
	spy.id = ada.id // whose position a page may name, but not see
	other := spy.open("")
	p := ada.open("")
	ada.say("Hello.")
	p.shows("<p>For Ada.</p>")
	eve.say("Hello.")
	own.shows("<p>For Eve.</p>")
	for _, p := range []*page{own, other} {
		p.until("the own session", func(p *page) bool { return len(p.list) == 1 && p.list[0]["id"] == eve.id })
		require.NotContains(t, p.now(), "For Ada.")
	}
	for _, o := range other.look().ops {
		require.NotEqual(t, ada.id, o.Session)
	}
}

// No function of the API is there for the session of somebody else.
func TestNoFunctionReachesTheSessionOfAnotherUser(t *testing.T) {
	u := serveUsers(t, map[string][]pygenttest.Reply{"ada": nil, "eve": nil})
	eve := u.as("eve")
	tried := 0
	for _, pattern := range web.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "{s}") {
			continue
		}
		tried++
		path = strings.NewReplacer("{s}", u.ids["ada"], "{id}", "a1", "{t}", "t1").Replace(path)
		r := eve.request(method, path+"?path=notes.txt&line=/help", "{}")
		if method == http.MethodPut {
			r.Header.Set("Content-Type", "application/octet-stream")
		}
		status, body := eve.do(r)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", pattern, body)
		require.Contains(t, string(body), `"no_session"`, pattern)
	}
	require.Greater(t, tried, 25)
}

func TestALinkOfAUserIsOfNoUseToOthers(t *testing.T) {
	u := serveUsers(t, map[string][]pygenttest.Reply{"ada": nil, "eve": nil})
	ada := u.as("ada")
	var link struct{ URL string }
	ada.post("/downloads", map[string]string{"path": "notes.txt"}, &link)
	get := func(s *served) (int, string) {
		resp, err := s.client.Get(s.url + link.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := get(u.as("eve"))
	require.Equal(t, http.StatusGone, status, body)
	status, body = get(u.served) // who is not signed in
	require.Equal(t, http.StatusUnauthorized, status, body)
	status, body = get(ada)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "the notes of ada", body)
	status, _ = get(ada)
	require.Equal(t, http.StatusGone, status)
}

func TestAUserCannotUseUpTheLinksOfOthers(t *testing.T) {
	u := serveUsers(t, map[string][]pygenttest.Reply{"ada": nil, "eve": nil})
	ada, eve := u.as("ada"), u.as("eve")
	status := http.StatusOK
	for range 1000 {
		if status, _ = eve.do(eve.request(http.MethodPost, "/sessions/"+eve.id+"/downloads", map[string]string{"path": "notes.txt"})); status != http.StatusOK {
			break
		}
	}
	require.Equal(t, http.StatusTooManyRequests, status)
	ada.post("/downloads", map[string]string{"path": "notes.txt"}, nil)
}

func TestAUserCannotUseUpTheStreamsAndSessionsOfOthers(t *testing.T) {
	u := &users{serveAt(t, web.WithUser(signedIn), web.WithLimits(web.Limits{Streams: 2, Sessions: 1})), map[string]string{}}
	for _, user := range []string{"ada", "eve"} {
		id, err := u.server.Add(user, newAgent(t, pygenttest.NewScriptedModel()))
		require.NoError(t, err)
		u.ids[user] = id
	}
	_, err := u.server.Add("eve", newAgent(t, pygenttest.NewScriptedModel()))
	require.ErrorContains(t, err, "too many sessions")
	eve := u.as("eve")
	one, _ := eve.open(""), eve.open("")
	status, body := eve.do(eve.request(http.MethodPost, "/stream", `{"views":{}}`))
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, string(body), "close one first")
	status, _ = eve.do(eve.request(http.MethodGet, "/sessions/"+eve.id+"/events", nil))
	require.Equal(t, http.StatusTooManyRequests, status, "streams of events count, too")
	u.as("ada").open("")
	one.close()
	require.Eventually(t, func() bool { // the server hears that the page has left
		r := eve.request(http.MethodGet, "/sessions/"+eve.id+"/events", nil)
		resp, err := eve.client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 5*time.Millisecond)
}
