package pygent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestEveryWordForAnEndIsUnderstood(t *testing.T) {
	t.Parallel()
	for word, want := range map[pygent.FinishReason]pygent.FinishReason{
		"max_tokens": pygent.FinishLength, "MAX_TOKENS": pygent.FinishLength, "model_length": pygent.FinishLength,
		"model_context_window_exceeded": pygent.FinishLength, "SAFETY": pygent.FinishFilter, "end_turn": pygent.FinishStop,
	} {
		m, _ := serve(t, pygenttest.Text("Half").WithFinish(word))
		for _, ask := range map[string]func() (*pygent.ChatResponse, error){
			"whole":  func() (*pygent.ChatResponse, error) { return m.Chat(t.Context(), ask()) },
			"stream": func() (*pygent.ChatResponse, error) { return m.ChatStream(t.Context(), ask(), func(pygent.Delta) {}) },
		} {
			m, _ = serve(t, pygenttest.Text("Half").WithFinish(word))
			resp, err := ask()
			require.NoError(t, err)
			require.Equal(t, want, resp.FinishReason, word)
		}
	}
	for _, word := range []pygent.FinishReason{"error", "network_error", "insufficient_system_resource", "abort"} {
		m, _ := serve(t, pygenttest.Text("Half").WithFinish(word))
		_, err := m.Chat(t.Context(), ask())
		api := apiError(t, err)
		require.True(t, api.Retryable)
		require.Contains(t, api.Message, string(word))
	}
}

func TestAnUnknownWordForAnEndIsToldOnce(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Text("Hi.").WithFinish("because"), pygenttest.Text("Hi.").WithFinish("because"))
	var notices []string
	for range 2 {
		resp, err := m.ChatStream(t.Context(), ask(), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Equal(t, pygent.FinishReason("because"), resp.FinishReason)
	}
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], `"because"`)
}

// A client lives long, and a server may invent words for ever.
func TestNotEveryUnknownWordForAnEndIsTold(t *testing.T) {
	t.Parallel()
	m, server := serve(t)
	told := 0
	for i := range 70 {
		server.Add(pygenttest.Text("Hi.").WithFinish(pygent.FinishReason(fmt.Sprintf("because-%d", i))))
		_, err := m.ChatStream(t.Context(), ask(), countNotices(&told))
		require.NoError(t, err)
	}
	require.Equal(t, 64, told)
}

func countNotices(told *int) func(pygent.Delta) {
	return func(d pygent.Delta) {
		if d.Notice != "" {
			*told++
		}
	}
}

// TestSeveralChoicesEndTogether has an answer in several choices be cut off if one of them is.
func TestSeveralChoicesEndTogether(t *testing.T) {
	t.Parallel()
	for reasons, want := range map[string]pygent.FinishReason{
		"stop length": pygent.FinishLength, "length stop": pygent.FinishLength, "stop content_filter": pygent.FinishFilter,
		"length content_filter": pygent.FinishLength, "content_filter length": pygent.FinishLength, "stop stop": pygent.FinishStop,
	} {
		first, second, _ := strings.Cut(reasons, " ")
		m, _ := serve(t, pygenttest.Raw(200, "application/json", fmt.Sprintf(`{"choices":[
			{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":%q},
			{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":%q}]}`, first, second)))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Equal(t, want, resp.FinishReason, reasons)
	}
}

func TestWhatOfAnAnswerIsLeftOutIsTold(t *testing.T) {
	t.Parallel()
	const two = `data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}` + "\n\n"
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, tt := range map[string]struct {
		body    string
		options []pygent.OpenAIOption
		notice  string
	}{
		"several were asked for": {two + end + "data: [DONE]\n\n", []pygent.OpenAIOption{pygent.OpenAIExtraBody(map[string]any{"n": 2})},
			"the first of 2 answers counts: several were asked for (n)"},
		"one broke off": {two + end, nil, "a part of the answer was left out: the stream broke off before it ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := pygenttest.Raw(200, "text/event-stream", tt.body)
			s := pygenttest.NewServer(t, reply, reply)
			m := newModel(t, append(tt.options, pygent.OpenAIBaseURL(s.URL()))...)
			var notices []string
			note := func(d pygent.Delta) {
				if d.Notice != "" {
					notices = append(notices, d.Notice)
				}
			}
			resp, err := m.ChatStream(t.Context(), ask(), note)
			require.NoError(t, err)
			require.Equal(t, "a", resp.Message.Text())
			require.Equal(t, []string{tt.notice}, notices)
			_, err = m.ChatStream(t.Context(), ask(), note)
			require.NoError(t, err)
			if tt.options != nil {
				require.Len(t, notices, 1, "what the user asked for is told once")
			}
		})
	}
}

