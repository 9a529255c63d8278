package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/markdown/htmlmark"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
)

// Bounds of what a card shows.
const (
	maxCommand   = 16 << 10 // bytes of a command
	maxShown     = 32 << 10 // bytes of an output
	maxLines     = 200      // of an output
	maxDiffLines = 600
	maxFact      = 120 // bytes
)

// cardState is where a call is.
type cardState int

const (
	cardWritten cardState = iota // the model writes it
	cardWaits                    // for its turn
	cardAsked                    // for the person
	cardRuns
	cardOK
	cardBad
	cardOff // it did not run
)

// card is a call of a tool on the page.
type card struct {
	key    string
	state  cardState
	call   pygent.ToolCall
	verb   verb
	what   string // what it is about
	fact   string
	facts  string // HTML that follows the fact
	began  time.Time
	body   string // HTML of the result
	open   bool
	foot   string // HTML below the output while it runs
	cutOff string // the beginning of an escape sequence at the end of the last chunk
}

// verb is what a tool does, while it does it and afterwards.
type verb struct{ doing, done string }

// verbs are those of the tools that people know by what they do.
var verbs = map[string]verb{
	"bash":          {"Running", "Ran"},
	"write_file":    {"Writing", "Wrote"},
	"edit_file":     {"Editing", "Edited"},
	"download_file": {"Reading", "Read"},
	"read_image":    {"Looking at", "Looked at"},
	"read_skill":    {"Reading", "Read"},
	"collect_file":  {"Collecting", "Collected"},
	"delegate_task": {"Delegating", "Delegated"},
}

// describe sets what a card says of its call.
func (c *card) describe(call pygent.ToolCall, tool *pygent.ToolInfo) {
	c.call, c.verb = call, verbs[call.Name]
	c.what = callTitle(call, tool)
	if command, ok := faces.CommandOf(call); ok {
		c.what = strings.TrimSpace(command.Cmd)
	} else if c.verb != (verb{}) && tool != nil && len(tool.Paths) > 0 {
		c.what = tool.Paths[0]
	}
	if c.verb == (verb{}) {
		title := call.Name
		if tool != nil {
			title = cmp.Or(tool.Title, call.Name)
		}
		c.verb = verb{title, title}
	}
	if call.Name == "bash" && c.what == "" {
		c.what = call.Arguments
	}
}

// clean returns a chunk of output without escape sequences. A line with "…" stands for what
// was left out before it.
func (c *card) clean(piece pygent.OutputChunk) string {
	gap, chunk := "", c.cutOff+piece.Text
	if piece.Skipped > 0 {
		gap, chunk = "\n…\n", piece.Text
	}
	c.cutOff = ""
	const longest = 64
	if at := strings.LastIndexByte(chunk, 0x1b); at >= 0 && len(chunk)-at < longest && !ended(chunk[at:]) {
		chunk, c.cutOff = chunk[:at], chunk[at:]
	}
	return gap + plain.Clean(chunk)
}

