package pygenttest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// refusal has the fields of an answer that these tests check.
type refusal struct {
	Error struct {
		Code    any
		Type    string
		Param   *string
		Message string
	}
	Object  string
	Message any
	Code    string
}

func TestServerRefusesInTheProvidersForm(t *testing.T) {
	const text = `{"model":"m1","messages":[{"role":"user","content":"hi","name":"me"},%s],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":true}}}}]}`
	said := fmt.Sprintf(text, `{"role":"assistant","content":"x"},{"role":"user","content":"go"}`)
	tests := map[pygenttest.Provider]struct {
		status int
		body   string
	}{
		"":                 {200, said},
		pygenttest.Gemini:  {400, said},
		pygenttest.Mistral: {422, said},
		pygenttest.Ollama:  {400, said},
		pygenttest.Gemma:   {400, `{"model":"m1","messages":[{"role":"system","content":"x"},{"role":"user","content":"hi"}]}`},
	}
	for provider, tt := range tests {
		t.Run(string(provider), func(t *testing.T) {
			s := pygenttest.NewServer(t, pygenttest.Text("taken")).Strict(provider)
			status, header, got, err := answer(t, s, tt.body)
			require.NoError(t, err)
			require.Equal(t, tt.status, status, got)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			if status == http.StatusOK {
				return
			}
			require.Equal(t, 1, s.Remaining(), "a refusal uses up no reply")
			require.Error(t, s.Requests()[0].Err)
			require.NotNil(t, s.Requests()[0].Chat)
			var list []refusal
			if provider == pygenttest.Gemini {
				require.NoError(t, json.Unmarshal([]byte(got), &list))
				require.EqualValues(t, 400, list[0].Error.Code)
				return
			}
			var one refusal
			require.NoError(t, json.Unmarshal([]byte(got), &one))
			require.Equal(t, provider == pygenttest.Mistral, one.Object == "error")
			require.Equal(t, provider == pygenttest.Ollama, strings.Contains(one.Error.Message, "cannot unmarshal bool"))
		})
	}
}

func TestServerNamesTheRefusedParameter(t *testing.T) {
	s := pygenttest.NewServer(t)
	for body, want := range map[string][2]string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"thinking":1}`: {"thinking", "unknown_parameter"},
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[]}`:   {"tools", "empty_array"},
	} {
		_, _, text, err := answer(t, s, body)
		require.NoError(t, err)
		var got refusal
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, want[0], *got.Error.Param)
		require.Equal(t, want[1], got.Error.Code)
		require.Equal(t, "invalid_request_error", got.Error.Type)
	}
}

// next sends the server's answer back, with a result for its call.
func next(t *testing.T, s *pygenttest.Server, text string) int {
	t.Helper()
	var got struct {
		Choices []struct{ Message json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	var message pygent.Message
	require.NoError(t, json.Unmarshal(got.Choices[0].Message, &message))
	result, err := json.Marshal(chat.ToolMessage(message.ToolCalls[0].ID, "ok"))
	require.NoError(t, err)
	status, _, text, err := answer(t, s, fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"hi"},%s,%s]}`, got.Choices[0].Message, result))
	require.NoError(t, err)
	if status != http.StatusOK {
		t.Log(text)
	}
	return status
}

// No provider refuses its own answers, with every field that it sent.
func TestServerTakesItsAnswersBack(t *testing.T) {
	call := pygenttest.Call("bash", nil)
	for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama, pygenttest.Gemma} {
		s := pygenttest.NewServer(t, call, pygenttest.Text("done")).Strict(provider)
		_, _, text, err := answer(t, s, `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, next(t, s, text), provider)
	}
	s := pygenttest.NewServer(t, call.WithReasoning("hm"), pygenttest.Text("done"))
	_, _, text, err := answer(t, s, `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`)
	require.NoError(t, err)
	require.Contains(t, text, "reasoning_content")
	require.Equal(t, http.StatusOK, next(t, s, text))
}

func TestServerKnowsTheFieldsOfOthers(t *testing.T) {
	const body = `{"model":"m1","top_k":3,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"x","thinking":"y"},{"role":"user","content":"z"}]}`
	s := pygenttest.NewServer(t, pygenttest.Text("taken"))
	for i, field := range []string{"top_k", "thinking"} {
		status, _, text, err := answer(t, s, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, status, i)
		require.Contains(t, text, field)
		s.Knows(field)
	}
	status, _, _, err := answer(t, s, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}
