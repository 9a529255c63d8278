package verdict_test

import (
	"strings"
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
			"explain " + strings.Repeat("a", 392),
		},
		verdict.Unclear: {
			"count", "2 + 2", "what does main.go do?", "Why do the tests fail?", "explain this project", "Repariere den Fehler.",
			"and on", "the log\n", "How many files are here?",
			"can you explain this project?", "explain " + strings.Repeat("a", 393),
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
		"## Plan", "Ich werde die Datei anlegen.", "让我看看文件。", "Sure! I’m going to run it.",
		"The bug is clear.\n\nNext, I'll change it.", "I'll do it now. It is easy. It takes a minute.",
	} {
		require.True(t, verdict.Announces(text), text)
	}
	for _, text := range []string{
		"", "Done. All tests pass.", "The plan of the house is in plan.txt.", "Let me know if you need more.", "I'll be glad to help further.",
		"Fixed it.\n\n```go\n// I'll do it:\n```", "2+2 is 4.", "I will not delete the directory.", "Once you say so, I'll delete it.",
		"Written:\n- a.go\n- b.go", "The summary of the plan is short.",
		"I'll say what was wrong. It was the clock. It was the test. Both are fixed.", "- a.go\n- b.go",
		"It is now as follows:\n\n```go\nx := 1\n```", "It is now as follows:\n\n```go\nx := 1",
	} {
		require.False(t, verdict.Announces(text), text)
	}
}

func TestTextsThatAskTheUser(t *testing.T) {
	for _, text := range []string{
		"Which one?", "Which one?\n\n", "There are two.\n\n**Which one?**", "Which one?\n1. a\n2. b", "Which?\n- a\n- b", "どれですか？", `He asks "why?"`,
		"He asks “why?”", "He asks « why? »", "(Or the other one?)", "_Which one?_", "**Which one? **", "Is it `why?`",
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
				j.Ran(false)
			}
			for i, text := range tt.texts {
				require.Equal(t, tt.want[i], j.Judge(verdict.Text{Text: text, CanStop: true}), i)
				require.Equal(t, text != announces, j.Stands())
			}
			j.Ran(false)
			require.False(t, j.Stands())
		})
	}
}

func TestACallAsTextIsNoAnswer(t *testing.T) {
	var j verdict.Judge
	j.Ran(false)
	for i, want := range []verdict.Verdict{verdict.Nudge, verdict.Demand, verdict.Stuck} {
		text := []string{"Done.", "Shall I?", "## Plan\n- do it"}[i]
		require.Equal(t, want, j.Judge(verdict.Text{Text: text, HasCall: true, CanStop: true}))
		require.Equal(t, want != verdict.Nudge, j.Demanded)
		require.False(t, j.Answers())
	}
}

// An example of a call is the answer to who asks about calls, and to nobody else.
func TestAnExampleOfACallIsAnAnswer(t *testing.T) {
	const example = "A call is an object with a name and arguments:\n\n```json\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"ls\"}}\n```"
	for _, tt := range []struct {
		prompt, text, quotes string
		ran                  bool
		want                 verdict.Verdict
	}{
		{"What does a tool call look like in JSON?", example, "bash", false, verdict.Done},
		{"How do I call bash?", example, "bash", false, verdict.Done},
		{"Explain function calling.", example, "bash", false, verdict.Done},
		{"How do I call bash?", example, "", false, verdict.Nudge},
		{"How do I call bash?", "I'll show it. " + example, "bash", false, verdict.Nudge},
		{"what is 2+2?", example, "bash", false, verdict.Nudge},
		{"Call bash and fix it.", example, "bash", false, verdict.Nudge},
		{"Which tool did you run?", example, "bash", true, verdict.Nudge},
	} {
		var j verdict.Judge
		j.Hear(tt.prompt)
		if tt.ran {
			j.Ran(false)
		}
		require.Equal(t, tt.want, j.Judge(verdict.Text{Text: tt.text, HasCall: true, Quotes: tt.quotes, CanStop: true}), tt.prompt)
	}
}

