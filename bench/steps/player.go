package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// player plays one conversation. Its script is a function that calls tools and
// gets their results; it is suspended while the agent runs them.
type player struct {
	mu   sync.Mutex // held while it answers
	next func() (pygenttest.Reply, bool)
	stop func()

	// What follows is used by the script, and while it is suspended by answer.
	opening    string // the first message of the user
	yield      func(pygenttest.Reply) bool
	req        *pygent.ChatRequest
	read       int    // messages of the conversation that it has seen
	news       string // the text of those that came since its last answer
	pending    int    // calls in its last answer
	step       int
	transcript strings.Builder
}

// over ends a script from within.
type over struct{}

func newPlayer(opening string, script func(*player)) *player {
	p := &player{opening: opening}
	p.next, p.stop = iter.Pull(func(yield func(pygenttest.Reply) bool) {
		defer func() {
			if r := recover(); r != nil && r != (over{}) {
				panic(r)
			}
		}()
		p.yield = yield
		script(p)
	})
	return p
}

func (p *player) stopPlay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// answer resumes the script until it says something. It also returns the size of
// the results that came with the request, and the number of calls in the reply.
func (p *player) answer(req *pygent.ChatRequest) (reply pygenttest.Reply, results, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.req, p.pending = req, 0
	results = p.hear(req.Messages)
	reply, ok := p.next()
	if !ok {
		reply = pygenttest.Text("I have nothing to add.")
	}
	return reply, results, p.pending
}

// hear takes in the messages that are new.
func (p *player) hear(messages []pygent.Message) (results int) {
	p.step++
	fmt.Fprintf(&p.transcript, "==== step %d\n", p.step)
	var news []string
	for _, m := range messages[min(p.read, len(messages)):] {
		if m.Role != chat.RoleAssistant {
			fmt.Fprintf(&p.transcript, "<<<< %s\n%s\n", m.Role, m.Text())
			news = append(news, m.Text())
		}
		if m.Role == chat.RoleTool {
			results += len(m.Text())
		}
	}
	p.read, p.news = len(messages), strings.Join(news, "\n")
	return results
}

// args are the arguments of a call.
type args map[string]any

// call is one call of a tool. Raw, if it is set, stands for the arguments.
type call struct {
	tool string
	args args
	raw  string
}

func (c call) reply() pygenttest.Reply {
	if c.raw != "" {
		return pygenttest.Call(c.tool, c.raw)
	}
	return pygenttest.Call(c.tool, map[string]any(c.args))
}

func (c call) String() string {
	if c.raw != "" {
		return c.tool + " " + c.raw
	}
	// Arguments made of strings and numbers can always be encoded.
	text, _ := json.Marshal(c.args)
	return c.tool + " " + string(text)
}

// say makes the calls in one message, and returns what the agent answered.
func (p *player) say(calls ...call) string {
	replies := make([]pygenttest.Reply, len(calls))
	for i, c := range calls {
		replies[i] = c.reply()
		fmt.Fprintf(&p.transcript, ">>>> %s\n", c)
	}
	p.pending = len(calls)
	p.speak(pygenttest.Calls(replies...))
	return p.news
}

func (p *player) speak(r pygenttest.Reply) {
	if !p.yield(r) {
		panic(over{})
	}
}

// write answers with a text, and returns what the agent says to that.
func (p *player) write(text string) string {
	fmt.Fprintf(&p.transcript, ">>>> %s\n", text)
	p.speak(pygenttest.Text(text))
	return p.news
}

// giveUp ends the script with a text that says why.
func (p *player) giveUp(format string, a ...any) {
	text := fmt.Sprintf("I give up: "+format, a...)
	fmt.Fprintf(&p.transcript, ">>>> %s\n", text)
	p.speak(pygenttest.Text(text))
	panic(over{})
}

// call makes one call.
func (p *player) call(tool string, a args) string { return p.say(call{tool: tool, args: a}) }

func (p *player) bash(cmd string) string { return p.call("bash", args{"cmd": cmd}) }

func (p *player) finish(summary string) { p.call("stop", args{"summary": summary}) }

