package web

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/markdown/htmlmark"
)

// aloud is a question as it is read aloud.
func (a *ask) aloud() string {
	switch {
	case a.approval != nil && a.approval.Call.Name == "bash":
		return "Approval needed: run " + oneLine(strings.TrimPrefix(callTitle(a.approval.Call, &a.approval.Tool), "$ "))
	case a.approval != nil:
		return "Approval needed: " + oneLine(callTitle(a.approval.Call, &a.approval.Tool))
	case a.hosts != nil:
		return "Approval needed: a command wants to reach " + oneLine(strings.Join(a.hosts, ", "))
	case a.offer != nil:
		return "Question: " + oneLine(a.offer.Prompt)
	}
	return "Question: " + oneLine(a.question.Question.Prompt)
}

// putAsk shows a question, or how it was answered.
func (v *view) putAsk(a *ask, s *session) {
	v.endMessage()
	var b strings.Builder
	switch {
	case a.approval != nil:
		a.approvalHTML(&b)
	case a.hosts != nil:
		a.hostsHTML(&b)
	case a.offer != nil:
		a.questionHTML(&b, "Pygent asks", *a.offer)
	default:
		head := oneLine(a.question.From.Call.Name) + " asks"
		if a.question.From.Task != "" {
			head = "A task: " + head
		}
		a.questionHTML(&b, head, a.question.Question)
	}
	v.put("a-"+a.id, b.String())
}

// head begins a card with its title.
func (a *ask) head(b *strings.Builder, label, title string) {
	class, sign := "ask", `<span class="dot wait" aria-hidden="true">?</span>`
	if a.kind() == "question" {
		class, sign = "ask q", ""
	}
	if a.answered != "" {
		class, sign = "ask done", ""
	}
	fmt.Fprintf(b, `<section class="%s" role="group" aria-label="%s"><header>%s%s</header><div class="in">`, class, label, sign, esc(title))
}

// foot ends a card: how it was answered, or the buttons to do so.
func (a *ask) foot(b *strings.Builder, buttons ...string) {
	if a.answered != "" {
		const longest = 500
		words := a.answered
		if len(words) > longest {
			words = strings.ToValidUTF8(words[:longest], "") + "…"
		}
		fmt.Fprintf(b, `<p class="reason">%s</p></div></section>`, esc(callsummary.UpperFirst(words)))
		return
	}
	b.WriteString(`<div class="row">` + strings.Join(buttons, "") +
		`<input class="field" aria-label="Reason" placeholder="Or say why not" data-ask="` + a.id + `"></div></div></section>`)
}

func (a *ask) button(act, class, words string) string {
	return fmt.Sprintf(`<button type="button" class="%s" data-act="%s" data-ask="%s">%s</button>`, class, act, a.id, esc(words))
}

// approvalHTML writes the question whether a call may run. All of what it would do is
// shown, with nothing hidden.
func (a *ask) approvalHTML(b *strings.Builder) {
	r := a.approval
	where := "on your machine"
	if r.Runtime.Kind == "docker" {
		where = "in the container"
	}
	title, body, facts := "Allow this call of "+oneLine(r.Call.Name)+" "+where+"?", faces.ArgumentsText(r.Call.Arguments), []string{}
	command, isCommand := faces.CommandOf(r.Call)
	switch {
	case isCommand:
		title, body = "Run this "+where+"?", command.Cmd
		if command.Background {
			title = "Run this in the background " + where + "?"
		}
		dir := r.Runtime.Workspace
		if command.Cwd != "" {
			dir = command.Cwd
		}
		if dir != "" {
			facts = append(facts, "In "+oneLine(dir))
		}
		if r.Runtime.Network {
			facts = append(facts, "network on")
		} else if r.Runtime.Kind == "docker" {
			facts = append(facts, "network off")
		}
		if command.Timeout > 0 {
			facts = append(facts, fmt.Sprintf("up to %g s", command.Timeout))
		}
	case len(r.Changes) > 0:
		title = "Change this file " + where + "?"
		if len(r.Changes) > 1 {
			title = "Change these files " + where + "?"
		}
		if faces.SteersGit(*r) {
			title = "This can change what git runs " + where + ". Allow it?"
		}
	}
	if r.Task != "" {
		title = "A task (" + oneLine(r.Task) + ") asks: " + title
	}
	a.head(b, "Approval", title)
	if diffs, ok := diffsHTML(r.Changes); ok && len(r.Changes) > 0 && !isCommand {
		b.WriteString(diffs)
	} else {
		fmt.Fprintf(b, `<pre tabindex="0">%s</pre>`, exact(body))
	}
	if len(facts) > 0 {
		fmt.Fprintf(b, `<p class="reason">%s</p>`, esc(strings.Join(facts, " · ")))
	}
	buttons := []string{a.button("allow", "btn main", "Allow once")}
	if r.Session != "" {
		buttons = append(buttons, a.button("always", "btn", "Allow "+oneLine(r.Session)+" for this session"))
	}
	a.foot(b, append(buttons, a.button("deny", "btn", "Deny"))...)
}

