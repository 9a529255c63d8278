package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func bash(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd})
}

// answerText is an answer with what Markdown has.
const answerText = `## What is there

There is **one** file, ` + "`notes.txt`" + `, with a [link](https://example.com/a).

- first
- second

| Name | Lines |
| ---- | ----: |
| notes.txt | 1 |

` + "```go\nfunc main() { println(\"hi\") } // runs\n```" + `

That is all.`

func TestSession(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t,
		pygenttest.TextAndCalls("I look at the files first.", bash("echo one; echo two >&2; echo hello > notes.txt")),
		pygenttest.Call("continue", map[string]any{"prompt": "Which one shall I read?", "options": []string{"notes.txt", "all of them"}}),
		pygenttest.Text(answerText),
	))
	p := open(t, s.url)
	p.see(".empty", s.dir)
	require.NotContains(t, eval[string](p, "location.href"), s.web.Token(), "the token stays in the address")
	p.said("What is in the workspace?")

	p.see(".ask:not(.done)", "echo one; echo two")
	p.wait("document.title.startsWith('● ')")
	p.see("#status", "Waiting for your approval")
	p.see("#sessions", "?")
	p.click(".ask button", "Allow once")
	p.see(".tool .verb", "Ran")
	p.wait("document.querySelector('.tool pre.out').textContent.includes('two')")
	p.see("#log .msg", "I look at the files first.")

	p.see(".ask.q:not(.done)", "Which one shall I read?")
	p.wait("document.getElementById('send').textContent == 'Answer'")
	p.click(".ask.q button", "all of them")
	p.see("#log h2", "What is there")
	p.see("#log .md p", "That is all.")
	p.see(".end", "Done")
	p.gone("#status", "")
	p.wait("!document.title.startsWith('●')")
	require.Equal(t, []string{"What is in the workspace?", "all of them"}, p.userSaid())
	for _, part := range []string{".md table td", ".md li", ".md strong", ".code [data-act=copy]"} {
		require.True(t, eval[bool](p, "!!document.querySelector(%s)", part), part+" in "+eval[string](p, "document.getElementById('log').innerHTML"))
	}
	link := eval[map[string]string](p, "(({href, rel, target}) => ({href, rel, target}))(document.querySelector('.md a'))")
	require.Equal(t, map[string]string{"href": "https://example.com/a", "rel": "noopener noreferrer nofollow", "target": "_blank"}, link)
	require.Equal(t, 0, eval[int](p, "document.querySelectorAll('.open').length"), "nothing is being written any more")

	// A reload shows the same.
	before := eval[string](p, "document.getElementById('log').innerText")
	p.load(s.url)
	p.see("#log .md p", "That is all.")
	p.see(".end", "Done")
	require.Equal(t, before, eval[string](p, "document.getElementById('log').innerText"))
}

// userSaid is what the log shows of the person.
func (p *page) userSaid() []string {
	p.t.Helper()
	return eval[[]string](p, "[...document.querySelectorAll('#log .msg.user')].map(e => e.innerText.replace('You:', '').trim())")
}

func TestQueue(t *testing.T) {
	gate := make(chan struct{})
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("First answer.").WithGate(gate), pygenttest.Text("Second answer.")))
	p := open(t, s.url)
	p.said("Begin")
	s.asked(1)
	p.see("#status", "Waiting for test-model")
	p.wait("document.getElementById('send').textContent == 'Queue'")
	p.typed("not this\r")
	p.see(".queued", "not this")
	p.click(".queued button", "Edit: not this")
	p.gone(".queued", "")
	p.wait("document.getElementById('text').value == 'not this'")
	p.run("document.getElementById('text').value = ''")
	p.typed("And then this\r")
	p.see(".queued", "And then this")
	close(gate)
	p.see("#log .msg.user", "And then this")
	p.see("#log .msg", "Second answer.")
	p.gone(".queued", "")
	require.Equal(t, []string{"Begin", "And then this"}, p.userSaid())
}

func TestStop(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Never.").WithGate(gate), pygenttest.Text("Now.")))
	p := open(t, s.url)
	p.said("Begin")
	s.asked(1)
	p.typed("held")
	p.typed("\r")
	p.see(".queued", "held")
	p.typed("some text" + kb.Escape)
	p.see("#hint", "again stops")
	p.see("#stop", "Stop")
	p.typed(kb.Escape)
	p.see(".end", "Stopped")
	// What was queued is held back.
	p.see(".queued", "held")
	p.see("#queue button", "Send it now")
	p.click("#queue button", "Send it now")
	p.see("#log .msg", "Now.")
	require.Equal(t, "some text", eval[string](p, "document.getElementById('text').value"))
}