// TestAModelOfAnotherPackageEndsInItsOwnWords has the loop understand them too.
func TestAModelOfAnotherPackageEndsInItsOwnWords(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.Text("The answ").WithFinish("MAX_TOKENS"), pygenttest.Text("Oops").WithFinish("network_error"), pygenttest.Text("It is 42."))
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "It is 42.", result.Summary)
}

func TestAnAnswerThatIsFilteredInPartIsSaidToBe(t *testing.T) {
	t.Parallel()
	half := pygenttest.Text("The first half").WithFinish("SAFETY")
	var warned []string
	agent := newAgent(t, pygenttest.NewScriptedModel(half, half), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warned = append(warned, e.Text)
		}
	}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusTruncated, result.Status)
	require.Equal(t, "two answers in a row were cut off by the provider's content filter", result.Reason)
	require.Contains(t, warned, "the provider's content filter withheld the rest of the answer")
	require.Contains(t, texts(agent.History().Messages()), "Your last answer was cut off by the provider's content filter. Go on without what it may object to.")
}

func TestAnEndWithDoneAloneIsTakenTheSecondTime(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, bare, bare, bare)
	var notices []string
	ask := func() (*pygent.ChatResponse, error) {
		return m.ChatStream(t.Context(), ask(), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
	}
	_, err := ask()
	require.True(t, apiError(t, err).Retryable)
	for range 2 {
		resp, err := ask()
		require.NoError(t, err)
		require.Equal(t, "Hi.", resp.Message.Text())
	}
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "gives no finish_reason")
}

func TestAServerThatGivesReasonsIsNotTrustedWithoutOne(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, pygenttest.Text("Hi."), bare, bare)
	_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err)
	for range 2 {
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
		require.True(t, apiError(t, err).Retryable)
	}
}

// TestOneEndWithDoneAloneProvesNothing has a server give a reason after an answer without
// one: from then on it is one that gives reasons, and nothing is said of it.
func TestOneEndWithDoneAloneProvesNothing(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	counted := pygenttest.Raw(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"Hi."}}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	m, _ := serve(t, bare, pygenttest.Text("Hi."), counted, bare)
	told := 0
	chat := func() error {
		_, err := m.ChatStream(t.Context(), ask(), countNotices(&told))
		return err
	}
	require.True(t, apiError(t, chat()).Retryable)
	require.NoError(t, chat())
	require.NoError(t, chat())
	require.True(t, apiError(t, chat()).Retryable)
	require.Zero(t, told)
}

func TestAPlainAnswerWithoutAReasonProvesNothing(t *testing.T) {
	t.Parallel()
	plain := pygenttest.Raw(200, "application/json", `{"choices":[{"message":{"role":"assistant","content":"Hi."}}]}`)
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, plain, bare, bare)
	_, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	_, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.True(t, apiError(t, err).Retryable)
	_, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err, "the server may give no reasons")
}

// TestAnswersThatBreakOffAreCounted has what was paid for count, and end the run.
func TestAnswersThatBreakOffAreCounted(t *testing.T) {
	t.Parallel()
	used := pygent.Usage{PromptTokens: 90, CompletionTokens: 10}
	broken := pygenttest.Text("Oops").WithFinish("network_error").WithUsage(used)
	said := pygenttest.Text("It is 42.").WithUsage(used)
	for name, model := range map[string]func(replies ...pygenttest.Reply) pygent.Model{
		"server": func(replies ...pygenttest.Reply) pygent.Model {
			m, _ := serve(t, replies...)
			return m
		},
		"another package": func(replies ...pygenttest.Reply) pygent.Model { return pygenttest.NewScriptedModel(replies...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := newAgentOn(t, nowhere{}, model(broken, said)).RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, int64(200), result.Usage.Total())
			result, err = newAgentOn(t, nowhere{}, model(broken, said)).RunUntilStop(t.Context(), "go", pygent.MaxTokens(100))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusBudget, result.Status)
			require.Equal(t, int64(100), result.Usage.Total())

			uncounted := pygenttest.Text("Oops").WithFinish("network_error")
			agent := newAgentOn(t, nowhere{}, model(uncounted, said), pygent.WithModelName("m"), pygent.WithPrices(dollars))
			result, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.MaxCost(1_000))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusReplied, result.Status, result.Reason)
		})
	}
}
