package web_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestTasksHaveStreamsOfTheirOwn(t *testing.T) {
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("delegate_task", map[string]any{"prompt": "Count the words."}), pygenttest.Text("It is delegated."), pygenttest.Text("I see."), pygenttest.Text("Well."))
	model.On("Count the words.", pygenttest.TextAndCalls("I count.", pygenttest.Call("bash", map[string]any{"cmd": "touch count"})),
		pygenttest.Call("stop", map[string]any{"summary": "Seven words."}))
	s := serveAt(t)
	s.agent = newAgent(t, model, pygent.WithConfirmBash(false))
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	s.id = id
	p := s.open("")
	s.say("Delegate.")
	p.shows(`<span class="verb">Delegated</span>`, "<p>It is delegated.</p>", "<p>I count.</p>", `<span class="what">touch count</span>`, "<p>Seven words. Changed: count</p>")
	require.Regexp(t, `\[t-\w+\.s\.m\d+\.0\] <p>I count.</p>`, p.now(), "it is in the panel")
	var list struct{ Tasks []pygent.TaskStatus }
	s.get("/tasks", &list)
	require.Len(t, list.Tasks, 1)
	var one struct{ Task pygent.TaskStatus }
	s.get("/tasks/"+list.Tasks[0].ID, &one)
	require.Equal(t, "Count the words.", one.Task.Prompt)
	status, _ := s.do(s.request(http.MethodGet, "/sessions/"+s.id+"/tasks/none", nil))
	require.Equal(t, http.StatusNotFound, status)
	p.rests()

	late := s.open("")
	late.shows("<p>Seven words. Changed: count</p>", `aria-label="finished"`)
}
