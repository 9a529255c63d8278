package nudge_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/nudge"
)

func TestAnAnswerWithoutACallIsNudged(t *testing.T) {
	for name, tt := range map[string]struct {
		answers nudge.Answers
		says    string
	}{
		"calls":                     {nudge.Answers{}, ""},
		"a reply":                   {nudge.Answers{Replies: 1}, "Go on."},
		"a reply without value":     {nudge.Answers{Replies: 1, Final: "answer"}, "Go on."},
		"an empty answer":           {nudge.Answers{Empty: true, Replies: 1}, "was empty"},
		"a reply that was cut":      {nudge.Answers{Trouble: nudge.Trouble{CutBy: nudge.TokenLimit}, Replies: 2}, "was cut off"},
		"a reply that was filtered": {nudge.Answers{Trouble: nudge.Trouble{CutBy: nudge.ContentFilter}, Replies: 1}, "cut off by the provider's content filter"},
		"calls that were cut off":   {nudge.Answers{Trouble: nudge.Trouble{CutBy: nudge.TokenLimit}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := nudge.After(tt.answers)
			require.Contains(t, text, tt.says)
			require.Equal(t, tt.says == "", text == "")
			require.Equal(t, tt.says == "Go on.", nudge.SaysGoOn(text))
		})
	}
}

func TestTheLastStepsAreTold(t *testing.T) {
	require.Empty(t, nudge.StepsLeft(4))
	require.Contains(t, nudge.StepsLeft(3), "3 more steps")
	require.Contains(t, nudge.StepsLeft(2), "2 more steps")
	require.Contains(t, nudge.StepsLeft(1), "One more step")
}

func TestTheLoopKnowsItsOwnWords(t *testing.T) {
	sumUp := nudge.SumUp("the limit of 7 steps is reached", "")
	require.Contains(t, sumUp, "the limit of 7 steps is reached, and no tool is run any more")
	require.True(t, nudge.AsksToSumUp(nudge.OnALine("exit code 0", sumUp)))
	require.Contains(t, nudge.SumUp("the limit is reached", "answer"), "Call answer now")
	require.True(t, nudge.Refuses(nudge.NoValue("answer")))
	require.False(t, nudge.AsksToSumUp(nudge.StepsLeft(1)))
	for _, refusal := range []string{
		nudge.Trouble{CutBy: nudge.TokenLimit}.CutCall(), nudge.Trouble{CutBy: nudge.ContentFilter}.CutCall(), nudge.CallLimit, nudge.LastCall, nudge.Ended,
		nudge.NotRun(errors.New("the run was cancelled")), nudge.NotStopped([]string{"a", "b"}),
	} {
		require.True(t, nudge.Refuses(refusal), refusal)
	}
	require.False(t, nudge.Refuses("stopped"))
	require.Equal(t, "not run: the run was cancelled", nudge.NotRun(errors.New("the run was cancelled")))
	require.Equal(t, "not stopped: a; b. See to it, or call stop again to stop all the same", nudge.NotStopped([]string{"a", "b"}))
}

func TestFailedCallsAreCountedByTool(t *testing.T) {
	require.Equal(t, "in the same answer bash (2 times), edit_file failed", nudge.Failed([]string{"bash", "edit_file", "bash"}))
}

func TestRepetitionsAreNamed(t *testing.T) {
	note, reason := nudge.Repeated("bash", 1, 5)
	require.Equal(t, "[this is the same call with the same result, 5 times in a row; try something else]", note)
	require.Equal(t, "bash gave the same result 5 times in a row", reason)
	note, reason = nudge.Repeated("bash", 2, 3)
	require.Equal(t, "[the last 2 calls failed in the same way 3 times in a row; try something else]", note)
	require.Equal(t, "the last 2 calls failed in the same way 3 times in a row", reason)
}

func TestANoteHasALineOfItsOwn(t *testing.T) {
	require.Equal(t, "text", nudge.OnALine("text", ""))
	require.Equal(t, "text\n[note]", nudge.OnALine("text", "[note]"))
}
