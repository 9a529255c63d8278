package web_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

func TestOnlyTheUsersOwnPageIsAnswered(t *testing.T) {
	s := serve(t, nil)
	for name, tt := range map[string]struct {
		change func(r *http.Request)
		status int
		code   string
	}{
		"the page":              {func(r *http.Request) {}, http.StatusAccepted, ""},
		"a browser of the page": {func(r *http.Request) { r.Header.Set("Origin", s.url); r.Header.Set("Sec-Fetch-Site", "same-origin") }, http.StatusAccepted, ""},
		"localhost":             {func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() }, http.StatusAccepted, ""},
		"no token":              {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized, "unauthorized"},
		"a wrong token":         {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", 52)) }, http.StatusUnauthorized, "unauthorized"},
		"the token as a cookie": {func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(&http.Cookie{Name: "token", Value: s.token})
		}, http.StatusUnauthorized, "unauthorized"},
		"the token in the query": {func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + s.token }, http.StatusUnauthorized, "unauthorized"},
		"another name":           {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest, "wrong_host"},
		"a name that ends alike": {func(r *http.Request) { r.Host = "evil.localhost:80" }, http.StatusMisdirectedRequest, "wrong_host"},
		"another port":           {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden, "wrong_origin"},
		"a sandboxed frame":      {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden, "wrong_origin"},
		"two origins":            {func(r *http.Request) { r.Header["Origin"] = []string{s.url, "http://evil.example"} }, http.StatusForbidden, "wrong_origin"},
		"another site":           {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden, "wrong_origin"},
		"the same site":          {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden, "wrong_origin"},
		"a form":                 {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType, "content_type"},
		"no type":                {func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType, "content_type"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.request(http.MethodPost, "/sessions/"+s.id+"/messages", `{"text":"Hi."}`)
			tt.change(r)
			status, body := s.do(r)
			require.Equal(t, tt.status, status, "%s", body)
			if tt.code != "" {
				require.Contains(t, string(body), `"code":"`+tt.code+`"`)
			}
		})
	}
}