// hostsHTML writes the question whether commands may reach hosts.
func (a *ask) hostsHTML(b *strings.Builder) {
	a.head(b, "Approval", "A command wants to reach")
	fmt.Fprintf(b, `<pre tabindex="0">%s</pre>`, exact(hostWords(a.hosts)))
	a.foot(b, a.button("allow", "btn main", "Until the current commands end"),
		a.button("always", "btn", "For this session"), a.button("deny", "btn", "Deny"))
}

// questionHTML writes a question that is answered with a text.
func (a *ask) questionHTML(b *strings.Builder, title string, q pygent.Question) {
	a.head(b, "Question", title)
	if a.offer != nil { // the model's words, which are Markdown as its answers are
		fmt.Fprintf(b, `<div class="md">%s</div>`, htmlmark.Render(q.Prompt, htmlmark.Options{}))
	} else {
		fmt.Fprintf(b, `<div class="prompt">%s</div>`, esc(q.Prompt))
	}
	if a.form != nil {
		a.formHTML(b)
		b.WriteString(`</div></section>`)
		return
	}
	if len(q.Options) > 0 {
		b.WriteString(`<ol class="opts">`)
		for i, option := range q.Options {
			state := ""
			if a.answered != "" {
				state = ` disabled`
				if a.answered == "answered: "+option {
					state += ` aria-pressed="true"`
				}
			}
			fmt.Fprintf(b, `<li><button type="button" class="btn" data-act="answer" data-ask="%s" data-value="%s"%s><kbd>%d</kbd> %s</button></li>`,
				a.id, esc(option), state, i+1, esc(oneLine(option)))
		}
		b.WriteString(`</ol>`)
	}
	switch {
	case a.answered != "":
		fmt.Fprintf(b, `<p class="reason">%s</p>`, esc(callsummary.UpperFirst(a.answered)))
	case q.Secret:
		fmt.Fprintf(b, `<div class="row"><input class="field" type="password" autocomplete="off" aria-label="Answer" data-ask="%s">%s%s</div>`,
			a.id, a.button("answer", "btn main", "Answer"), a.button("deny", "btn", "Do not answer"))
	case a.offer != nil:
		b.WriteString(`<p class="reason">Or write your own answer below.</p>`)
	default:
		fmt.Fprintf(b, `<div class="row"><input class="field" aria-label="Answer" placeholder="Your answer" data-ask="%s">%s%s</div>`,
			a.id, a.button("answer", "btn main", "Answer"), a.button("deny", "btn", "Do not answer"))
	}
	b.WriteString(`</div></section>`)
}

// callTitle says what a call does, for people.
func callTitle(call pygent.ToolCall, tool *pygent.ToolInfo) string {
	if tool != nil && tool.Summary != "" {
		return tool.Summary
	}
	title, _ := callsummary.Of(call.Name, call.Arguments)
	return title
}

// formHTML writes the fields of a form. They are texts; the server reads them.
func (a *ask) formHTML(b *strings.Builder) {
	if a.answered != "" {
		fmt.Fprintf(b, `<p class="reason">%s</p>`, esc(callsummary.UpperFirst(a.answered)))
		return
	}
	for _, name := range a.form.Names() {
		f := a.form.Fields[name]
		kind := "text"
		if f.Secret() || a.question.Question.Secret {
			kind = "password"
		}
		fmt.Fprintf(b, `<label class="fill"><span>%s</span><input class="field" type="%s" autocomplete="off" data-ask="%s" data-field="%s" placeholder="%s"></label>`,
			esc(oneLine(cmp.Or(f.Title, name))), kind, a.id, esc(name), esc(oneLine(f.About())))
	}
	b.WriteString(`<div class="row">` + a.button("answer", "btn main", "Answer") + a.button("deny", "btn", "Do not answer") + `</div>`)
}
