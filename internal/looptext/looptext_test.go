package looptext_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/looptext"
)

func TestAnAnswerWithoutACallIsNudged(t *testing.T) {
	for name, tt := range map[string]struct {
		answers looptext.Answers
		says    string
	}{
		"calls":                     {looptext.Answers{}, ""},
		"a reply":                   {looptext.Answers{Replies: 1}, "Go on."},
		"a reply without value":     {looptext.Answers{Replies: 1, Final: "answer"}, "Go on."},
		"an empty answer":           {looptext.Answers{Empty: true, Replies: 1}, "was empty"},
		"a reply that was cut":      {looptext.Answers{Trouble: looptext.Trouble{CutBy: looptext.TokenLimit}, Replies: 2}, "was cut off"},
		"a reply that was filtered": {looptext.Answers{Trouble: looptext.Trouble{CutBy: looptext.ContentFilter}, Replies: 1}, "cut off by the provider's content filter"},
		"calls that were cut off":   {looptext.Answers{Trouble: looptext.Trouble{CutBy: looptext.TokenLimit}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := looptext.After(tt.answers)
			require.Contains(t, text, tt.says)
			require.Equal(t, tt.says == "", text == "")
			require.Equal(t, tt.says == "Go on.", looptext.SaysGoOn(text))
		})
	}
}

func TestTheLastStepsAreTold(t *testing.T) {
	require.Empty(t, looptext.StepsLeft(4))
	require.Contains(t, looptext.StepsLeft(3), "3 more steps")
	require.Contains(t, looptext.StepsLeft(2), "2 more steps")
	require.Contains(t, looptext.StepsLeft(1), "One more step")
}

func TestTheLoopKnowsItsOwnWords(t *testing.T) {
	sumUp := looptext.SumUp("the limit of 7 steps is reached", "")
	require.Contains(t, sumUp, "the limit of 7 steps is reached, and no tool is run any more")
	require.True(t, looptext.AsksToSumUp(looptext.OnALine("exit code 0", sumUp)))
	require.Contains(t, looptext.SumUp("the limit is reached", "answer"), "Call answer now")
	require.True(t, looptext.Refuses(looptext.NoValue("answer")))
	require.False(t, looptext.AsksToSumUp(looptext.StepsLeft(1)))
	for _, refusal := range []string{
		looptext.Trouble{CutBy: looptext.TokenLimit}.CutCall(), looptext.Trouble{CutBy: looptext.ContentFilter}.CutCall(), looptext.CallLimit, looptext.LastCall, looptext.Ended,
		looptext.NotRun(errors.New("the run was cancelled")), looptext.NotStopped([]string{"a", "b"}),
	} {
		require.True(t, looptext.Refuses(refusal), refusal)
	}
	require.False(t, looptext.Refuses("stopped"))
	require.Equal(t, "not run: the run was cancelled", looptext.NotRun(errors.New("the run was cancelled")))
	require.Equal(t, "not stopped: a; b. See to it, or call stop again to stop all the same", looptext.NotStopped([]string{"a", "b"}))
}

func TestFailedCallsAreCountedByTool(t *testing.T) {
	require.Equal(t, "in the same answer bash (2 times), edit_file failed", looptext.Failed([]string{"bash", "edit_file", "bash"}))
}

func TestRepetitionsAreNamed(t *testing.T) {
	note, reason := looptext.Repeated("bash", 1, 5)
	require.Equal(t, "[this is the same call with the same result, 5 times in a row; try something else]", note)
	require.Equal(t, "bash gave the same result 5 times in a row", reason)
	note, reason = looptext.Repeated("bash", 2, 3)
	require.Equal(t, "[the last 2 calls failed in the same way 3 times in a row; try something else]", note)
	require.Equal(t, "the last 2 calls failed in the same way 3 times in a row", reason)
}

func TestANoteHasALineOfItsOwn(t *testing.T) {
	require.Equal(t, "text", looptext.OnALine("text", ""))
	require.Equal(t, "text\n[note]", looptext.OnALine("text", "[note]"))
}