// ended reports whether an escape sequence is complete.
func ended(sequence string) bool {
	if len(sequence) < 2 {
		return false
	}
	switch sequence[1] {
	case '[':
		return strings.ContainsFunc(sequence[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
	case ']', 'P', '_', '^', 'X':
		return strings.ContainsAny(sequence, "\a\u009c") || strings.Contains(sequence[1:], "\x1b\\")
	}
	return true
}

// end sets how a call ended.
func (c *card) end(e pygent.Event) {
	r := e.Output
	var facts []string
	took := time.Duration(0)
	if !c.began.IsZero() {
		took = e.Time.Sub(c.began)
	}
	switch {
	case e.Type == pygent.EventToolSkipped, r.Outcome == pygent.OutcomeNotRun:
		c.state, facts = cardOff, []string{"not run"}
	case r.Outcome == pygent.OutcomeDenied:
		c.state, facts = cardOff, []string{shortFact(deniedWords(r.Content))}
		took = 0
	case r.Outcome == pygent.OutcomeInterrupted:
		c.state, facts = cardOff, []string{"stopped by you"}
	case faces.Failed(r):
		c.state = cardBad
	default:
		c.state = cardOK
	}
	if b := r.Bash; b != nil && c.state != cardOff {
		took = b.Duration
		switch {
		case b.TimedOut:
			facts = append(facts, "timed out")
		case b.GoesOn:
			facts = append(facts, "continues as job "+oneLine(b.Job))
		case b.ExitCode != 0:
			facts = append(facts, fmt.Sprintf("exit %d", b.ExitCode))
		}
	}
	c.facts = changeFacts(r)
	if took > 0 {
		facts = append(facts, numeral.Took(took))
	}
	c.fact = strings.Join(facts, " · ")
	c.open = c.state == cardBad || len(r.Changes) > 0 && c.state == cardOK
	c.body = c.result(e)
}

// changeFacts counts the lines that a call changed.
func changeFacts(r *pygent.ToolResult) string {
	added, removed := 0, 0
	for _, change := range r.Changes {
		plus, minus := edit.Count(change.Before, change.After)
		added, removed = added+plus, removed+minus
	}
	if added+removed == 0 {
		return ""
	}
	return fmt.Sprintf(`<span class="plus">+%d</span> <span class="minus">−%d</span>`, added, removed)
}

// deniedWords is why a call was denied.
func deniedWords(content string) string {
	if _, why, ok := strings.Cut(content, "the user says: "); ok {
		return "denied: " + why
	}
	return "denied"
}

func shortFact(s string) string {
	s = oneLine(s)
	if len(s) > maxFact {
		s = strings.ToValidUTF8(s[:maxFact], "") + "…"
	}
	return s
}

// result is the body of a card whose call has ended.
func (c *card) result(e pygent.Event) string {
	r := e.Output
	var b strings.Builder
	if diffs, ok := diffsHTML(r.Changes); ok && !r.IsError {
		return diffs
	}
	text := strings.Trim(plain.Clean(faces.ResultText(e)), "\n")
	path := ""
	if r.Bash != nil {
		path = r.Bash.FullPath
	}
	outputHTML(&b, text, path)
	for _, address := range r.Images {
		if img, ok := htmlmark.Image(address, c.what); ok {
			b.WriteString(img)
		}
	}
	return b.String()
}

// outputHTML writes the end of an output, with what is left out.
func outputHTML(b *strings.Builder, text, path string) {
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	shown := lines[max(0, len(lines)-maxLines):]
	text = strings.Join(shown, "\n")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[len(text)-maxShown:], "")
	}
	fmt.Fprintf(b, `<pre class="out" tabindex="0" data-out>%s</pre><div class="more"><span>`, esc(text))
	if len(shown) < len(lines) {
		fmt.Fprintf(b, "last %d of %s lines", len(shown), numeral.Grouped(len(lines)))
	} else {
		b.WriteString(numeral.Count(len(lines), "line"))
	}
	b.WriteString(`</span>`)
	if path != "" {
		fmt.Fprintf(b, `<button type="button" class="btn quiet" data-act="view" data-path="%s">Whole output</button>`, esc(path))
	}
	b.WriteString(`<button type="button" class="btn quiet" data-act="copy">Copy</button></div>`)
}

// putCard shows a card as it is now.
func (v *view) putCard(c *card) {
	class, sign, verb := "", "", c.verb.done
	switch c.state {
	case cardWritten:
		sign, verb = spinner("being written"), "Writing"
	case cardWaits:
		sign, verb = dot("off", "○", "waiting"), c.verb.doing
	case cardAsked:
		sign, verb = dot("wait", "?", "waiting for you"), "Waiting for you"
	case cardRuns:
		class, sign, verb = " run", spinner("running"), c.verb.doing
	case cardOK:
		sign = dot("ok", "✓", "done")
	case cardBad:
		class, sign = " bad", dot("bad", "✕", "failed")
	case cardOff:
		sign, verb = dot("off", "○", "not run"), "Not run"
		if strings.HasPrefix(c.fact, "stopped") {
			verb = c.verb.done
		}
	}
	fact := esc(c.fact)
	if c.facts != "" {
		fact = strings.TrimSuffix(c.facts+" · "+fact, " · ")
	}
	since, open := "", ""
	if c.state == cardRuns {
		since = ` data-since="` + c.began.UTC().Format(time.RFC3339) + `"`
	}
	if c.open || c.state == cardRuns {
		open = " open"
	}
	first, _, _ := strings.Cut(c.what, "\n")
	v.put(c.key, fmt.Sprintf(
		`<details class="tool%s"%s><summary>%s<span class="verb">%s</span><span class="what">%s</span><span class="fact"%s>%s</span></summary><div class="body">%s</div></details>`,
		class, open, sign, esc(oneLine(verb)), esc(oneLine(head(first, 300))), since, fact, c.bodyHTML()))
}

