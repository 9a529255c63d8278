package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// asking is a tool that asks the person, and tells the test what they answered.
func asking(answers chan<- pygent.Answer) pygent.Tool {
	return pygent.NewTool("release", "Release it.", func(ctx context.Context, _ pygent.Runtime, q pygent.Question) (string, error) {
		answer, err := pygent.Ask(ctx, q)
		if err != nil {
			return "", err
		}
		answers <- answer
		return "It is released.", nil
	})
}

// serveAsking shows an agent whose tool asks a question.
func serveAsking(t *testing.T, q pygent.Question, opts ...web.Option) (*served, <-chan pygent.Answer) {
	t.Helper()
	answers := make(chan pygent.Answer, 1)
	s := serveAt(t, opts...)
	s.agent = newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("release", q), pygenttest.Text("Done.")), pygent.WithTools(asking(answers)))
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	s.id = id
	return s, answers
}

const releaseForm = `{"type":"object","properties":{"host":{"type":"string","enum":["alpha","beta"],"title":"Where to"},` +
	`"port":{"type":"integer","minimum":1},"force":{"type":"boolean"},"key":{"type":"string","format":"password"}},"required":["host"]}`

func TestAFormIsFilledIn(t *testing.T) {
	s, answers := serveAsking(t, pygent.Question{Prompt: "Where to?", Schema: json.RawMessage(releaseForm)})
	p := s.open("")
	s.say("Release it.")
	a := s.asked()
	p.shows("release asks", "Where to?", `<span>Where to</span>`, `data-field="port"`, `type="password" autocomplete="off" data-ask="`+a.ID+`" data-field="key"`)
	for name, values := range map[string]any{
		"no values":      nil,
		"none":           map[string]any{},
		"another one":    map[string]any{"host": "gamma"},
		"a wrong number": map[string]any{"host": "beta", "port": "x"},
		"too small":      map[string]any{"host": "beta", "port": "0"},
		"a list":         []string{"beta"},
	} {
		status, body := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/asks/"+a.ID, map[string]any{"values": values}))
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", name, body)
		require.Equal(t, a, s.asked(), "it is still asked")
	}
	s.post("/asks/"+a.ID, map[string]any{"values": map[string]any{"host": "beta", "port": "8080", "force": "true", "key": ""}}, nil)
	answer := <-answers
	require.JSONEq(t, `{"host":"beta","port":8080,"force":true}`, string(answer.Values))
	require.Equal(t, "user", answer.By)
	p.shows("<p>Done.</p>", `<p class="reason">Answered</p>`)
}

func TestAFormIsDeclined(t *testing.T) {
	s, answers := serveAsking(t, pygent.Question{Prompt: "Where to?", Schema: json.RawMessage(releaseForm)})
	p := s.open("")
	s.say("Release it.")
	s.post("/asks/"+s.asked().ID, map[string]any{"decision": "deny"}, nil)
	require.True(t, (<-answers).Declined)
	p.shows("<p>Done.</p>", `<p class="reason">Declined</p>`)
}

// log is what a server logs.
type log struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// What a person answers in secret goes to the tool alone.
func TestASecretIsToldToNobodyElse(t *testing.T) {
	const secret = "hunter2-and-more"
	for name, tt := range map[string]struct {
		question pygent.Question
		answer   any
	}{
		"a text":  {pygent.Question{Prompt: "The passphrase?", Secret: true}, map[string]any{"answer": secret}},
		"a form":  {pygent.Question{Prompt: "The key?", Secret: true, Schema: json.RawMessage(releaseForm)}, map[string]any{"values": map[string]any{"host": "beta", "key": secret}}},
		"a field": {pygent.Question{Prompt: "The key?", Schema: json.RawMessage(releaseForm)}, map[string]any{"values": map[string]any{"host": "beta", "key": secret}}},
	} {
		t.Run(name, func(t *testing.T) {
			var logged log
			s, answers := serveAsking(t, tt.question, web.WithLogger(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			p := s.open("")
			s.say("Release it.")
			a := s.asked()
			p.shows(`type="password"`)
			s.post("/asks/"+a.ID, tt.answer, nil)
			answer := <-answers
			require.Contains(t, answer.Text+string(answer.Values), secret)
			p.shows("<p>Done.</p>")
			p.rests()
			told := []string{logged.String()}
			for _, path := range []string{"", "/asks", "/history"} {
				_, body := s.do(s.request(http.MethodGet, "/sessions/"+s.id+path, nil))
				told = append(told, string(body))
			}
			for _, page := range []*page{p, s.open("")} {
				page.shows("<p>Done.</p>")
				for _, o := range page.look().ops {
					told = append(told, o.HTML, o.Text)
				}
			}
			for _, e := range s.events("", pygent.EventRunEnd) {
				data, err := json.Marshal(e.event)
				require.NoError(t, err)
				told = append(told, string(data))
			}
			require.NotContains(t, strings.Join(told, "\n"), secret)
		})
	}
}

// An answer that is refused is not told either.
func TestASecretThatDoesNotFitIsNotRepeated(t *testing.T) {
	s, _ := serveAsking(t, pygent.Question{Prompt: "The PIN?", Secret: true, Schema: json.RawMessage(`{"type":"object","properties":{"pin":{"type":"integer"}},"required":["pin"]}`)})
	s.say("Release it.")
	status, body := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/asks/"+s.asked().ID, map[string]any{"values": map[string]any{"pin": "hunter2"}}))
	require.Equal(t, http.StatusBadRequest, status)
	require.NotContains(t, string(body), "hunter2")
}

// Once a question in the middle of a call is answered, the page says that the call goes on.
func TestACallGoesOnAfterItsQuestion(t *testing.T) {
	goes := make(chan struct{})
	s := serve(t, []pygenttest.Reply{pygenttest.Call("release", pygent.Question{Prompt: "Where to?"}), pygenttest.Text("Done.")},
		pygent.WithTools(pygent.NewTool("release", "Release it.", func(ctx context.Context, _ pygent.Runtime, q pygent.Question) (string, error) {
			_, err := pygent.Ask(ctx, q)
			<-goes
			return "Released.", err
		})))
	p := s.open("")
	s.say("Release it.")
	a := s.asked()
	p.until("the question", func(p *page) bool { return p.state.Words == "Waiting for your answer" })
	s.post("/asks/"+a.ID, map[string]any{"answer": "beta"}, nil)
	p.until("that it goes on", func(p *page) bool { return p.state.Words == "Running release" })
	close(goes)
	p.shows("<p>Done.</p>")
}
