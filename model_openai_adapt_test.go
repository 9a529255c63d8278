package pygent_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestRefusedParametersAreDroppedOnce(t *testing.T) {
	t.Parallel()
	raw := func(status int, body string) pygenttest.Reply {
		return pygenttest.Raw(status, "application/json", body)
	}
	cases := []struct {
		name   string
		reply  pygenttest.Reply
		opts   []pygent.OpenAIOption
		gone   string
		added  string
		notice string
	}{
		{"stream_options", raw(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`), nil, "stream_options", "", "dropped parameter stream_options"},
		{"parallel_tool_calls", raw(422, `{"detail":[{"type":"extra_forbidden","loc":["body","parallel_tool_calls"],"msg":"Extra inputs are not permitted"}]}`),
			[]pygent.OpenAIOption{pygent.OpenAIParallelToolCalls(true)}, "parallel_tool_calls", "", "dropped parameter parallel_tool_calls"},
		{"temperature", pygenttest.UnsupportedParameter("temperature"),
			[]pygent.OpenAIOption{pygent.OpenAIExtraBody(map[string]any{"temperature": 0, "top_p": 1})}, "temperature", "", "dropped parameter temperature"},
		{"the limit's name", pygenttest.UnsupportedParameter("max_completion_tokens"),
			[]pygent.OpenAIOption{pygent.OpenAIMaxTokens(5), pygent.OpenAIMaxTokensField("max_completion_tokens")}, "max_completion_tokens", "max_tokens", "sent max_completion_tokens as max_tokens"},
		{"the limit's old name", raw(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`),
			[]pygent.OpenAIOption{pygent.OpenAIMaxTokens(5)}, "max_tokens", "max_completion_tokens", "sent max_tokens as max_completion_tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pygenttest.NewServer(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
			m := newModel(t, append(c.opts, pygent.OpenAIBaseURL(s.URL()))...)
			req := ask()
			req.Tools = []pygent.ToolSpec{{Name: "bash"}}
			var notices []string
			note := func(d pygent.Delta) {
				if d.Notice != "" {
					notices = append(notices, d.Notice)
				}
			}
			_, err := m.ChatStream(t.Context(), req, note)
			require.NoError(t, err)
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], c.notice)
			_, err = m.ChatStream(t.Context(), req, note)
			require.NoError(t, err)
			require.Len(t, notices, 1, "it is remembered")
			require.Len(t, s.Requests(), 3)
			require.Contains(t, s.Requests()[0].Fields, c.gone)
			for _, r := range s.Requests()[1:] {
				require.NotContains(t, r.Fields, c.gone)
				require.Contains(t, r.Fields, "tools")
				if c.added != "" {
					require.Equal(t, "5", string(r.Fields[c.added]))
				}
			}
		})
	}
}

func TestWhatIsLearnedHoldsForTheModelsName(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("temperature"), pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIExtraBody(map[string]any{"temperature": 0}))
	_, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	other := ask()
	other.Model = "other"
	_, err = m.Chat(t.Context(), other)
	require.NoError(t, err)
	require.NotContains(t, s.Requests()[1].Fields, "temperature")
	require.Contains(t, s.Requests()[2].Fields, "temperature")
}

func TestRefusalsOfTheSameParameterEnd(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("max_tokens")).RepeatLast()
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIMaxTokens(5), pygent.OpenAIMaxTokensField("max_tokens"))
	_, err := m.Chat(t.Context(), ask())
	require.Equal(t, 400, apiError(t, err).Status)
	require.Less(t, len(s.Requests()), 4)
}

func TestOtherRefusalsAreNotAdaptedTo(t *testing.T) {
	t.Parallel()
	for _, reply := range []pygenttest.Reply{
		pygenttest.UnsupportedParameter("messages"),
		pygenttest.UnsupportedParameter("tools"),
		pygenttest.Status(400, "", "The word max_tokens_field only contains it."),
		pygenttest.ContextTooLarge(5),
		pygenttest.Status(429, "", "temperature"),
	} {
		s := pygenttest.NewServer(t, reply)
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIMaxTokens(5), pygent.OpenAIExtraBody(map[string]any{"temperature": 1}))
		_, err := m.Chat(t.Context(), ask())
		apiError(t, err)
		require.Len(t, s.Requests(), 1)
	}
}

