package pygent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// fetchPages returns a command that fetches pages from hosts and prints them.
func fetchPages(hosts ...string) string {
	var b strings.Builder
	b.WriteString("python3 - <<'EOF'\nimport urllib.request\n")
	for _, host := range hosts {
		b.WriteString("print(urllib.request.urlopen('http://" + host + "/hello.txt').read().decode())\n")
	}
	b.WriteString("EOF")
	return b.String()
}

// hostAnswers answers questions about hosts and records them.
type hostAnswers struct {
	answer pygent.HostDecision
	err    error

	mu    sync.Mutex
	hosts [][]string
}

func (a *hostAnswers) approve(_ context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = append(a.hosts, slices.Sorted(slices.Values(r.Hosts)))
	return a.answer, a.err
}

func TestHostApproval(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	tests := []struct {
		name  string
		asked hostAnswers
		times int    // number of questions for two commands
		note  string // the note of the second command's result
		ok    bool
	}{
		{"once", hostAnswers{answer: pygent.HostDecision{Allow: true}}, 2, "", true},
		{"for the session", hostAnswers{answer: pygent.HostDecision{Allow: true, Session: true}}, 1, "", true},
		{"no", hostAnswers{}, 1, "the network refused a.example.com (the user said no)", false},
		{"no, with a reason", hostAnswers{answer: pygent.HostDecision{Reason: "use the files here"}}, 1, "the network refused a.example.com (use the files here)", false},
		{"nobody answers", hostAnswers{err: errors.New("no terminal")}, 2, "the network refused a.example.com (nobody could be asked about it: no terminal); the user can allow a.example.com", false},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestServer(r.Listener.Addr().String()), pygent.WithHostApproval(tt.asked.approve))
			bash(t, rt, fetchPages("a.example.com"))
			res := bash(t, rt, fetchPages("a.example.com", "a.example.com"))
			require.Equal(t, tt.ok, res.ExitCode == 0, res.String())
			require.Equal(t, tt.note, res.Note)
			require.Equal(t, tt.asked.answer.Session, slices.Equal([]string{"a.example.com"}, pygent.SiblingHosts(rt)), "tasks inherit what is allowed for the session")
			require.Len(t, tt.asked.hosts, tt.times)
		})
	}
}

func TestHostsOfOneCommandAreAskedAboutTogether(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	a := &hostAnswers{answer: pygent.HostDecision{Allow: true}}
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestServer(r.Listener.Addr().String()),
		pygent.WithAllowedHosts("known.example.com"), pygent.WithHostApproval(a.approve))
	var hosts []string
	for range 10 {
		hosts = append(hosts, "a.example.com", "b.example.com", "known.example.com")
	}
	res := bash(t, rt, "python3 - <<'EOF'\nimport urllib.request, concurrent.futures\nhosts='"+strings.Join(hosts, " ")+"'.split()\n"+
		"get=lambda h: urllib.request.urlopen('http://'+h+'/hello.txt').read()\n"+
		"print(len(list(concurrent.futures.ThreadPoolExecutor(30).map(get, hosts))))\nEOF")
	require.Equal(t, "30\n", res.Output)
	var all []string
	for _, hosts := range a.hosts {
		all = append(all, hosts...)
	}
	require.ElementsMatch(t, []string{"a.example.com", "b.example.com"}, all, "each is asked about once")
}

func TestPrivateAddressesAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	a := &hostAnswers{answer: pygent.HostDecision{Allow: true}}
	var mu sync.Mutex
	var texts []string
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithHostApproval(a.approve), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, e.Text)
	}))
	address := r.Listener.Addr().String()
	local := "localhost:" + strings.Split(address, ":")[1]
	for host, allow := range map[string]string{
		address: address, local: local, "169.254.169.254": "169.254.169.254:80", "10.0.0.5": "10.0.0.5:80", "a.example.com:8080": "a.example.com:8080",
	} {
		res := bash(t, rt, "no_proxy= NO_PROXY= "+fetchPages(host))
		require.NotZero(t, res.ExitCode, host)
		require.Contains(t, res.Note, "the network refused ", host)
		require.Contains(t, res.Note, "; the user can allow "+allow, host)
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(strings.Join(texts, "\n")+"\n", "; allow "+allow+" if it should\n")
		}, 10*time.Second, time.Millisecond, host)
	}
	require.Empty(t, a.hosts)
}

func TestAgentsAskNobodyOutsideOfSessions(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	var events []pygent.HostUse
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(callBash(fetchPages("a.example.com")), stop)),
		pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRuntime && e.Runtime.Host != nil {
				events = append(events, *e.Runtime.Host)
			}
		}))
	require.NoError(t, err)
	defer agent.Close()
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	const reason = "it is not an allowed host"
	require.Contains(t, answersOfTools(agent)[0], "[the network refused a.example.com ("+reason+"); the user can allow a.example.com]")
	require.NoError(t, agent.Close())
	require.Equal(t, []pygent.HostUse{{Host: "a.example.com", Port: 80, Reason: reason, Allow: "a.example.com"}}, events)
}

// answersOfTools returns the results of tools in the agent's history.
func answersOfTools(a *pygent.Agent) []string {
	var all []string
	for _, m := range a.History().Messages() {
		if m.Role == pygent.RoleTool {
			all = append(all, m.Text())
		}
	}
	return all
}

// The model is told that somebody decides about hosts, as long as that is so.
func TestThePersonAtAFaceIsAskedAboutHosts(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	model := pygenttest.NewScriptedModel(callBash(fetchPages("a.example.com")), stop, stop)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()), pygent.WithWorkspace(t.TempDir()))
	require.NoError(t, err)
	defer agent.Close()
	asked := &hostAnswers{}
	end := agent.FaceSession().Answers(t.Context(), pygent.FaceUser{Hosts: asked.approve})
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a.example.com"}}, asked.hosts)
	end()
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	const told = "the user is asked about"
	require.Contains(t, model.Requests()[0].Messages[0].Text(), told)
	require.NotContains(t, model.Requests()[2].Messages[0].Text(), told)
}
