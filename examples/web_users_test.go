package examples_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUsersHaveSessionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	host := startHost(t)
	require.Contains(t, host.get("", "/", http.StatusOK), "The page of the program")
	host.get("", "/agent/", http.StatusUnauthorized)
	host.get("ada:guess", "/agent/", http.StatusUnauthorized)
	require.Contains(t, host.get("ada:lovelace", "/agent/", http.StatusOK), "<title>")

	const ada, bob = "ada:lovelace", "bob:builder"
	var made struct{ ID string }
	host.post(ada, "sessions", `{}`, http.StatusCreated, &made)
	session := "/agent/api/v1/sessions/" + made.ID
	host.post(ada, "sessions/"+made.ID+"/messages", `{"text":"Hello."}`, http.StatusAccepted, nil)
	require.Eventually(t, func() bool {
		return strings.Contains(host.get(ada, session+"/history", http.StatusOK), "You said: Hello.")
	}, time.Minute, 5*time.Millisecond)
	require.NotContains(t, host.get(bob, "/agent/api/v1/sessions", http.StatusOK), made.ID)
	host.get(bob, session, http.StatusNotFound)
	host.post(bob, "sessions", `{"continue":"`+made.ID+`"}`, http.StatusNotFound, nil)
	host.post(bob, "sessions", `{"continue":"../ada/`+made.ID+`"}`, http.StatusNotFound, nil)

	// A session that was closed goes on.
	host.do(ada, http.MethodDelete, session, "", http.StatusNoContent)
	host.get(ada, session, http.StatusNotFound)
	host.post(ada, "sessions", `{"continue":"`+made.ID+`"}`, http.StatusCreated, nil)
	require.Contains(t, host.get(ada, session+"/history", http.StatusOK), "You said: Hello.")

	// The program ends although a page is open.
	stream := host.send(ada, http.MethodPost, "/agent/api/v1/stream", `{"views":{"`+made.ID+`":""}}`)
	require.Equal(t, http.StatusOK, stream.StatusCode)
	require.NoError(t, host.cmd.Process.Signal(os.Interrupt))
	_, err := io.Copy(io.Discard, stream.Body)
	require.NoError(t, err)
	rest, err := io.ReadAll(host.out)
	require.NoError(t, err)
	require.Equal(t, "all sessions are closed\n", string(rest))
	require.NoError(t, host.cmd.Wait())
}

// host is the example web_users at work.
type host struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
	url string
}

func startHost(t *testing.T) *host {
	t.Helper()
	cmd := example(t.Context(), t, "web_users")
	cmd.Env = append(os.Environ(), "PYGENT_USE_DOCKER=0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := &host{t: t, cmd: cmd, out: bufio.NewReader(stdout)}
	address, err := h.out.ReadString('\n')
	require.NoError(t, err)
	h.url = strings.TrimSuffix(strings.TrimSpace(address), "/agent/")
	return h
}

// send makes a request of a user, "name:password".
func (h *host) send(user, method, path, body string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (h *host) do(user, method, path, body string, status int) string {
	h.t.Helper()
	resp := h.send(user, method, path, body)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	require.Equal(h.t, status, resp.StatusCode, "%s", answer)
	return string(answer)
}

func (h *host) get(user, path string, status int) string {
	h.t.Helper()
	return h.do(user, http.MethodGet, path, "", status)
}

func (h *host) post(user, path, body string, status int, into any) {
	h.t.Helper()
	answer := h.do(user, http.MethodPost, "/agent/api/v1/"+path, body, status)
	if into != nil {
		require.NoError(h.t, json.Unmarshal([]byte(answer), into))
	}
}
