package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// A host with a login of its own shows the page below a path: each user sees only theirs.
func TestUsersBelowABasePath(t *testing.T) {
	signedIn := func(r *http.Request) (string, error) {
		cookie, err := r.Cookie("login")
		if err != nil || cookie.Value == "" {
			return "", errors.New("nobody is signed in")
		}
		return cookie.Value, nil
	}
	agents, err := web.New(web.WithBasePath("/deep/agent"), web.WithUser(signedIn))
	require.NoError(t, err)
	ids, dirs := map[string]string{}, map[string]string{}
	for _, user := range []string{"ada", "bob"} {
		dirs[user] = t.TempDir()
		write(t, dirs[user], "of-"+user+".txt", "of "+user)
		agent := newAgent(t, pygenttest.NewServer(t, pygenttest.Text("Hello, "+user+".")), dirs[user])
		t.Cleanup(func() { require.NoError(t, agent.Close()) })
		ids[user], err = agents.Add(user, agent)
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, agents.Close()) })
	mux := http.NewServeMux()
	mux.Handle("/deep/agent/", agents)
	mux.HandleFunc("GET /login/{user}", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "login", Value: r.PathValue("user"), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/deep/agent/", http.StatusSeeOther)
	})
	host := httptest.NewServer(mux)
	t.Cleanup(host.Close)

	pages := map[string]*page{}
	for user, other := range map[string]string{"ada": "bob", "bob": "ada"} {
		p := open(t, host.URL+"/login/"+user)
		pages[user] = p
		p.said("I am " + user)
		p.see("#log .msg", "Hello, "+user+".")
		p.see("#tree .file", "of-"+user+".txt")
		p.wait("document.querySelectorAll('#sessions a').length == 1")
		require.NotContains(t, eval[string](p, "document.body.innerText"), "of-"+other)
		// The session of the other does not exist, by whatever address.
		p.expect("404")
		for _, path := range []string{"", "/history", "/files", "/file?path=of-" + other + ".txt", "/events"} {
			require.Equal(t, 404, eval[int](p, "fetch('/deep/agent/api/v1/sessions/' + %s + %s).then(r => r.status)", ids[other], path))
		}
		p.load(host.URL + "/deep/agent/#session=" + ids[other])
		p.wait("document.readyState == 'complete'")
		require.NotContains(t, eval[string](p, "document.body.innerText"), "Hello, "+other)
	}
	p := open(t, host.URL+"/deep/agent/")
	p.expect("401")
	p.see("#lost", "You are not signed in.")
	// A link to a file works for its user alone.
	const link = `fetch('/deep/agent/api/v1/sessions/' + %s + '/downloads', {method: 'POST', headers: {'Content-Type': 'application/json'},
		body: JSON.stringify({path: 'of-ada.txt'})}).then(r => r.json()).then(a => a.url)`
	url := eval[string](pages["ada"], link, ids["ada"])
	pages["bob"].expect("410")
	require.Equal(t, 410, eval[int](pages["bob"], "fetch(%s).then(r => r.status)", url))
	require.Equal(t, "of ada", eval[string](pages["ada"], "fetch(%s).then(r => r.text())", url))
}

// asking is a tool that asks the person with a form.
func asking(answers chan<- pygent.Answer) pygent.Tool {
	return pygent.NewTool("release", "Release it.", func(ctx context.Context, _ pygent.Runtime, q pygent.Question) (string, error) {
		answer, err := pygent.Ask(ctx, q)
		if err == nil {
			answers <- answer
		}
		return "It is released.", err
	})
}

func TestForm(t *testing.T) {
	const schema = `{"type":"object","properties":{"host":{"type":"string","enum":["alpha","beta"],"title":"Where to"},` +
		`"port":{"type":"integer","minimum":1,"title":"Port"},"key":{"type":"string","format":"password","title":"Key"}},"required":["host"]}`
	answers := make(chan pygent.Answer, 1)
	s := serve(t, pygenttest.NewServer(t, pygenttest.Call("release", pygent.Question{Prompt: "Where to?", Schema: json.RawMessage(schema)}), pygenttest.Text("Released.")),
		pygent.WithTools(asking(answers)))
	p := open(t, s.url)
	p.expect("400")
	p.said("Release it")
	p.see(".ask.q", "Where to?")
	fill := func(field, value string) {
		p.run("document.querySelector('.ask [data-field=' + %s + ']').focus(); document.activeElement.select?.()", field)
		p.press(value)
	}
	fill("host", "beta")
	fill("port", "many")
	fill("key", "hunter2")
	p.click(".ask button", "Answer")
	p.see("body", "port is not a valid integer")
	fill("port", "8080")
	p.click(".ask button:not([data-act=deny])", "Answer")
	p.see(".ask.done", "Answered")
	p.see("#log .msg", "Released.")
	require.JSONEq(t, `{"host":"beta","port":8080,"key":"hunter2"}`, string((<-answers).Values))
	p.load(s.url)
	p.see("#log .msg", "Released.")
	require.NotContains(t, eval[string](p, "document.documentElement.outerHTML"), "hunter2")
}

func TestTasksPanel(t *testing.T) {
	model := pygenttest.NewServer(t, pygenttest.Call("delegate_task", map[string]any{"prompt": "Count the words."}), pygenttest.Text("It is delegated."), pygenttest.Text("I see."), pygenttest.Text("Well."))
	model.On("Count the words.", pygenttest.TextAndCalls("I count.", bash("until [ -e go ]; do sleep 0.05; done; echo seven")), pygenttest.Call("stop", map[string]any{"summary": "Seven words."}))
	s := serve(t, model, pygent.WithConfirmBash(false))
	p := open(t, s.url)
	p.said("Delegate")
	p.see("#log .msg", "It is delegated.")
	p.wait("document.getElementById('tab-tasks').textContent.includes('1')")
	p.click("#tab-tasks", "Tasks")
	p.click("#tasks summary", "What it does")
	p.see("#tasks .msg", "I count.")
	p.click("#tasks button", "Stop")
	p.see("#tasks .task", "cancelled")
	p.wait("!document.getElementById('tab-tasks').textContent.includes('1')")
}

func TestCommandsOnThePage(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p := open(t, s.url)
	p.expect("422")
	p.typed("/hel")
	p.see("#hints li", "help")
	p.press("\t")
	p.press("\r")
	p.see("#log .tool", "/help")
	p.wait("document.querySelector('#log .tool pre.out').textContent.includes('/new')")
	require.Zero(t, eval[float64](p, "document.querySelector('#log .tool pre.out').scrollTop"), "an answer is read from its beginning")
	require.Empty(t, s.model.Requests(), "a command is not sent to the model")
	p.typed("/exit\r")
	p.see("#wrong", "The program that shows this session can end it")
}