// welcomesSeveral matches a system prompt that welcomes several calls in a message.
var welcomesSeveral = regexp.MustCompile(`(?i)(several|multiple|independent|many)( tool)? calls|calls (at once|together|in (one|a single|the same))|in parallel`)

// all makes independent calls: in one message, if they are welcome there.
func (p *player) all(calls ...call) string {
	if len(p.req.Messages) > 0 && welcomesSeveral.MatchString(p.req.Messages[0].Text()) {
		return p.say(calls...)
	}
	var results []string
	for _, c := range calls {
		results = append(results, p.say(c))
	}
	return strings.Join(results, "\n")
}

// slip makes a call as sloppy models do. It makes the right one if the result does
// not show what that would.
func (p *player) slip(wrong, right call, shows string) string {
	if result := p.say(wrong); strings.Contains(result, shows) {
		return result
	}
	return p.say(right)
}

// must gives up if a text does not show what the script needs to go on.
func (p *player) must(result, shows string) {
	if !strings.Contains(result, shows) {
		p.giveUp("I see no %q", shows)
	}
}

// schema is the part of a JSON schema that a player looks at.
type schema struct {
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
}

// schemaOf returns the schema of a tool; ok is false if there is no such tool.
func (p *player) schemaOf(tool string) (s schema, ok bool) {
	i := slices.IndexFunc(p.req.Tools, func(t chat.ToolSpec) bool { return t.Name == tool })
	if i < 0 {
		return s, false
	}
	return s, json.Unmarshal(p.req.Tools[i].Parameters, &s) == nil
}

// takes reports whether a tool has a parameter.
func (p *player) takes(tool, parameter string) bool {
	s, _ := p.schemaOf(tool)
	_, ok := s.Properties[parameter]
	return ok
}

// reading is a call that reads lines of a file from byte offset on, which is where
// the line begins.
func (p *player) reading(path string, line, count, offset int) call {
	a := args{"path": path}
	switch {
	case line > 1 && p.takes("download_file", "line"):
		a["line"], a["count"] = line, count
	case offset > 0 && p.takes("download_file", "offset"):
		a["offset"] = offset
	}
	return call{tool: "download_file", args: a}
}

// change is one edit of a file.
type change struct{ before, after string }

// edit changes a file, in one call if the tool takes several edits.
func (p *player) edit(path string, changes ...change) string {
	if s, _ := p.schemaOf("edit_file"); s.Properties["edits"].Items != nil {
		return p.say(severalEdits(path, changes))
	}
	calls := make([]call, len(changes))
	for i, c := range changes {
		calls[i] = call{tool: "edit_file", args: args{"path": path, "old_text": c.before, "new_text": c.after}}
	}
	return p.all(calls...)
}

func severalEdits(path string, changes []change) call {
	edits := make([]any, len(changes))
	for i, c := range changes {
		edits[i] = args{"old_text": c.before, "new_text": c.after}
	}
	return call{tool: "edit_file", args: args{"path": path, "edits": edits}}
}

// jobNamed matches how a result names a command in the background.
var jobNamed = regexp.MustCompile(`\bjob ([A-Za-z0-9-]+)`)

// jobIn returns the id of the job that a result names, or "".
func jobIn(result string) string {
	if m := jobNamed.FindStringSubmatch(result); m != nil {
		return m[1]
	}
	return ""
}

// offsetNamed matches where a result says to read on.
var offsetNamed = regexp.MustCompile(`offset (\d+)`)

// await reads a job's output until it shows a text, or nothing comes any more.
func (p *player) await(job, text string) string {
	const patience = 3 // seconds
	if p.takes("job_output", "until") {
		return p.call("job_output", args{"id": job, "until": text, "wait": 20})
	}
	a := args{"id": job, "wait": patience}
	for range 30 {
		result := p.call("job_output", a)
		m := offsetNamed.FindStringSubmatch(result)
		if strings.Contains(result, text) || m == nil {
			return result
		}
		if last := fmt.Sprint(a["offset"]); last == m[1] || a["offset"] == nil && m[1] == "0" {
			return result // nothing new
		}
		a["offset"] = json.Number(m[1])
	}
	return ""
}
