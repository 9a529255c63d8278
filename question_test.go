package pygent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
