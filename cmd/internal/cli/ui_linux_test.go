package cli

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// The page ends by Ctrl-C, and its session goes on at a terminal.
func TestTheSessionOfAPageIsKept(t *testing.T) {
	u := newUser(t, pygenttest.Text("Hello."))
	cmd := u.command("ui", "--no-open", "--no-docker", "Say hello.")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errs := &strings.Builder{}
	cmd.Stderr = errs
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	at := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#token=(\w{52})\n$`).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	get := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at[1]+"/api/v1"+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+at[2])
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return string(body)
	}
	id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(get("/sessions"))
	require.NotNil(t, id)
	require.Eventually(t, func() bool { return strings.Contains(get("/sessions/"+id[1]+"/history"), "Hello.") }, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), errs.String())
	require.Contains(t, errs.String(), "kept as session "+id[1])
	require.Equal(t, "Say hello.", u.session().Title)
}
