package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/verdict"
)

func TestWhatAPromptAsksFor(t *testing.T) {
	for want, prompts := range map[verdict.Request][]string{
		verdict.Words: {
			"", "hi", "go", "Hello there!", "what is 2+2?", "What's the capital of France", "say it", "Explain closures in Go.",
			"Tell me a joke, please.", "please explain closures", "can you explain closures?", "Was ist ein Monad?",
			"what does this mean?\n\npanic: fix the tests", "How does append grow a slice?",
		},
		verdict.Unclear: {
			"count", "2 + 2", "what does main.go do?", "Why do the tests fail?", "explain this project", "Repariere den Fehler.",
			"and on", "the log\n", "How many files are here?",
		},
		verdict.Work: {
			"Create hello.txt with the word hello.", "fix the tests", "Please fix it.", "Could you have a go at the bug?",
			"What is 2+2? Write it to a file.", "explain it and then add a test", "Find out why the tests fail, and fix the program.",
			"fix the tests\n\nFAIL: TestX", "why don't you fix it?", "- add a flag", "Tell me a joke and save it.",
		},
	} {
		for _, prompt := range prompts {
			require.Equal(t, want, verdict.Asked(prompt), prompt)
		}
	}
}

func TestTextsThatAnnounceAStep(t *testing.T) {
	for _, text := range []string{
		"I'll create the file now.", "Okay, let me look at the tests.", "I found it in `a.go`. Let me fix it.",
		"I will look into it. This takes a moment.", "Here is what I do:", "Now I need to run the tests.",
		"## Plan\n\n1. Look\n2. Fix", "My plan:\n- look\n- fix", "Ich werde die Datei anlegen.", "让我看看文件。", "Sure! I’m going to run it.",
		"The bug is clear.\n\nNext, I'll change it.",
	} {
		require.True(t, verdict.Announces(text), text)
	}
	for _, text := range []string{
		"", "Done. All tests pass.", "The plan of the house is in plan.txt.", "Let me know if you need more.", "I'll be glad to help further.",
		"Fixed it.\n\n```go\n// I'll do it:\n```", "2+2 is 4.", "I will not delete the directory.", "Once you say so, I'll delete it.",
		"Written:\n- a.go\n- b.go", "The summary of the plan is short.",
	} {
		require.False(t, verdict.Announces(text), text)
	}
}

func TestTextsThatAskTheUser(t *testing.T) {
	for _, text := range []string{
		"Which one?", "There are two.\n\n**Which one?**", "Which one?\n1. a\n2. b", "Which?\n- a\n- b", "どれですか？", `He asks "why?"`,
	} {
		require.True(t, verdict.AsksUser(text), text)
	}
	for _, text := range []string{"", "Done.", "Why? Because.", "```\nwhat?\n```", "- a?\n- b."} {
		require.False(t, verdict.AsksUser(text), text)
	}
	for text, offers := range map[string]bool{
		"Done. Anything else?": true, "Done. Would you like me to also add a test?": true, "Hello! How can I help you today?": true,
		"Should I delete it?": false, "Would you like me to fix it?": false, "": false,
	} {
		require.Equal(t, offers, verdict.Offers(text), text)
	}
}

func TestHowARunGoesOnAfterTexts(t *testing.T) {
	const work, words, unclear = "fix the tests", "what is 2+2?", "Repariere es bitte."
	const says, announces, asks, offers = "It is done.", "I'll do it now.", "Which one?", "Done. Anything else?"
	for name, tt := range map[string]struct {
		prompt string
		ran    bool
		texts  []string
		want   []verdict.Verdict
	}{
		"words":                      {words, false, []string{"4"}, []verdict.Verdict{verdict.Done}},
		"words that are announced":   {words, false, []string{announces, "4"}, []verdict.Verdict{verdict.Nudge, verdict.Done}},
		"words and an offer":         {words, false, []string{offers}, []verdict.Verdict{verdict.Done}},
		"after work":                 {work, true, []string{says}, []verdict.Verdict{verdict.Done}},
		"after work with an offer":   {work, true, []string{offers}, []verdict.Verdict{verdict.Done}},
		"a question after work":      {work, true, []string{asks}, []verdict.Verdict{verdict.Asks}},
		"a question before work":     {work, false, []string{asks}, []verdict.Verdict{verdict.Asks}},
		"after work, announced":      {work, true, []string{announces, announces, announces}, []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Stuck}},
		"after work, in the end":     {work, true, []string{announces, announces, says}, []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Done}},
		"work that is only claimed":  {work, false, []string{says, says, says}, []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Stuck}},
		"perhaps work":               {unclear, false, []string{says, says, says}, []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Done}},
		"perhaps work, is announced": {unclear, false, []string{says, says, announces}, []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Stuck}},
	} {
		t.Run(name, func(t *testing.T) {
			var j verdict.Judge
			j.Hear(tt.prompt)
			if tt.ran {
				j.Ran()
			}
			for i, text := range tt.texts {
				require.Equal(t, tt.want[i], j.Judge(verdict.Text{Text: text, CanStop: true}), i)
				require.Equal(t, text != announces, j.Stands())
			}
			j.Ran()
			require.False(t, j.Stands())
		})
	}
}

func TestACallAsTextIsNoAnswer(t *testing.T) {
	var j verdict.Judge
	j.Ran()
	for _, want := range []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Stuck} {
		require.Equal(t, want, j.Judge(verdict.Text{Text: "Done.", HasCall: true, CanStop: true}))
	}
}

func TestACallBeginsTheTextsAnew(t *testing.T) {
	var j verdict.Judge
	j.Hear("fix it")
	say := func() verdict.Verdict { return j.Judge(verdict.Text{Text: "I'll do it.", CanStop: true}) }
	for range 3 {
		require.Equal(t, verdict.Nudge, say())
		require.Equal(t, verdict.Demand, say())
		j.Called()
	}
	require.Equal(t, verdict.Nudge, say())
	require.Equal(t, verdict.Stuck, say(), "a call was demanded often enough")
}

func TestWithoutAStopTheSecondTextIsTheAnswer(t *testing.T) {
	var j verdict.Judge
	j.Hear("fix it")
	require.Equal(t, verdict.Nudge, j.Judge(verdict.Text{Text: "It is fine."}))
	require.Equal(t, verdict.Done, j.Judge(verdict.Text{Text: "It is fine."}))
}