func TestACallBeginsTheTextsAnew(t *testing.T) {
	var j verdict.Judge
	j.Hear("fix it")
	say := func() verdict.Verdict { return j.Judge(verdict.Text{Text: "I'll do it.", CanStop: true}) }
	for range 3 {
		require.Equal(t, verdict.Nudge, say())
		require.Equal(t, verdict.Demand, say())
		j.Answered(true)
	}
	require.Equal(t, verdict.Nudge, say())
	require.Equal(t, verdict.Stuck, say(), "a call was demanded often enough")
}

func TestWithoutAStopTheSecondTextIsTheAnswer(t *testing.T) {
	var j verdict.Judge
	j.Hear("fix it")
	require.Equal(t, verdict.Nudge, j.Judge(verdict.Text{Text: "It is fine."}))
	require.Equal(t, verdict.Done, j.Judge(verdict.Text{Text: "It is fine."}))
	j.Hear("fix it")
	require.Equal(t, verdict.Nudge, j.Judge(verdict.Text{Text: "I'll do it."}))
	require.Equal(t, verdict.Stuck, j.Judge(verdict.Text{Text: "I'll do it."}), "nor is a call demanded that the model has not")
}

// A text after one that something at work outlived is the second one.
func TestATextThatWaitedCounts(t *testing.T) {
	var j verdict.Judge
	j.Hear("fix it")
	j.Ran(false)
	j.Waits()
	require.Equal(t, verdict.Demand, j.Judge(verdict.Text{Text: "I'll do it.", CanStop: true}))
}