func TestRefusedFieldsOfMessagesAreLeftOut(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t,
		pygenttest.Status(400, "", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
		pygenttest.Text("a"), pygenttest.Text("b")).Knows("reasoning_content", "kept")
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()))
	answer := pygent.AssistantMessage("Hi.")
	answer.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"r"`), "kept": json.RawMessage(`1`)}
	for range 2 {
		_, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), answer, pygent.UserMessage("On.")))
		require.NoError(t, err)
	}
	require.Len(t, s.Requests(), 3)
	for _, r := range s.Requests()[1:] {
		require.NotContains(t, r.Chat.Messages[1].Extra, "reasoning_content")
		require.Contains(t, r.Chat.Messages[1].Extra, "kept")
	}
}

func TestRejectedImagesBecomePlaceholders(t *testing.T) {
	t.Parallel()
	image := pygent.Message{Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "Look:"}, {ImageURL: "data:image/png;base64,AAAA"}}}
	cases := []struct {
		reply      pygenttest.Reply
		remembered bool
	}{
		{pygenttest.Status(404, "", "No endpoints found that support image input"), true},
		{pygenttest.Status(500, "", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), true},
		{pygenttest.Status(422, "", "Failed to deserialize: unknown variant `image_url`, expected `text`"), true},
		{pygenttest.Status(400, "", "Invalid image data"), false},
	}
	for _, c := range cases {
		m, s := serve(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
		var notices []string
		_, err := m.ChatStream(t.Context(), ask(image), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Equal(t, []string{"left images out: the model does not accept them"}, notices)
		require.Equal(t, "Look:\n[image left out: the model does not accept images]", s.Requests()[1].Chat.Messages[0].Content)
		_, err = m.Chat(t.Context(), ask(image))
		require.NoError(t, err)
		require.Equal(t, c.remembered, !s.Requests()[2].Chat.Messages[0].HasImages())
	}
}

// The words are those of the servers; internal/openai names the sources.
func TestRejectedFilesAndRecordingsBecomePlaceholders(t *testing.T) {
	t.Parallel()
	pdf := pygent.Part{FileName: "a.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}
	wav := pygent.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="}
	const noFile, noRecording = "Look:\n[file a.pdf left out: the model does not accept files]", "Look:\n[recording left out: the model does not accept recordings]"
	for _, c := range []struct {
		part       pygent.Part
		reply      pygenttest.Reply
		want       string
		remembered bool
	}{
		{pdf, pygenttest.Status(400, "", "This model does not support file content types."), noFile, true},
		{pdf, pygenttest.Status(500, "", "Unknown part type: file"), noFile, true},
		{pdf, pygenttest.Status(400, "", "Invalid value: file. Supported values are: 'text','image_url','video_url' and 'video'."), noFile, true},
		{pdf, pygenttest.Status(400, "", "Unsupported MIME type: application/pdf"), noFile, true},
		{pdf, pygenttest.Status(422, "", "Failed to deserialize: unknown variant `file`, expected `text`"), noFile, true},
		{pdf, pygenttest.Status(400, "", "unsupported content[].type"), noFile, true},
		{pdf, pygenttest.Status(400, "", "Invalid file data: 'messages[1].content[1].file.file_data'."), noFile, false},
		{wav, pygenttest.Status(500, "", "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), noRecording, true},
		{wav, pygenttest.Status(404, "", "No endpoints found that support input audio"), noRecording, true},
		{wav, pygenttest.Status(400, "", "content blocks are expected to be either text or image_url type"), noRecording, true},
		{wav, pygenttest.Status(400, "", "The audio file could not be decoded or its format is not supported."), noRecording, false},
	} {
		m, s := serve(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
		message := pygent.UserMessage("Look:", c.part)
		var notices []string
		_, err := m.ChatStream(t.Context(), ask(message), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Len(t, notices, 1)
		require.Regexp(t, "^left (files|recordings) out: the model does not accept them$", notices[0])
		require.Equal(t, c.want, s.Requests()[1].Chat.Messages[0].Content)
		_, err = m.Chat(t.Context(), ask(message))
		require.NoError(t, err)
		require.Equal(t, c.remembered, len(s.Requests()[2].Chat.Messages[0].Parts) == 0)
	}
}

func TestWhatIsNotTakenIsLeftOutOneKindAfterTheOther(t *testing.T) {
	t.Parallel()
	text := pygenttest.Status(400, "", "messages.content must be a string")
	m, s := serve(t, text, text, text, pygenttest.Text("a"))
	_, err := m.Chat(t.Context(), ask(pygent.UserMessage("Look:", pygent.Part{ImageURL: "data:image/png;base64,AAAA"},
		pygent.Part{FileName: "a.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}, pygent.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="})))
	require.NoError(t, err)
	require.Len(t, s.Requests(), 4)
	require.Empty(t, s.Requests()[3].Chat.Messages[0].Parts)
}

func TestImagesAreNotBlamedWithoutImages(t *testing.T) {
	t.Parallel()
	m, s := serve(t, pygenttest.Status(400, "", "image input is not supported"))
	_, err := m.Chat(t.Context(), ask())
	require.Error(t, err)
	require.Len(t, s.Requests(), 1)
}

func TestWhatIsKnownOfRolesSurvivesTheWayBackToChat(t *testing.T) {
	t.Parallel()
	for name, replies := range map[string][]pygenttest.Reply{
		"before": {noSystemRole, wantsResponses, notFound, pygenttest.Text("a")},
		"after":  {wantsResponses, notFound, noSystemRole, pygenttest.Text("a")},
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, replies...)
			_, err := m.Chat(t.Context(), ask(pygent.SystemMessage("Be kind."), pygent.UserMessage("Hi.")))
			require.NoError(t, err)
			last := server.Requests()[3]
			require.Equal(t, []string{"Be kind.\n\nHi."}, texts(last.Chat.Messages))
		})
	}
}

var (
	noSystemRole   = pygenttest.Status(400, "", "System role not supported")
	wantsResponses = pygenttest.Status(400, "", "This model is only supported in v1/responses")
	notFound       = pygenttest.Raw(404, "text/plain", "404 page not found")
)
