package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// TestRunsOfWeakModelsEndAsTheyShould plays what weak models do: they announce, plan,
// forget to stop, write calls as text, claim what they have not done, and repeat themselves.
func TestRunsOfWeakModelsEndAsTheyShould(t *testing.T) {
	t.Parallel()
	text, write := pygenttest.Text, bash("echo hello > hello.txt")
	stop := func(summary string) pygenttest.Reply {
		return pygenttest.Call("stop", map[string]any{"summary": summary})
	}
	always := func(r pygenttest.Reply) []pygenttest.Reply { return slices.Repeat([]pygenttest.Reply{r}, 5) }
	numbered := func(format string) (all []pygenttest.Reply) {
		for n := range 30 {
			all = append(all, bash(fmt.Sprintf(format, n)))
		}
		return all
	}
	written := func(cmd string) (all []pygenttest.Reply) {
		for n := range 10 {
			cmd := strings.ReplaceAll(cmd, "%d", fmt.Sprint(n))
			all = append(all, text(fmt.Sprintf("<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": %q}}\n</tool_call>", cmd)))
		}
		return all
	}
	const work, plan = "Create hello.txt.", "Plan:\n1. Create the file\n2. Check it"
	for name, tt := range map[string]struct {
		prompt   string
		replies  []pygenttest.Reply
		code     int
		stdout   string
		requests int
		stderr   string
	}{
		"a question":                  {"what is 2+2?", always(text("It is 4.")), 0, "It is 4.\n", 1, ""},
		"forgets to stop":             {work, append([]pygenttest.Reply{write}, always(text("Created."))...), 0, "Created.\n", 2, ""},
		"announces for ever":          {work, always(text("I'll create the file now.")), 5, "", 3, "3 answers in a row made no progress; the last was: I'll create the file now."},
		"announces once":              {work, []pygenttest.Reply{text("I'll create the file now."), write, text("Created.")}, 0, "Created.\n", 3, ""},
		"announces after work":        {work, []pygenttest.Reply{write, text("Let me check it."), bash("cat hello.txt"), text("Created.")}, 0, "Created.\n", 4, ""},
		"plans for ever":              {work, always(text(plan)), 5, "", 3, "made no progress"},
		"plans, and is made to begin": {work, []pygenttest.Reply{text(plan), text(plan), write, text("Created.")}, 0, "Created.\n", 4, ""},
		"claims for ever":             {work, always(text("I have created hello.txt.")), 5, "", 3, "made no progress"},
		"answers, and is asked":       {"Write a haiku.", []pygenttest.Reply{text("Old pond, a frog."), stop("I wrote a haiku.")}, 0, "Old pond, a frog.\n", 2, ""},
		"answers, and is made to":     {"Write a haiku.", []pygenttest.Reply{text("Old pond, a frog."), text("There it is."), stop("")}, 0, "Old pond, a frog.\n", 3, ""},
		"announces, and gives up":     {work, []pygenttest.Reply{text("I'll create it."), stop("I may not write here.")}, 0, "I may not write here.\n", 2, ""},
		"plans, as asked, and stops":  {"How would you test this project?", []pygenttest.Reply{text(plan), stop("I gave a plan.")}, 0, plan + "\n", 2, ""},
		"plans, and then answers":     {"How would you test this project?", []pygenttest.Reply{text(plan), text("By hand."), stop("So.")}, 0, "By hand.\n", 3, ""},
		"offers more":                 {work, []pygenttest.Reply{write, text("Created. Would you like me to commit it?")}, 0, "Created. Would you like me to commit it?\n", 2, ""},
		"needs to know":               {work, []pygenttest.Reply{bash("ls"), text("One is there. Would you like me to create it anew?")}, 3, "One is there. Would you like me to create it anew?\n", 2, ""},
		"stops at once":               {work, []pygenttest.Reply{stop("Done."), write, stop("Created.")}, 0, "Created.\n", 3, "no tool has run yet"},
		"stops at once, twice":        {work, []pygenttest.Reply{stop("Done."), stop("There is nothing to do.")}, 0, "There is nothing to do.\n", 2, ""},
		"says nothing as it stops":    {work, []pygenttest.Reply{pygenttest.TextAndCalls("I'll look at the file now.", write), stop("")}, 0, "", 2, ""},
		"owes the answer":             {"what is in hello.txt?", []pygenttest.Reply{pygenttest.TextAndCalls("I'll look at the file now.", write), stop(""), stop("It says hello.")}, 0, "It says hello.\n", 3, "the user asked for words"},
		"asks in text":                {work, always(text("In which directory?")), 3, "In which directory?\n", 1, ""},
		"asks nothing":                {work, []pygenttest.Reply{write, pygenttest.Call("continue", nil), stop("Created.")}, 0, "Created.\n", 3, "prompt is missing"},
		"writes calls as text":        {work, written("touch %d"), 5, "", 3, "printed a tool call as text"},
		"writes one call as text":     {work, written("touch hello.txt"), 5, "", 10, "same result 5 times in a row"}, // it runs when it is repeated
		"writes a call after work":    {work, []pygenttest.Reply{write, text("Let me look.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"ls\"}}\n</tool_call>"), text("Created.")}, 0, "Created.\n", 3, "printed a tool call as text"},
		"repeats a call":              {work, always(bash("cat none")), 5, "", 5, "same result 5 times in a row"},
		"keeps failing":               {work, numbered("cat none%d"), 5, "", 15, "15 calls in a row failed"},
		"fails to edit, and claims":   {work, append([]pygenttest.Reply{pygenttest.Call("edit_file", map[string]any{"path": "none", "old_text": "a", "new_text": "b"})}, always(text("Created."))...), 5, "", 4, "made no progress"},
		"a command fails":             {work, []pygenttest.Reply{bash("false"), text("It cannot be created.")}, 0, "It cannot be created.\n", 2, ""},
		"finds nothing":               {work, append(numbered("echo %d | grep none")[:20], text("It is nowhere.")), 0, "It is nowhere.\n", 21, ""},
		"is cut off twice":            {work, always(text("The first half of").WithFinish(chat.FinishLength)), 5, "", 2, "cut off"},
		"stops beside a grep":         {work, []pygenttest.Reply{pygenttest.Calls(write, bash("grep none hello.txt"), stop("Created."))}, 0, "Created.\n", 1, ""},
		"stops beside a failure":      {work, []pygenttest.Reply{pygenttest.Calls(bash("cp none hello.txt"), stop("Created.")), stop("None is there.")}, 0, "None is there.\n", 2, "What failed: `cp none hello.txt` (exit code 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, tt.replies...)
			got := finish(t, command(t, server.Env(), "run", "--no-docker", "--no-session", tt.prompt))
			require.Equal(t, tt.code, got.code, got.stderr)
			require.Equal(t, tt.stdout, got.stdout)
			require.Contains(t, got.stderr, tt.stderr)
			requests := server.Requests()
			require.Len(t, requests, tt.requests)
			for i, r := range requests {
				require.NoError(t, pygenttest.CheckConversation(r.Chat.Messages))
				demands := strings.Contains(r.Chat.Messages[len(r.Chat.Messages)-1].Text(), "has to call a tool") || name == "writes calls as text" && i == 2
				require.Equal(t, demands, string(r.Fields["tool_choice"]) == `"required"`, i)
			}
		})
	}
}

