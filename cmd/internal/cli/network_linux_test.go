package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// companyProxy starts a proxy that takes the place of the network, and returns
// the environment with which the command uses it. It answers for every host with
// hello and the host's name.
func companyProxy(t *testing.T) (env []string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s\n", r.URL.Host)
	}))
	t.Cleanup(proxy.Close)
	return []string{"http_proxy=" + proxy.URL, "HTTP_PROXY=" + proxy.URL, "https_proxy=", "HTTPS_PROXY=", "no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost"}
}

// fetch makes the model get a page from a host.
func fetch(host string) pygenttest.Reply {
	return bash(fmt.Sprintf(`python3 -c 'import urllib.request as u; print(u.urlopen("http://%s/").read().decode())'`, host))
}

func TestRunReachesAllowedHostsAndNamesOthers(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	server := pygenttest.NewServer(t, fetch("allowed.example.com"), fetch("a.example.com"), fetch("b.example.com"), pygenttest.Call("stop", map[string]any{"summary": "done"}))
	cmd := command(t, append(server.Env(), companyProxy(t)...), "run", "--docker", "--image", image, "--history", "talk.json", "--allow-host", "allowed.example.com", "go")
	got := finish(t, cmd)
	require.Zero(t, got.code, got.stderr)
	h, err := chat.OpenHistory(filepath.Join(cmd.Dir, "talk.json"))
	require.NoError(t, err)
	results := toolResults(h.Messages())
	require.NoError(t, h.Close())
	require.Contains(t, results[0], "hello from allowed.example.com")
	require.Contains(t, results[1], "the network refused a.example.com ")
	require.Contains(t, got.stderr, "commands reach allowed.example.com on port 80")
	require.True(t, strings.HasSuffix(got.stderr, "commands could not reach a.example.com, b.example.com; to allow this, use --allow-host a.example.com,b.example.com\n"), got.stderr)
}

// requireDecided checks whether commands got what they wanted from a host that the
// user was asked about.
func requireDecided(t *testing.T, results []string, host string, gets bool) {
	t.Helper()
	for _, result := range results {
		require.Equal(t, gets, strings.Contains(result, "hello from "+host), result)
		require.Equal(t, !gets, strings.Contains(result, "the network refused "+host), result)
		require.NotContains(t, result, "--allow-host", "the user has decided")
	}
}

// requireKept checks whether a host is allowed for good in the user's configuration.
func requireKept(t *testing.T, home, host string, kept bool) {
	t.Helper()
	file := filepath.Join(home, ".pygent.toml")
	if !kept {
		require.NoFileExists(t, file)
		return
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "[container]\nallowed_hosts = [\""+host+"\"]\n", string(written))
}

func TestPlainSessionAsksAboutHosts(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	question := []string{
		"A command wants to reach xn--pypi-4ve.example.com (punycode: another script)\n",
		"Allow that? [y]es, for this command, for this [s]ession, [a]lways, [n]o, or say why not: ",
	}
	tests := []struct {
		name, answer string
		again        bool // whether the second command asks again
		gets, kept   bool
	}{
		{"once", "y\n", true, true, false},
		{"for the session", "s\n", false, true, false},
		{"always", "always\n", false, true, true},
		{"no", "n\n", false, false, false},
		{"no, with a reason", "not this one\n", false, false, false},
		{"a slip", "ye\ny\n", true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := "xn--pypi-4ve.example.com"
			server := pygenttest.NewServer(t, fetch(host), fetch(host), pygenttest.Text("I see."))
			cmd := command(t, append(server.Env(), companyProxy(t)...), "--docker", "--image", image)
			home := t.TempDir()
			cmd.Env = append(cmd.Env, "HOME="+home)
			term := openPlain(t, cmd)
			term.expect("/exit leaves.\n> ")
			term.send("go\n")
			for answer := range strings.Lines(tt.answer) {
				term.expect(question[0])
				term.expect(question[1])
				term.answers(answer)
			}
			if tt.again {
				term.expect(question[0])
				term.expect(question[1])
				term.answers("y\n")
			}
			term.expect("I see.\n> ")
			term.send("/exit\n")
			requireDecided(t, toolResults(term.leaves()), host, tt.gets)
			requireKept(t, home, host, tt.kept)
		})
	}
}

func TestPlainCtrlCAtAQuestionAboutHostsEndsTheTurn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, fetch("a.example.com"), pygenttest.Text("I see."))
	term := openPlain(t, command(t, append(server.Env(), companyProxy(t)...), "--docker", "--image", dockerImage(t)))
	term.expect("/exit leaves.\n> ")
	term.send("go\n")
	term.expect("A command wants to reach a.example.com\n")
	term.expect("why not: ")
	term.send(ctrlC)
	term.expect("(interrupted)\n")
	term.expect("> ")
	term.send("and now?\n")
	term.expect("I see.\n> ")
	term.send("/exit\n")
	term.leaves()
}

func TestASessionAsksAboutHosts(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	for _, tt := range []struct {
		name, key  string
		again      bool // whether the second command asks again
		gets, kept bool
	}{
		{"once", "y", true, true, false},
		{"for the session", "s", false, true, false},
		{"always", "a", false, true, true},
		{"no", "n", false, false, false},
		{"no, with a reason", "r", false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := "xn--pypi-4ve.example.com"
			server := pygenttest.NewServer(t, fetch(host), fetch(host), pygenttest.Text("I see."))
			home := t.TempDir()
			p := atTerminal(t, command(t, append(append(server.Env(), companyProxy(t)...), "HOME="+home), "--docker", "--image", image))
			p.Await("Ready")
			p.Type("go\n")
			asks := func(key string) {
				p.Await("A command wants to reach", host+" (punycode: another script)", "1. Yes, until the current commands end (y)", "2. Yes, for this session (s)", "3. Always (saved in your configuration) (a)", "4. No (n)")
				p.answers(key)
				if key == "r" {
					p.Await("why not: ")
					p.Type("not this one\n")
				}
				p.AwaitNo("A command wants to reach")
			}
			asks(tt.key)
			if tt.again {
				asks("y")
			}
			p.Await("I see.", "Done", "Ready")
			requireDecided(t, toolResults(p.leaves()), host, tt.gets)
			require.Equal(t, tt.kept, strings.Contains(p.All(), "saved in ~/.pygent.toml"))
			requireKept(t, home, host, tt.kept)
		})
	}
}

func TestCtrlCAtAQuestionAboutHostsEndsTheTurn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, fetch("a.example.com"), pygenttest.Text("I see."))
	p := atTerminal(t, command(t, append(server.Env(), companyProxy(t)...), "--docker", "--image", dockerImage(t)))
	p.Await("Ready")
	p.Type("go\n")
	p.Await("A command wants to reach", "a.example.com")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	require.NotContains(t, p.Screen().Text(), "wants to reach")
	p.Type("and now?\n")
	p.Await("I see.", "Done", "Ready")
	p.leaves()
}