func TestDenialHasItsReason(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("rm -rf build"), pygenttest.Text("Then I keep it.")))
	p := open(t, s.url)
	p.said("Tidy up")
	p.see(".ask", "rm -rf build")
	p.run("document.querySelector('.ask input').focus()")
	p.press("keep the build\r")
	p.see(".ask.done", "keep the build")
	p.see("#log .msg", "Then I keep it.")
	p.see(".tool", "keep the build")
	results := s.model.Requests()[1].Chat.Messages
	require.Contains(t, results[len(results)-1].Text(), "keep the build")
}

func TestAlwaysIsNotAskedAgain(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo again"), bash("echo again"), pygenttest.Text("Twice.")))
	p := open(t, s.url)
	p.said("Do it twice")
	p.click(".ask button", "Allow this exact command for this session")
	p.see("#log .msg", "Twice.")
	require.Equal(t, 1, eval[int](p, "document.querySelectorAll('.ask').length"))
	require.Equal(t, 2, eval[int](p, "document.querySelectorAll('.tool').length"))
}

func TestDigitAnswersAQuestion(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t,
		pygenttest.Call("continue", map[string]any{"prompt": "**Which?**", "options": []string{"left", "right"}}), pygenttest.Text("Right it is.")))
	p := open(t, s.url)
	p.run("performance.now = () => 1000")
	p.said("Go")
	p.see(".ask.q strong", "Which?")
	p.see(".ask.q", "right")
	p.wait("document.getElementById('send').textContent == 'Answer'")
	p.typed("2") // a key answers no question that has just come
	p.wait("document.getElementById('text').value == '2'")
	p.typed(kb.Backspace)
	p.run("performance.now = () => 2000")
	p.typed("2")
	p.see("#log .msg", "Right it is.")
	require.Equal(t, "right", lastUser(s.model.Requests()[1].Chat))
}

func lastUser(req *pygent.ChatRequest) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if req.Messages[i].Role == chat.RoleUser {
			return req.Messages[i].Text()
		}
	}
	return ""
}

func TestQueuedTextAnswersNoQuestion(t *testing.T) {
	gate := make(chan struct{})
	s := serve(t, pygenttest.NewServer(t,
		pygenttest.Call("continue", map[string]any{"prompt": "Delete it?", "options": []string{"yes", "no"}}).WithGate(gate), pygenttest.Text("Kept.")))
	p := open(t, s.url)
	p.said("Go")
	s.asked(1)
	p.typed("yes, and add tests") // typed before there was a question
	close(gate)
	p.see(".ask.q", "Delete it?")
	p.see("#hint button", "Use as the answer")
	p.typed("\r")
	p.see(".queued", "yes, and add tests")
	p.see(".ask.q:not(.done)", "Delete it?")
	require.Len(t, s.model.Requests(), 1)
	p.click(".ask.q button", "no")
	p.see("#log .msg", "Kept.")
	require.True(t, strings.Contains(lastUser(s.model.Requests()[1].Chat), "no"))
}

func TestLiveOutput(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("for i in $(seq 50); do echo line $i; done; until [ -e go ]; do sleep 0.05; done; echo end"), pygenttest.Text("Done.")),
		pygent.WithConfirmBash(false))
	p := open(t, s.url)
	p.said("Run it")
	p.see(".tool.run .verb", "Running")
	p.wait("document.querySelector('.tool.run [data-out]').textContent.includes('line 50')")
	p.wait("(e => e.scrollHeight - e.scrollTop - e.clientHeight < 5)(document.querySelector('.tool.run [data-out]'))")
	p.see("#status", "Running a command")
	p.wait("/^\\d+ s$/.test(document.querySelector('.tool.run .fact').innerText)")
	write(t, s.dir, "go", "")
	p.see(".tool:not(.run) .verb", "Ran")
	p.wait("document.querySelector('.tool pre.out').textContent.includes('end')")
	require.False(t, eval[bool](p, "document.querySelector('.tool').open"), "what is done folds")
}

func TestRetryAndFailure(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Status(401, "invalid_api_key", "Incorrect API key provided"), pygenttest.Text("Now it works.")))
	p := open(t, s.url)
	p.said("Hello")
	p.see(".bar-state.fail", "Incorrect API key")
	p.click(".bar-state.fail button", "Try again")
	p.see("#log .msg", "Now it works.")
	p.gone(".bar-state.fail button", "Try again") // it would repeat what was said last
}