// bodyHTML is what a card shows when it is open.
func (c *card) bodyHTML() string {
	command := ""
	if call, ok := faces.CommandOf(c.call); ok {
		command = `<pre class="cmd">` + exact(head(call.Cmd, maxCommand)) + `</pre>`
	} else if c.state == cardOff || c.state == cardBad || c.body == "" && c.call.Arguments != "" && json.Valid([]byte(c.call.Arguments)) {
		command = `<pre class="args">` + exact(head(faces.ArgumentsText(c.call.Arguments), maxCommand)) + `</pre>`
	}
	if c.state == cardRuns {
		return command + `<div data-slot></div><pre class="out" tabindex="0" data-out></pre>` + c.foot
	}
	return command + c.body
}

func dot(class, sign, label string) string {
	return `<span class="dot ` + class + `" role="img" aria-label="` + label + `">` + sign + `</span>`
}

func spinner(label string) string {
	return `<span class="spin" role="img" aria-label="` + label + `"></span>`
}

// head returns the beginning of a text, of whole characters.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%d %%", min(max(part*100/whole, 0), 100))
}

// diffsHTML writes the changes of files. It reports false if one of them cannot be
// shown as lines.
func diffsHTML(changes []pygent.FileChange) (string, bool) {
	var b strings.Builder
	for _, c := range changes {
		if len(changes) > 1 {
			fmt.Fprintf(&b, `<p class="reason">%s</p>`, exact(oneLine(c.Path)))
		}
		switch {
		case c.Note != "":
			fmt.Fprintf(&b, `<p class="reason">%s</p>`, esc(oneLine(c.Note)))
			continue
		case c.Binary:
			b.WriteString(`<p class="reason">Binary file.</p>`)
			continue
		}
		diffHTML(&b, c)
	}
	return b.String(), len(changes) > 0
}

// diffHTML writes the change of a file.
func diffHTML(b *strings.Builder, c pygent.FileChange) {
	fmt.Fprintf(b, `<div class="diff" tabindex="0" role="group" aria-label="Change of %s">`, esc(oneLine(c.Path)))
	rows := edit.Rows(c.Before, c.After, c.Line)
	for i, row := range rows {
		if i == maxDiffLines {
			fmt.Fprintf(b, `<div class="h"><i></i><b></b><span>%s</span></div>`, numeral.Count(len(rows)-i, "more line"))
			break
		}
		text := esc(head(strings.TrimRight(row.Text, "\r\n"), 2000))
		number := ""
		if row.Line > 0 {
			number = fmt.Sprint(row.Line)
		}
		switch row.Sign {
		case '+':
			fmt.Fprintf(b, `<div class="a"><i>%s</i><b>+</b><span>%s</span></div>`, number, text)
		case '-':
			fmt.Fprintf(b, `<div class="d"><i>%s</i><b>−</b><span>%s</span></div>`, number, text)
		case ' ':
			fmt.Fprintf(b, `<div><i>%s</i><b> </b><span>%s</span></div>`, number, text)
		default:
			fmt.Fprintf(b, `<div class="h"><i></i><b></b><span>%s</span></div>`, numeral.Count(row.Left, "line"))
		}
	}
	b.WriteString(`</div>`)
}
