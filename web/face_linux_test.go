package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

func TestAnAgentIsShownUntilTheContextEnds(t *testing.T) {
	dir := t.TempDir()
	browser := "#!/bin/sh\ntest -f \"$(dirname \"$(dirname \"$1\")\")/owner\" && cp \"$1\" '" + dir + "/part' && mv '" + dir + "/part' '" + dir + "/opened'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(browser), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r, w := io.Pipe()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Hello.")), pygent.WithIO(nil, w), pygent.WithFirstMessage(chat.UserMessage("Hi.")))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.RunGUI(ctx) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	at := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#token=([A-Z2-7]{52})\n$`).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	s := &served{t: t, url: at[1], token: at[2], client: &http.Client{Transport: &http.Transport{}}, agent: agent, id: agent.ID()}
	require.Eventually(t, func() bool {
		opened, err := os.ReadFile(filepath.Join(dir, "opened"))
		return err == nil && strings.Contains(string(opened), `url=`+strings.TrimSpace(line)+`"`)
	}, patience, 5*time.Millisecond, "the browser is led there by a file, because others can read arguments")
	defer s.client.CloseIdleConnections()
	p := s.open("")
	p.shows("</span>Hi.<", "<p>Hello.</p>")
	cancel()
	require.NoError(t, <-ended)
	p.until("the end", func(p *page) bool { return p.ended })
	require.Equal(t, pygent.ActivityIdle, agent.State().Activity)
}

func TestTwoServersHaveTwoTokens(t *testing.T) {
	one, other := serveAt(t), serveAt(t)
	require.NotEqual(t, one.token, other.token)
	one.token = other.token
	status, _ := one.do(one.request(http.MethodGet, "/sessions", nil))
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestTheServerIsServedBelowABasePath(t *testing.T) {
	s := serveAt(t, web.WithBasePath("/agent/"))
	s.url += "/agent"
	status, body := s.do(s.request(http.MethodGet, "/sessions", nil))
	require.Equal(t, http.StatusOK, status, "%s", body)
	resp, err := s.client.Get(s.url + "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	resp, err = s.client.Get(strings.TrimSuffix(s.url, "/agent") + "/api/v1/sessions")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}
