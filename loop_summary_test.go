package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// TestWhatCountsAsTheAnswer has what models say beside their calls and before they stop
// without a word.
func TestWhatCountsAsTheAnswer(t *testing.T) {
	t.Parallel()
	text, bare := pygenttest.Text, pygenttest.Call("stop", nil)
	beside := func(said string) pygenttest.Reply { return pygenttest.TextAndCalls(said, callBash("true")) }
	always, fix, why := []pygent.RunOption(nil), "Fix the test.", "Why does the test fail?"
	answers, replies := []pygent.RunOption{pygent.WithEndOnAnswer()}, []pygent.RunOption{pygent.WithEndOnReply()}
	for name, tt := range map[string]struct {
		opts    []pygent.RunOption
		prompt  string
		replies []pygenttest.Reply
		status  pygent.Status
		summary string
	}{
		"beside a call":                {always, fix, []pygenttest.Reply{beside("I'll look at the file now."), bare}, pygent.StatusStopped, ""},
		"beside a call, for an answer": {answers, fix, []pygenttest.Reply{beside("All tests pass."), bare}, pygent.StatusStopped, ""},
		"beside the stop":              {answers, fix, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("It is fixed.", bare)}, pygent.StatusStopped, "It is fixed."},
		"a step beside the stop":       {answers, fix, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("I'll look again.", bare)}, pygent.StatusStopped, ""},
		"announced before a call":      {always, fix, []pygenttest.Reply{text("I'll do it."), callBash("true"), bare}, pygent.StatusStopped, ""},
		"said before a call":           {always, fix, []pygenttest.Reply{callBash("true"), text("It is fixed."), callBash("true"), bare}, pygent.StatusStopped, "It is fixed."},
		"claimed before the work":      {answers, fix, []pygenttest.Reply{text("It is fixed."), callBash("true"), bare}, pygent.StatusStopped, ""},
		"a question without an answer": {answers, why, []pygenttest.Reply{beside("I look."), bare, pygenttest.Call("stop", map[string]any{"summary": "It is old."})}, pygent.StatusStopped, "It is old."},
		"a question, and no answer":    {answers, why, []pygenttest.Reply{beside("I look."), bare, bare}, pygent.StatusStopped, ""},
		"a question that is answered":  {answers, why, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("It is old.", bare)}, pygent.StatusStopped, "It is old."},
		"a question in a chat":         {replies, why, []pygenttest.Reply{beside("I look."), bare}, pygent.StatusStopped, ""},
		"when a limit is reached":      {append(answers, pygent.MaxSteps(1)), fix, []pygenttest.Reply{beside("I look.")}, pygent.StatusMaxSteps, ""},
		"beside a question":            {answers, fix, []pygenttest.Reply{pygenttest.TextAndCalls("There are two.", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}))}, pygent.StatusAwaitingUser, "There are two."},

		"a chat puts the work off":        {replies, fix, []pygenttest.Reply{text("I'll do it."), callBash("true"), text("It is fixed.")}, pygent.StatusReplied, "It is fixed."},
		"a chat puts the work off, twice": {replies, fix, []pygenttest.Reply{text("I'll do it."), text("I'll do it now.")}, pygent.StatusReplied, "I'll do it."},
		"a chat puts the next step off":   {replies, fix, []pygenttest.Reply{callBash("true"), text("I see it. Let me fix it."), callBash("true"), text("It is fixed.")}, pygent.StatusReplied, "It is fixed."},
		"a chat about words":              {replies, "Remember that I like tabs.", []pygenttest.Reply{text("I'll remember it.")}, pygent.StatusReplied, "I'll remember it."},
		"a chat with a single reply":      {append(replies, pygent.MaxReplies(1)), fix, []pygenttest.Reply{text("I'll do it.")}, pygent.StatusReplied, "I'll do it."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(tt.replies...)
			result, err := newAgentOn(t, hollow{}, model).RunUntilStop(t.Context(), tt.prompt, tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.status, result.Status)
			require.Equal(t, tt.summary, result.Summary)
			require.Zero(t, model.Remaining())
		})
	}
}