func TestEveryAnswerHasTheHeadersOfSafety(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/", "/assets/index.html", "/api/v1/sessions", "/nothing", "/download/none"} {
		resp, err := s.client.Get(s.url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		h := resp.Header
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';", path)
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
		require.Empty(t, h.Get("Set-Cookie"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
	}
}

func TestFilesOfThePageAreNotGivenUnderForeignNames(t *testing.T) {
	s := serveAt(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	status, _ := s.do(r)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	for _, path := range []string{"/assets/../server.go", "/assets/%2e%2e/server.go", "/assets/none.js", "/assets/"} {
		resp, err := s.client.Get(s.url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNotFound, resp.StatusCode, path)
	}
}

func TestFilesOfThePageAreCached(t *testing.T) {
	s := serveAt(t)
	resp, err := s.client.Get(s.url + "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", nil)
	require.NoError(t, err)
	r.Header.Set("If-None-Match", resp.Header.Get("ETag"))
	status, body := s.do(r)
	require.Equal(t, http.StatusNotModified, status)
	require.Empty(t, body)
}

func TestUsersSeeOnlyTheirOwnSessions(t *testing.T) {
	s := serveAt(t, web.WithUser(func(r *http.Request) (string, error) {
		user := r.Header.Get("X-User")
		if user == "" {
			return "", errors.New("nobody is signed in")
		}
		return user, nil
	}))
	s.agent = newAgent(t, pygenttest.NewScriptedModel())
	id, err := s.server.Add("ada", s.agent)
	require.NoError(t, err)
	as := func(user, method, path, body string) (int, string) {
		r := s.request(method, path, body)
		if user != "" {
			r.Header.Set("X-User", user)
		}
		status, answer := s.do(r)
		return status, string(answer)
	}
	status, body := as("ada", http.MethodGet, "/sessions", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, id)
	status, body = as("eve", http.MethodGet, "/sessions", "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, body, id)
	status, _ = as("", http.MethodGet, "/sessions", "")
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestRequestsAreBounded(t *testing.T) {
	s := serveAt(t, web.WithLimits(web.Limits{Body: 1000, Sessions: 1}))
	s.agent = newAgent(t, pygenttest.NewScriptedModel())
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	status, body := s.do(s.request(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"`+strings.Repeat("x", 2000)+`"}`))
	require.Equal(t, http.StatusRequestEntityTooLarge, status, "%s", body)
	status, _ = s.do(s.request(http.MethodPost, "/sessions/"+id+"/messages", `{"text":"x","more":1}`))
	require.Equal(t, http.StatusBadRequest, status)
	_, err = s.server.Add("", newAgent(t, pygenttest.NewScriptedModel()))
	require.ErrorContains(t, err, "too many sessions")
	_, err = s.server.Add("", s.agent)
	require.ErrorContains(t, err, "already shown")
}

func TestWrongOptionsAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		opt  web.Option
		says string
	}{
		"a short token": {web.WithToken("secret"), "the token has 6 characters"},
		"a base path":   {web.WithBasePath("agent"), "does not start with a slash"},
		"an origin":     {web.WithFrameAncestors("https://a.example; script-src *"), "is not an origin"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := web.New(tt.opt)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestOthersAreLetInOnlyExplicitlyAndSafely(t *testing.T) {
	s := serveAt(t)
	for name, tt := range map[string]struct {
		o    web.ServeOptions
		says string
	}{
		"all addresses":  {web.ServeOptions{Listen: ":0"}, "is reachable from other machines"},
		"one of them":    {web.ServeOptions{Listen: "192.0.2.1:0"}, "is reachable from other machines"},
		"a name":         {web.ServeOptions{Listen: "example.com:0"}, "is reachable from other machines"},
		"without TLS":    {web.ServeOptions{Listen: "0.0.0.0:0", AllowRemote: true}, "only over TLS"},
		"no certificate": {web.ServeOptions{Listen: "127.0.0.1:0", CertFile: "none"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, web.Serve(t.Context(), s.server, tt.o), tt.says)
		})
	}
}

func TestWhatOthersSayIsText(t *testing.T) {
	const evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066"
	s := serve(t, []pygenttest.Reply{
		pygenttest.TextAndCalls(evil+"\n\n[a](javascript:alert(1)) ![b](https://evil.example/x.png) <b onclick=x>c</b>\n\n```<script>\n</code></pre>"+evil+"\n```\n",
			pygenttest.Call("bash", map[string]any{"cmd": "printf '%s\\033[31m\\007' '" + evil + "'"})),
		pygenttest.Call("nothing\"><script>", map[string]any{"x": evil}),
		pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil, `" onclick="x`}}),
	})
	p := s.open("")
	s.say(evil)
	a := s.asked()
	s.post("/asks/"+a.ID, map[string]any{"decision": "once"}, nil)
	p.shows("Pygent asks")
	p.rests()
	now := p.now()
	for _, wrong := range []string{"<script", "<img", "onerror=alert(1)>", " onclick=\"", "href=\"javascript", "\x1b", "\a", "\u202e", "\u2066"} {
		require.NotContains(t, now, wrong)
	}
	require.Contains(t, now, "&lt;script&gt;")
	require.NotContains(t, p.look().state.Title, "\u202e")
	require.NotContains(t, now, " style=")
	require.NotContains(t, now, " id=")
}

func TestAWrongMethodIsToldWhichIsRight(t *testing.T) {
	s := serveAt(t, web.WithBasePath("/agent"))
	for path, allowed := range map[string]string{"/api/v1/sessions": "GET, POST", "/api/v1/sessions/x/file": "GET, PUT", "/assets/page.js": "GET", "/": "GET"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+"/agent"+path, nil)
		require.NoError(t, err)
		resp, err := s.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, path)
		require.Equal(t, allowed, resp.Header.Get("Allow"), path)
	}
}