// TestHowRunsEnd has last texts as models write them, what was asked for, and what the
// tools gave that ran.
func TestHowRunsEnd(t *testing.T) {
	const fix, write, why, plan = "Fix the failing test.", "Create a CLI in Go that prints the weather.", "Why does main.go not compile?", "Make a plan for the migration to v2."
	const none, ok, failed = "", "ok", "ok failed"
	for _, tt := range []struct {
		prompt, ran, text string
		want              verdict.Verdict
	}{
		// Work that is done, and what a model adds out of politeness.
		{fix, ok, "The test passes now. Would you like me to commit the changes?", verdict.Done},
		{fix, ok, "I fixed the off-by-one in `a.go`, and all tests pass.\n\nDo you want me to push it?", verdict.Done},
		{fix, ok, "Done. Let me know if you want me to commit the changes.", verdict.Done},
		{fix, ok, "All 12 tests pass. Let me know if you have any questions!", verdict.Done},
		{fix, ok, "All tests pass. Is there anything else you'd like me to do?", verdict.Done},
		{fix, ok, "All tests pass.\n\n**Would you like me to clean up the old helper?**", verdict.Done},
		{write, ok, "Written to main.go.\n\n```go\npackage main\n```\n\nWant me to add a README?", verdict.Done},
		{write, ok, "The program works. Would you like a Makefile for it?", verdict.Done},
		{write, ok, "The program is in main.go. Shall I also write tests?", verdict.Done},
		{write, ok, "The program is in main.go. Can I help with something else?", verdict.Done},
		{why, ok, "main.go lacks an import of fmt. Would you like me to fix it?", verdict.Done},
		{why, ok, "Line 3 has a typo.\n\nDo you want me to correct it?", verdict.Done},

		// Work that depends on the answer.
		{fix, ok, "I found the bug in a.go. Would you like me to fix it?", verdict.Asks},
		{fix, ok, "I found two causes. Would you like me to proceed?", verdict.Asks},
		{fix, ok, "The cause is clear. Do you want me to implement this change?", verdict.Asks},
		{fix, ok, "The test is wrong, not the code. Would you like me to change the test or the code?", verdict.Asks},
		{fix, ok, "The test needs a database. Which one should I use?", verdict.Asks},
		{fix, ok, "This deletes all data of the table. Should I go on?", verdict.Asks},
		{fix, ok, "The file is generated. May I edit it?", verdict.Asks},
		{fix, ok, "Would you like me to delete the old snapshots?", verdict.Asks},
		{fix, ok, "There are two ways:\n\n1. Mock the clock\n2. Wait longer\n\nWhich do you prefer?", verdict.Asks},
		{fix, ok, "There are two ways to do it.\n\nPlease choose one:\n1. Mock the clock\n2. Wait longer", verdict.Asks},
		{fix, ok, "Both would work. Let me know which one you prefer.", verdict.Asks},
		{fix, failed, "go is not installed. Would you like me to install it?", verdict.Asks},
		{write, failed, "The API wants a key. Can you give me one?", verdict.Asks},
		{fix, none, "Which test do you mean?", verdict.Asks},
		{fix, none, "## Plan\n\n1. Mock the clock\n2. Run the test\n\nShall I begin?", verdict.Asks},
		{"Commit what you have, and push it.", ok, "It is committed. Do you want me to push it?", verdict.Asks},

		// Text that was asked for.
		{"Translate to English: Wie geht es dir?", none, "How are you?", verdict.Done},
		{"Translate \"Können Sie mir helfen?\" to English.", none, "Could you help me?", verdict.Done},
		{"Translate this into French.\n\nWhere is it?", none, "Où est-ce?", verdict.Done},
		{"Translate this into English.\n\nPuedes ayudarme?", none, "Can you help me?", verdict.Done},
		{"What is the capital?\n\nFrance, or Spain", none, "Which country do you mean?", verdict.Asks},
		{"Tell me a riddle.", none, "What has keys but opens no locks?", verdict.Done},
		{"Explain closures.", none, "A closure is a function with its variables. Would you like more examples?", verdict.Done},
		{"What's the capital?", none, "Which country do you mean?", verdict.Asks},
		{"Tell me a joke.", none, "What kind of joke would you like?", verdict.Asks},

		// Plans that were asked for, and others.
		{plan, ok, "## Plan\n\n1. Rename the package\n2. Tag it", verdict.Done},
		{"What is your plan?", none, "Plan:\n- look\n- fix", verdict.Done},
		{"How do you bake bread?", none, "Plan:\n- knead\n- bake", verdict.Done},
		{plan, none, "## Plan\n\n1. Rename the package\n2. Tag it", verdict.Nudge},
		{fix, ok, "## Plan\n\n1. Mock the clock\n2. Run the test", verdict.Nudge},
		{fix + "\r\n\r\nThe plan is old.", ok, "## Plan\n\n1. Mock it\n2. Run it", verdict.Nudge},
		{fix, ok, "The test passes now.\n\nIt was off by one.", verdict.Done},

		// What is no end.
		{fix, ok, "I see the bug. Let me fix it.", verdict.Nudge},
		{fix, none, "The test passes now. Would you like me to commit the changes?", verdict.Asks},
		{fix, none, "The test passes now.", verdict.Nudge},
	} {
		t.Run(tt.text, func(t *testing.T) {
			var j verdict.Judge
			j.Hear(tt.prompt)
			for ran := range strings.FieldsSeq(tt.ran) {
				j.Answered(true)
				j.Ran(ran == "failed")
			}
			j.Answered(false)
			require.Equal(t, tt.want, j.Judge(verdict.Text{Text: tt.text, CanStop: true}), "%s", tt.prompt)
		})
	}
}

func TestWhatCountsOnceAModelStops(t *testing.T) {
	for text, want := range map[string]struct{ answers, stands bool }{
		"It is written above.":       {true, true},
		"## Plan\n\n1. Look\n2. Fix": {true, false},
		"## Plan":                    {false, false},
		"I'll do it now.":            {false, false},
	} {
		var j verdict.Judge
		j.Hear("fix it")
		j.Judge(verdict.Text{Text: text, CanStop: true})
		require.Equal(t, want.answers, j.Answers(), text)
		require.Equal(t, want.stands, j.Stands(), text)
		j.Ran(false)
		require.False(t, j.Answers(), text)
	}
}

func TestEachPromptIsToBeBegun(t *testing.T) {
	var j verdict.Judge
	for range 2 {
		j.Hear("fix it")
		j.Answered(true)
		require.True(t, j.Unbegun())
		j.Answered(true)
		require.False(t, j.Unbegun(), "it was asked back once")
		j.Hear("fix that, too")
		j.Answered(true)
		j.Ran(false)
		require.False(t, j.Unbegun())
	}
	j.Hear("what is 2+2?")
	j.Answered(true)
	require.False(t, j.Unbegun())
}