func TestEachTurnIsAskedBackForWork(t *testing.T) {
	t.Parallel()
	stop := func(summary string) pygenttest.Reply {
		return pygenttest.Call("stop", map[string]any{"summary": summary})
	}
	server := pygenttest.NewServer(t, bash("touch a.txt"), stop("Created."), stop("Done."), bash("touch b.txt"), stop("Created, too."))
	cmd := func(prompt string) []string {
		return []string{"run", "--no-docker", "--history", "h.json", prompt}
	}
	first := command(t, server.Env(), cmd("Create a.txt.")...)
	require.Equal(t, "Created.\n", finish(t, first).stdout)
	second := command(t, server.Env(), cmd("Create b.txt.")...)
	second.Dir = first.Dir
	got := finish(t, second)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "Created, too.\n", got.stdout)
	messages := server.Requests()[3].Chat.Messages
	require.Contains(t, messages[len(messages)-1].Text(), "no tool has run yet")
}

func TestARunWithWorkLeftIsNotEndedByAText(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("bash", map[string]any{"cmd": "sleep 600", "background": true}),
		pygenttest.Text("It runs."), pygenttest.Text("It runs, and ends with me."))
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "Run it."))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "It runs.\n", got.stdout)
	messages := server.Requests()[2].Chat.Messages
	require.Regexp(t, `^The run is not over: job \S+ runs: sleep 600\. See to it, or answer again`, messages[len(messages)-1].Text())
}

func TestAServerThatTakesNoDemandIsAskedWithoutIt(t *testing.T) {
	t.Parallel()
	failing := []string{"Groq", "by failing", "by lacking it", "by hanging up", "in a stream"}
	begun := []string{"after thoughts", "broken off"} // then the call is repeated
	for name, refusal := range map[string]pygenttest.Reply{
		"by its name":     pygenttest.UnsupportedParameter("tool_choice"),
		"while it thinks": pygenttest.Status(400, "invalid_request_error", "Thinking may not be enabled when tool_choice forces tool use."),
		"by no name":      pygenttest.Status(400, "1210", "invalid argument"),
		"Groq":            pygenttest.Status(400, "tool_use_failed", "Tool choice is required, but model did not call a tool"),
		"as an old one":   pygenttest.Status(500, "", "tool_choice param requires --jinja flag"),
		"without words":   pygenttest.Status(422, "", ""),
		"by failing":      pygenttest.Status(500, "", "Internal Server Error"),
		"by lacking it":   pygenttest.Status(501, "", "not implemented"),
		"by hanging up":   pygenttest.Disconnect(),
		"in a stream":     pygenttest.Status(500, "", "Internal Server Error").InStream(),
		"as a router":     pygenttest.Status(404, "", "No endpoints found that can handle the requested parameters."),
		"after thoughts":  pygenttest.Text("Never said.").WithReasoning("Hm, hello.").FailAfter(1, "500", "Internal Server Error"),
		"broken off":      pygenttest.Text("Never said.").CutAfter(1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			say := pygenttest.Text("I'll create it.")
			server := pygenttest.NewServer(t, say, say, refusal, bash("touch hello.txt"), pygenttest.Text("Created."))
			got := finish(t, command(t, server.Env(), "run", "--no-docker", "Create hello.txt."))
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, "Created.\n", got.stdout)
			notice := "dropped parameter tool_choice"
			switch {
			case slices.Contains(failing, name):
				notice = "demanded no call any more"
			case slices.Contains(begun, name):
				notice = "retrying in"
			}
			require.Contains(t, got.stderr, notice)
			require.NotContains(t, server.Requests()[3].Fields, "tool_choice")
		})
	}
}

// A run whose model only writes made no progress, whatever the server says to the demand.
func TestAServerThatFailsAtADemandDoesNotFailTheRun(t *testing.T) {
	t.Parallel()
	say := pygenttest.Text("I'll create it.")
	server := pygenttest.NewServer(t, say, say, pygenttest.Status(500, "", "Internal Server Error"), say)
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "Create hello.txt."))
	require.Equal(t, 5, got.code, got.stderr)
	require.Contains(t, got.stderr, "made no progress")
	require.Len(t, server.Requests(), 4)
}
