package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type conversation []*Message

func (c conversation) Len() int          { return len(c) }
func (c conversation) At(i int) *Message { return c[i] }

func conversationOf(messages ...string) (c conversation) {
	for _, m := range messages {
		c = append(c, NewMessage([]byte(m)))
	}
	return c
}

func TestTheSystemMessageBecomesTheUsersWords(t *testing.T) {
	t.Parallel()
	const system, answer = `{"role":"system","content":"Be kind."}`, `{"role":"assistant","content":"a"}`
	for name, c := range map[string]struct{ given, want []string }{
		"text":           {[]string{system, `{"role":"user","content":"hi"}`, answer}, []string{`{"role":"user","content":"Be kind.\n\nhi"}`, answer}},
		"a name":         {[]string{system, `{"role":"user","name":"x","content":"hi"}`}, []string{`{"role":"user","name":"x","content":"Be kind.\n\nhi"}`}},
		"parts":          {[]string{system, `{"role":"user","content":[{"type":"text","text":"hi"}]}`}, []string{`{"role":"user","content":[{"type":"text","text":"Be kind."},{"type":"text","text":"hi"}]}`}},
		"alone":          {[]string{system}, []string{`{"role":"user","content":"Be kind."}`}},
		"no user after":  {[]string{system, answer}, []string{`{"role":"user","content":"Be kind."}`, answer}},
		"no system":      {[]string{`{"role":"user","content":"hi"}`}, []string{`{"role":"user","content":"hi"}`}},
		"nothing at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			got := withoutSystem(conversationOf(c.given...))
			require.Equal(t, len(c.want), got.Len())
			for i, want := range c.want {
				require.JSONEq(t, want, string(got.At(i).json))
			}
		})
	}
}

func TestARefusedSystemRoleIsKnown(t *testing.T) {
	t.Parallel()
	with := &call{client: &Client{}, req: &Request{Messages: conversationOf(`{"role":"system","content":"x"}`)}}
	without := &call{client: &Client{}, req: &Request{Messages: conversationOf(`{"role":"user","content":"x"}`)}}
	for message, want := range map[string]bool{
		"System role not supported":                                                            true,
		"Developer instruction is not enabled for models/gemma-3-27b-it":                       true,
		"Unsupported value: 'messages[0].role' does not support 'system' with this model.":     true,
		"role 'system' is not supported on this model":                                         true,
		"The model does not support system messages; system message not allowed":               true,
		"System prompt not supported":                                                          true,
		"Conversation roles must alternate user/assistant/user/assistant/...":                  false,
		"Invalid value: 'x'. Supported values are: 'system', 'assistant', 'user', and 'tool'.": false,
		"the file system is full, which is not supported":                                      false,
		"role developer must be one of: system, user, assistant, tool":                         false,
	} {
		require.Equal(t, want, with.refusesSystem(&Error{Status: 400, Message: message}), message)
		require.False(t, without.refusesSystem(&Error{Status: 400, Message: message}), message)
	}
}
