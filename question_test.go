// These tests hold how tools and tasks ask the user, who answers them, and what becomes of a
// question that nobody answers.

package pygent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// asking returns a tool that asks the user and gives the answer.
func asking(q pygent.Question) pygent.Tool {
	return pygent.NewTool("deploy", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		answer, err := pygent.Ask(ctx, q)
		if errors.Is(err, pygent.ErrNobodyToAsk) {
			return "nobody", nil
		}
		return fmt.Sprintf("%s%s %t", answer.Text, answer.Values, answer.Declined), err
	})
}

const flat = `{"type":"object","properties":{"host":{"type":"string","enum":["a","b"]},"port":{"type":"integer"},"force":{"type":"boolean"}},"required":["host"]}`

func TestToolsAskTheUser(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		question pygent.Question
		answer   pygent.AskFunc
		want     string
	}{
		"text":          {pygent.Question{Prompt: "Where?", Options: []string{"here", "there"}}, says(pygent.Answer{Text: "there"}), "there false"},
		"declined":      {pygent.Question{Prompt: "Where?"}, says(pygent.Answer{Declined: true}), " true"},
		"form":          {pygent.Question{Schema: json.RawMessage(flat)}, says(pygent.Answer{Values: json.RawMessage(`{"host":"a","port":80}`)}), `{"host":"a","port":80} false`},
		"declined form": {pygent.Question{Schema: json.RawMessage(flat)}, says(pygent.Answer{Declined: true}), " true"},
		"does not fit":  {pygent.Question{Schema: json.RawMessage(flat)}, says(pygent.Answer{Values: json.RawMessage(`{"host":"c"}`)}), "error: the answer cannot be used: the arguments do not fit"},
		"no values":     {pygent.Question{Schema: json.RawMessage(flat)}, says(pygent.Answer{Text: "a"}), "error: the answer cannot be used: "},
		"not flat":      {pygent.Question{Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"array","items":{}}}}`)}, says(pygent.Answer{}), "error: question: the field x of the form: want a string"},
		"no schema":     {pygent.Question{Schema: json.RawMessage(`[]`)}, says(pygent.Answer{}), "error: question: parameters are not a JSON Schema"},
		"nobody":        {pygent.Question{}, nil, "nobody"},
		"fails": {pygent.Question{}, func(context.Context, pygent.AskRequest) (pygent.Answer, error) {
			return pygent.Answer{}, errors.New("gone")
		}, "error: gone"},
		"panics": {pygent.Question{}, func(context.Context, pygent.AskRequest) (pygent.Answer, error) { panic("oh no") }, "error: panic: oh no"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil)), pygent.WithTools(asking(tt.question)), pygent.WithAsk(tt.answer),
				pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventQuestion || e.Type == pygent.EventAnswer {
						require.Equal(t, "deploy", e.Call.Name)
						told = append(told, string(e.Type))
					}
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(results(agent)[0], tt.want), results(agent)[0])
			if name != "nobody" && name != "not flat" && name != "no schema" {
				require.Equal(t, []string{"question", "answer"}, told)
			} else {
				require.Empty(t, told)
			}
		})
	}
	_, err := pygent.Ask(t.Context(), pygent.Question{})
	require.ErrorIs(t, err, pygent.ErrNobodyToAsk)
}

// says returns a user who always gives the same answer.
func says(a pygent.Answer) pygent.AskFunc {
	return func(context.Context, pygent.AskRequest) (pygent.Answer, error) { return a, nil }
}

func TestTheTimeOfAnAnswerDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ pygent.AskRequest) (pygent.Answer, error) {
			select {
			case <-time.After(time.Hour):
				return pygent.Answer{Text: "yes"}, nil
			case <-ctx.Done():
				return pygent.Answer{}, ctx.Err()
			}
		}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil)).RepeatLast(), pygent.WithTools(asking(pygent.Question{})), pygent.WithAsk(slow))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1), pygent.StepTimeout(time.Second))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusMaxSteps, result.Status)
		require.Equal(t, "yes false", results(agent)[0])

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result, err = agent.RunUntilStop(ctx, "go", pygent.MaxSteps(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, pygent.StatusTimeout, result.Status)
	})
}

func TestQuestionsOfTasksComeToTheParent(t *testing.T) {
	t.Parallel()
	var asked []pygent.AskRequest
	agent := newAgentOn(t, forkable{}, pygenttest.NewScriptedModel(
		pygenttest.Call("delegate_task", map[string]any{"prompt": "Deploy."}),
		pygenttest.Call("task_status", map[string]any{"wait": 60}), stop).
		On("Deploy.", pygenttest.Call("deploy", nil), stop),
		pygent.WithTools(asking(pygent.Question{Prompt: "Where?"})),
		pygent.WithAsk(func(_ context.Context, r pygent.AskRequest) (pygent.Answer, error) {
			asked = append(asked, r)
			return pygent.Answer{Text: "there"}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, asked, 1)
	task := onlyTask(t, agent)
	require.Equal(t, "Where?", asked[0].Question.Prompt)
	require.Equal(t, task.ID, asked[0].From.Task)
	require.Equal(t, "deploy", asked[0].From.Call.Name)
	messages, err := agent.Tasks().TaskHistory(t.Context(), task.ID)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(messages), "there false")
}

func TestQuestionsComeOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := 0
		ask := asking(pygent.Question{})
		ask.ReadOnly = true
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil))),
			pygent.WithTools(ask), pygent.WithAsk(func(context.Context, pygent.AskRequest) (pygent.Answer, error) {
				now++
				require.Equal(t, 1, now)
				time.Sleep(time.Second)
				now--
				return pygent.Answer{Text: "yes"}, nil
			}))
		began := time.Now()
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestQuestionsThatNobodyAnswersAreNotTold(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pygent.Option{
		"nobody":             nil,
		"nobody for a task":  {pygent.TaskAgents(pygent.WithAsk(nil)), pygent.WithAsk(says(pygent.Answer{}))},
		"nobody for parents": {pygent.WithAsk(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var told []pygent.EventType
			agent := newAgentOn(t, forkable{}, pygenttest.NewScriptedModel(stop).On("Deploy.", pygenttest.Call("deploy", nil), stop),
				append(opts, pygent.WithTools(asking(pygent.Question{Prompt: "Where?"})), pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventQuestion || e.Type == pygent.EventAnswer {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, e.Type)
					}
				}))...)
			id, err := agent.Tasks().StartTask(t.Context(), "Deploy.", agent.Runtime())
			require.NoError(t, err)
			waitTask(t, agent.Tasks(), id)
			messages, err := agent.Tasks().TaskHistory(t.Context(), id)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(messages), "nobody")
			mu.Lock()
			defer mu.Unlock()
			require.Empty(t, told)
		})
	}
}

func TestSetAskChangesWhoAnswers(t *testing.T) {
	t.Parallel()
	call := pygenttest.Call("deploy", nil)
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(call, call),
		pygent.WithTools(asking(pygent.Question{})), pygent.WithAsk(says(pygent.Answer{Text: "first"})))
	for _, answer := range []pygent.AskFunc{says(pygent.Answer{Text: "second"}), nil} {
		agent.SetAsk(answer)
		_, err := agent.Step(t.Context(), "go")
		require.NoError(t, err)
	}
	require.Equal(t, []string{"second false", "nobody"}, results(agent))
}

const login = `{"type":"object","properties":{"user":{"type":"string"},"word":{"type":"string","format":"password","minLength":4}},"required":["user"]}`

// What is secret reaches the tool, and neither events nor the log.
func TestSecretAnswersAreNotTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		question pygent.Question
		answer   pygent.Answer
		got      string // by the tool
		told     pygent.Answer
	}{
		"text":          {pygent.Question{Secret: true}, pygent.Answer{Text: "hunter2"}, "hunter2 {}", pygent.Answer{}},
		"declined":      {pygent.Question{Secret: true}, pygent.Answer{Declined: true}, " {}", pygent.Answer{Declined: true}},
		"form":          {pygent.Question{Secret: true, Schema: json.RawMessage(flat)}, pygent.Answer{Values: json.RawMessage(`{"host":"a"}`)}, ` {"host":"a"}`, pygent.Answer{}},
		"field":         {pygent.Question{Schema: json.RawMessage(login)}, pygent.Answer{Values: json.RawMessage(`{"user":"ada","word":"hunter2"}`)}, ` {"user":"ada","word":"hunter2"}`, pygent.Answer{Values: json.RawMessage(`{"user":"ada"}`)}},
		"declined form": {pygent.Question{Schema: json.RawMessage(login)}, pygent.Answer{Declined: true, Text: "not hunter2"}, "not hunter2 {}", pygent.Answer{Declined: true}},
		"does not fit":  {pygent.Question{Schema: json.RawMessage(login)}, pygent.Answer{Values: json.RawMessage(`{"user":"ada","word":"x7"}`)}, "the answer cannot be used: it does not fit the form", pygent.Answer{Declined: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var got string
			tool := plainTool("login", func(t *pygent.Tool) {
				t.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
					answer, err := pygent.Ask(ctx, tt.question)
					got = answer.Text + " " + string(cmp.Or(string(answer.Values), "{}"))
					if err != nil {
						got = err.Error()
					}
					return nil, nil
				}
			})
			var told []pygent.Answer
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("login", nil)), pygent.WithTools(tool),
				pygent.WithLogger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
				pygent.WithAsk(func(_ context.Context, r pygent.AskRequest) (pygent.Answer, error) {
					require.Equal(t, tt.question, r.Question)
					return tt.answer, nil
				}),
				pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventAnswer {
						told = append(told, *e.Answer)
					}
				}))
			_, err := agent.Step(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.got, got)
			require.Equal(t, []pygent.Answer{tt.told}, told)
			require.NotContains(t, log.String(), "hunter2")
			require.NotContains(t, log.String(), "x7")
		})
	}
}

// An answer that nobody asked for in that form would leave its event without
// JSON.
func TestValuesThatNobodyAskedForAreDropped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		schema string
		answer pygent.Answer
	}{
		"to a question for text": {"", pygent.Answer{Text: "blue", Values: json.RawMessage(`{`)}},
		"declined":               {`{"type":"object","properties":{"a":{"type":"integer"}}}`, pygent.Answer{Declined: true, Values: json.RawMessage(`{`)}},
	} {
		t.Run(name, func(t *testing.T) {
			tool := pygent.NewTool("ask", "Ask", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (pygent.Answer, error) {
				return pygent.Ask(ctx, pygent.Question{Prompt: "Colour?", Schema: json.RawMessage(tt.schema)})
			})
			var answers []pygent.Event
			agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("ask", nil), pygenttest.Text("x")), pygent.WithTools(tool),
				pygent.WithAsk(func(context.Context, pygent.AskRequest) (pygent.Answer, error) { return tt.answer, nil }),
				pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventAnswer {
						answers = append(answers, e)
					}
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Len(t, answers, 1)
			require.Empty(t, answers[0].Answer.Values)
			require.Equal(t, tt.answer.Text, answers[0].Answer.Text)
			_, err = json.Marshal(answers[0])
			require.NoError(t, err)
		})
	}
}

// heardInTask returns what the tool of the only task of an agent got, and the results of
// the agent's own calls.
func heardInTask(t *testing.T, agent *pygent.Agent) (heard string, got []string) {
	t.Helper()
	messages, err := agent.Tasks().TaskHistory(t.Context(), onlyTask(t, agent).ID)
	require.NoError(t, err)
	for _, m := range messages {
		if m.Role == chat.RoleTool && heard == "" {
			heard = m.Text()
		}
	}
	return heard, results(agent)
}

// asksParent returns an agent whose task calls a tool that asks.
func asksParent(t *testing.T, q pygent.Question, replies []func(id string) pygenttest.Reply, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	model := pygenttest.NewScriptedModel(follow(append([]func(string) pygenttest.Reply{always(delegate("Deploy."))}, replies...)...)).RepeatLast().
		On("Deploy.", pygenttest.Call("deploy", nil).WithDelay(time.Minute), stop)
	return newAgentOn(t, hollow{}, model, append(opts, pygent.WithTools(asking(q)))...)
}

var (
	waitAll   = pygenttest.Call("task_status", map[string]any{"wait": 600})
	waitOne   = func(id string) pygenttest.Reply { return wait(id) }
	answering = func(text string) func(string) pygenttest.Reply {
		return func(id string) pygenttest.Reply { return send(id, text) }
	}
)

// sleeping returns a tool that takes its time.
func sleeping(d time.Duration) pygent.Tool {
	return pygent.NewTool("sleep", "", func(context.Context, pygent.Runtime, struct{}) (string, error) {
		time.Sleep(d)
		return "", nil
	})
}

func TestTheModelOfTheParentAnswersWhereThereIsNoUser(t *testing.T) {
	t.Parallel()
	options := pygent.Question{Prompt: "Where?\nTell me.", Options: []string{"here", "there"}}
	form := pygent.Question{Prompt: "Where?", Schema: json.RawMessage(flat)}
	asForm := ": as message a JSON object of these fields, or \"decline\")"
	for name, tt := range map[string]struct {
		question           pygent.Question
		answer             string
		shown, said, heard string
	}{
		"in words":      {pygent.Question{Prompt: "Where?"}, "Over there.", "Where? (answer with send_task)", "; it goes on", "Over there. false"},
		"by its number": {options, "2", "Where?\n  Tell me.\n  1. here\n  2. there\n(answer with send_task)", ": there; it goes on", "there false"},
		"by its words":  {options, " Here ", "Where?\n  Tell me.\n  1. here\n  2. there\n(answer with send_task)", ": here; it goes on", "here false"},
		"anew":          {options, "nowhere", "Where?\n  Tell me.\n  1. here\n  2. there\n(answer with send_task)", ", with none of its options; it goes on", "nowhere false"},
		"a form":        {form, `{"host":"a","port":"80"}`, "Where?\n  - host (one of a, b)\n  - force (boolean; optional)\n  - port (integer; optional)\n(answer with send_task" + asForm, "; it goes on", `{"host":"a","port":80} false`},
		"not at all":    {form, "Decline", "Where?\n  - host (one of a, b)\n  - force (boolean; optional)\n  - port (integer; optional)\n(answer with send_task" + asForm, ": declined; it goes on", " true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				agent := asksParent(t, tt.question, []func(string) pygenttest.Reply{always(waitAll), waitOne, answering(tt.answer), waitOne, always(stop)},
					pygent.OnEvent(func(e pygent.Event) {
						switch e.Type {
						case pygent.EventQuestion:
							require.True(t, e.Question.AsksParent)
							told = append(told, "question of "+e.Task)
						case pygent.EventAnswer:
							told = append(told, "answer by "+e.Answer.By)
						}
					}))
				start := time.Now()
				result, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err, results(agent))
				require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
				require.Equal(t, time.Minute, time.Since(start), "the wait ends with the question")
				heard, got := heardInTask(t, agent)
				require.Regexp(t, `^[0-9a-f]{10}: running \[1 step, 1 tool call, 1m0s\] Deploy\.`, got[1])
				require.True(t, strings.HasSuffix(got[1], "\n  "+strings.ReplaceAll(tt.shown, "\n", "\n  ")), got[1])
				require.Regexp(t, `^running\n\[1 step, 1 tool call, 1m0s\]`, got[2])
				require.True(t, strings.HasSuffix(got[2], "\nIt asks: "+tt.shown), got[2])
				require.Regexp(t, `^answered task [0-9a-f]{10}`+tt.said+`$`, got[3])
				require.Regexp(t, `^finished\n`, got[4])
				require.Equal(t, tt.heard, heard)
				synctest.Wait() // the events of a task come beside the run
				require.Equal(t, []string{"question of " + onlyTask(t, agent).ID, "answer by parent"}, told)
				require.NotContains(t, fmt.Sprint(notices(agent.History().Messages())), "asks", "task_status told it already")
				require.NoError(t, agent.Close())
			})
		})
	}
}

func TestTheParentHearsOfAQuestionOnceAndAnswersItAsItFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := asksParent(t, pygent.Question{Prompt: "Where?", Schema: json.RawMessage(flat)}, []func(string) pygenttest.Reply{
			always(pygenttest.Call("sleep", nil)), answering("here"), answering(`{"host":"c"}`), answering(`{"host":"b"}`), waitOne, always(stop)},
			pygent.WithTools(sleeping(2*time.Minute)))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		heard, got := heardInTask(t, agent)
		require.Equal(t, 1, strings.Count(fmt.Sprint(notices(agent.History().Messages())), "asks"))
		require.Regexp(t, `^\[task [0-9a-f]{10} asks: Where\?\n    - host \(one of a, b\)\n(.*\n)*  \(answer with send_task: as message .*\)\]$`, notices(agent.History().Messages())[0])
		require.Regexp(t, `^error: the answer cannot be used: the arguments are not a JSON object.* task [0-9a-f]{10} still asks$`, got[2])
		require.Regexp(t, `^error: the answer cannot be used: host: expected "a" \| "b", given string "c"; expected {.*}; task [0-9a-f]{10} still asks$`, got[3])
		require.Regexp(t, `^answered task`, got[4])
		require.Equal(t, `{"host":"b"} false`, heard)
		require.NoError(t, agent.Close())
	})
}

// Nobody is there where the parent's run is over, may not answer, or waits for the
// task itself; and what only a user may answer is asked of no model.
func TestAQuestionEndsWhereNobodyWillAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		question pygent.Question
		replies  []func(string) pygenttest.Reply
		opts     []pygent.Option
		asks     bool
		took     time.Duration // until the task ends
	}{
		"the run is over before":        {replies: []func(string) pygenttest.Reply{always(stop), always(stop)}, took: time.Minute},
		"it ends with the question":     {replies: []func(string) pygenttest.Reply{always(pygenttest.Call("sleep", nil)), always(stop), always(stop)}, asks: true, took: 2 * time.Minute},
		"it fails":                      {replies: []func(string) pygenttest.Reply{always(pygenttest.Call("sleep", nil)), always(pygenttest.Error(errors.New("broken")))}, asks: true, took: 2 * time.Minute},
		"nobody answers":                {replies: []func(string) pygenttest.Reply{always(waitAll), always(pygenttest.Call("sleep_long", nil)), always(stop)}, asks: true, took: 11 * time.Minute},
		"the parent may not answer":     {replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, opts: []pygent.Option{pygent.WithDisabledTools("send_task")}, took: time.Minute},
		"it is kept from everybody":     {replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, opts: []pygent.Option{pygent.TaskAgents(pygent.WithAsk(nil))}, took: time.Minute},
		"a secret":                      {question: pygent.Question{Secret: true}, replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, took: time.Minute},
		"a secret field":                {question: pygent.Question{Schema: json.RawMessage(login)}, replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, took: time.Minute},
		"a question for the user alone": {question: pygent.Question{UserOnly: true}, replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, took: time.Minute},
		"a forged one":                  {question: pygent.Question{UserOnly: true, AsksParent: true}, replies: []func(string) pygenttest.Reply{waitOne, always(stop)}, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				long := sleeping(15 * time.Minute)
				long.Name = "sleep_long"
				questions := 0
				agent := asksParent(t, tt.question, tt.replies, append(tt.opts, pygent.WithTools(sleeping(2*time.Minute), long),
					pygent.OnEvent(func(e pygent.Event) {
						if e.Type == pygent.EventQuestion {
							questions++
						}
					}))...)
				start := time.Now()
				_, _ = agent.RunUntilStop(t.Context(), "go")
				status := waitTask(t, agent.Tasks(), onlyTask(t, agent).ID)
				require.Equal(t, pygent.TaskFinished, status.State)
				require.Nil(t, status.Asked)
				require.Equal(t, tt.took, status.Ended.Sub(start))
				heard, _ := heardInTask(t, agent)
				require.Equal(t, "nobody", heard)
				require.Equal(t, tt.asks, questions > 0)
				require.NoError(t, agent.Close())
			})
		})
	}
}

// A message is no answer to a question that its sender does not know.
func TestWhatIsSentToATaskThatJustAskedIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]pygenttest.Reply{
		"a tool asks":    pygenttest.Call("deploy", nil),
		"the agent asks": pygenttest.Call("continue", map[string]any{"prompt": "Where?", "options": []string{"here", "there"}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pygenttest.NewScriptedModel(follow(always(delegate("Deploy.")), func(id string) pygenttest.Reply {
					return send(id, "1").WithDelay(2 * time.Minute)
				}, answering("there"), waitOne, always(stop))).RepeatLast().
					On("Deploy.", ask.WithDelay(time.Minute), stop)
				agent := newAgentOn(t, hollow{}, model, pygent.WithTools(asking(pygent.Question{Prompt: "Where?", Options: []string{"here", "there"}})))
				_, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				got := results(agent)
				require.Regexp(t, `^error: nothing was sent: task [0-9a-f]{10} asks meanwhile: Where\?\n    1\. here\n    2\. there\n  \(answer with send_task\)$`, got[1])
				require.Regexp(t, `^answered task [0-9a-f]{10}: there; it goes on$`, got[2])
				require.Equal(t, pygent.TaskFinished, onlyTask(t, agent).State)
				require.NoError(t, agent.Close())
			})
		})
	}
}

// The caller of Step makes the next one, in which the model answers.
func TestAQuestionOutlivesASingleStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := asksParent(t, pygent.Question{Prompt: "Where?"}, []func(string) pygenttest.Reply{always(waitAll), answering("there"), waitOne, always(stop)})
		for {
			result, err := agent.Step(t.Context(), "")
			require.NoError(t, err)
			if result.Status == pygent.StatusStopped {
				break
			}
			time.Sleep(time.Second)
		}
		heard, _ := heardInTask(t, agent)
		require.Equal(t, "there false", heard)
		require.NoError(t, agent.Close())
	})
}

func TestAnybodyAnswersTheQuestionOfATask(t *testing.T) {
	t.Parallel()
	until := func(ctx context.Context, _ pygent.AskRequest) (pygent.Answer, error) {
		<-ctx.Done()
		return pygent.Answer{}, ctx.Err()
	}
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil), stop),
		pygent.TaskAgents(pygent.WithTools(asking(pygent.Question{Prompt: "Where?", Schema: json.RawMessage(flat)})), pygent.WithAsk(until)))
	id := startTask(t, m, "go", hollow{})
	asked := awaitQuestion(t, m, id)
	require.Equal(t, id, asked.Request.From.Task)
	require.Equal(t, "deploy", asked.Request.From.Call.Name)
	require.False(t, asked.Request.Question.AsksParent)
	require.NotZero(t, asked.Seq)
	require.False(t, asked.Since.IsZero())
	call := asked.Request.From.Call.ID
	require.ErrorIs(t, m.Answer(t.Context(), id, "nobody", pygent.Answer{}), pygent.ErrNotAsked)
	require.ErrorIs(t, m.Answer(t.Context(), "nobody", call, pygent.Answer{}), pygent.ErrUnknownTask)
	require.ErrorContains(t, m.Answer(t.Context(), id, call, pygent.Answer{Values: json.RawMessage(`{"host":"c"}`)}), "the answer cannot be used")
	require.ErrorContains(t, m.Answer(t.Context(), id, call, pygent.Answer{Text: strings.Repeat("x", 33<<20)}), "more than 33554432")
	answer, err := asked.Request.Question.ParseAnswer(`{"host":"b"}`)
	require.NoError(t, err)
	require.NoError(t, m.Answer(t.Context(), id, call, answer))
	require.ErrorIs(t, m.Answer(t.Context(), id, call, answer), pygent.ErrNotAsked, "the first one counts")
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State)
	require.Nil(t, status.Asked)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(messages), `{"host":"b"} false`)
}

// awaitQuestion returns the question of a tool of a task.
func awaitQuestion(t *testing.T, m *pygent.TaskManager, id string) pygent.PendingQuestion {
	t.Helper()
	for e, err := range m.Events(t.Context(), id, 0) {
		require.NoError(t, err)
		status, err := m.Status(t.Context(), id)
		require.NoError(t, err)
		if e.Type == pygent.EventQuestion && status.Asked != nil {
			return *status.Asked
		}
	}
	require.FailNow(t, "nothing was asked")
	return pygent.PendingQuestion{}
}

func TestAnswersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	numbers := pygent.Question{Options: []string{"2", "one"}}
	for name, tt := range map[string]struct {
		question pygent.Question
		text     string
		want     pygent.Answer
	}{
		"text":             {pygent.Question{}, "decline", pygent.Answer{Text: "decline"}},
		"nothing":          {pygent.Question{}, " \n", pygent.Answer{Declined: true}},
		"the very words":   {numbers, "2", pygent.Answer{Text: "2"}},
		"a number":         {numbers, "1", pygent.Answer{Text: "2"}},
		"no such number":   {numbers, "3", pygent.Answer{Text: "3"}},
		"a form":           {pygent.Question{Schema: json.RawMessage(flat)}, `{"host":"a"}`, pygent.Answer{Values: json.RawMessage(`{"host":"a"}`)}},
		"a form, declined": {pygent.Question{Schema: json.RawMessage(flat)}, "decline", pygent.Answer{Declined: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.question.ParseAnswer(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	_, err := pygent.Question{Schema: json.RawMessage(flat)}.ParseAnswer("a")
	require.ErrorContains(t, err, "the answer cannot be used")
	_, err = pygent.Question{Schema: json.RawMessage(`[]`)}.ParseAnswer("a")
	require.ErrorContains(t, err, "no")
}

func TestAToolThatWaitsForItsOwnTaskIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var agent *pygent.Agent
		research := pygent.NewTool("research", "", func(ctx context.Context, rt pygent.Runtime, _ struct{}) (string, error) {
			id, err := agent.Tasks().StartTask(ctx, "Deploy.", rt, pygent.WithTaskCall(ctx))
			if err != nil {
				return "", err
			}
			s, err := agent.Tasks().Wait(ctx, id)
			return s.Summary(), err
		})
		model := pygenttest.NewScriptedModel(pygenttest.Call("research", nil), stop).On("Deploy.", pygenttest.Call("deploy", nil), stop)
		agent = newAgentOn(t, hollow{}, model, pygent.WithTools(research, asking(pygent.Question{Prompt: "Where?"})))
		start := time.Now()
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		heard, got := heardInTask(t, agent)
		require.Equal(t, "nobody", heard)
		require.Equal(t, "all done", got[0])
		require.Zero(t, time.Since(start))
		require.NoError(t, agent.Close())
	})
}

// TestQuestionsOfTasksAtRandom has tasks ask while the model of their parent, a
// program and a user answer, steer, cancel and leave, in any order. Whatever
// happens, everything ends, and each answer that was taken is heard.
func TestQuestionsOfTasksAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("does many things at random")
	}
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playQuestions(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playQuestions(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	n := func(most int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(most)
	}
	nap := func(ctx context.Context) {
		select {
		case <-time.After(time.Duration(n(4)) * time.Second):
		case <-ctx.Done():
		}
	}
	var heard, taken sync.Map // by the text of the answer
	ask := pygent.NewTool("deploy", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		q := pygent.Question{Prompt: "Where?", Options: []string{"here", "there"}, UserOnly: n(8) == 0}
		answer, err := pygent.Ask(ctx, q)
		if err == nil {
			heard.Store(answer.Text, true)
		}
		return answer.Text, err
	})
	calls := []func(id string) pygenttest.Reply{
		func(string) pygenttest.Reply { return delegate(fmt.Sprint("Sub ", n(1000))) },
		func(string) pygenttest.Reply { return pygenttest.Call("task_status", map[string]any{"wait": n(60)}) },
		func(id string) pygenttest.Reply { return send(id, fmt.Sprint(1+n(3))) },
		func(id string) pygenttest.Reply { return send(id, "somewhere") },
		func(id string) pygenttest.Reply { return pygenttest.Call("cancel_task", map[string]any{"task_id": id}) },
		func(string) pygenttest.Reply { return pygenttest.Call("continue", map[string]any{"prompt": "And?"}) },
		always(pygenttest.Call("deploy", nil)), always(pygenttest.Call("deploy", nil)), always(stop), always(pygenttest.Text("Well.")),
	}
	decide := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		ids := startedTasks(req.Messages)
		id := "none"
		if len(ids) > 0 {
			id = ids[n(len(ids))]
		}
		call := calls[n(len(calls))](id)
		if n(4) == 0 {
			call = pygenttest.Calls(call, calls[n(4)](id))
		}
		return call.WithDelay(time.Duration(n(3)) * time.Second)
	})
	user := func(ctx context.Context, _ pygent.AskRequest) (pygent.Answer, error) {
		nap(ctx)
		return pygent.Answer{Text: "by the user"}, ctx.Err()
	}
	agent := newAgentOn(t, hollow{}, pygenttest.NewScriptedModel(decide).RepeatLast(), pygent.WithTools(ask), pygent.MaxTaskDepth(1+n(3)), pygent.MaxTasks(1+n(6)), pygent.MaxSteps(30),
		pygent.TaskDefaults(pygent.Limits{MaxSteps: 12, MaxTime: time.Duration(1+n(30)) * time.Minute}))
	life, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // a program
		for i := 0; life.Err() == nil; i++ {
			nap(life)
			all, _ := agent.Tasks().Tasks(life, pygent.TaskFilter{})
			for _, s := range all {
				text := fmt.Sprintf("by the program %d", i)
				switch {
				case n(6) == 0:
					_ = agent.Tasks().Cancel(life, s.ID)
				case n(6) == 0:
					_, _ = agent.Tasks().Send(life, s.ID, "Hurry.", pygent.WithNextStep())
				case s.Asked != nil && n(2) == 0:
					if agent.Tasks().Answer(life, s.ID, s.Asked.Request.From.Call.ID, pygent.Answer{Text: text + s.ID}) == nil {
						taken.Store(text+s.ID, true)
					}
				}
			}
			agent.SetAsk([]pygent.AskFunc{nil, nil, nil, user}[n(4)])
			time.Sleep(time.Second)
		}
	})
	for range 1 + n(4) {
		ctx, cancel := context.WithTimeout(life, time.Duration(1+n(300))*time.Second)
		_, _ = agent.RunUntilStop(ctx, "go")
		cancel()
		nap(life)
	}
	if n(2) == 0 {
		leave()
		wg.Wait()
	}
	require.NoError(t, agent.Close())
	leave()
	wg.Wait()
	taken.Range(func(text, _ any) bool {
		_, ok := heard.Load(text)
		require.True(t, ok, text)
		return true
	})
}
