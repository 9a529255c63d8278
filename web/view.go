package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/markdown"
	"github.com/x/pygent/internal/markdown/htmlmark"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
)

// view makes the elements of a page from the events of an agent. The session's
// goroutine has it.
type view struct {
	log      *replay
	root     string   // the element that all are put into; empty for the log
	shown    []string // the keys of those, of a task, the oldest first
	number   int      // of the last key
	messages int      // of the history that are shown
	first    string   // what the user said first
	said     int      // how many messages of the user are shown
	doing    faces.Doing

	step    step             // what the model has written in this step
	answer  *answer          // that the model writes; nil for none
	thought *thought         // likewise
	writing map[int]*card    // the calls that the model writes, by their index
	calls   map[string]*card // that have no result yet, by their ids
	retried bool             // a failed attempt is told of
}

// step is what the model has written since it was asked.
type step struct {
	text strings.Builder
	keys []string // of the elements that are withdrawn if it fails
}

// answer is a text that the model writes.
type answer struct {
	key      string
	splitter markdown.Splitter
	finished int       // elements that never change
	open     int       // elements after those
	changed  bool      // since the last paint
	painted  time.Time // the last time
}

// thought is reasoning that the model writes.
type thought struct {
	key   string
	began time.Time
	text  strings.Builder
}

// maxThought is how much is kept of the model's reasoning, in bytes.
const maxThought = 64 << 10

// key returns a new key.
func (v *view) key(kind string) string {
	v.number++
	if v.root != "" {
		kind = v.root + "." + kind
	}
	return kind + strconv.Itoa(v.number)
}

// maxOfTask is how many elements of a task are shown.
const maxOfTask = 300

// put shows an element. Of a task, the oldest ones go.
func (v *view) put(key, html string) {
	v.log.put(key, v.root, html)
	if v.root == "" || slices.Contains(v.shown, key) {
		return
	}
	v.shown = append(v.shown, key)
	if len(v.shown) > maxOfTask {
		v.log.del(v.shown[0])
		v.shown = slices.Delete(v.shown, 0, 1)
	}
}

// say has a text read aloud, unless it is of a task.
func (v *view) say(text string) {
	if v.root == "" {
		v.log.say(text)
	}
}

// retryKey is the key of the element that tells of a failed attempt.
func (v *view) retryKey() string { return strings.TrimPrefix(v.root+".retry", ".") }

// end ends what the view has begun.
func (v *view) end() {
	if v.answer != nil {
		v.answer.splitter.Close()
		v.answer = nil
	}
}

// dirty reports whether something waits to be painted.
func (v *view) dirty() bool { return v.answer != nil && v.answer.changed }

// user shows what the user said.
func (v *view) user(m pygent.Message) {
	v.endMessage()
	text, labels := faces.Spoken(m)
	if v.first == "" {
		v.first = strings.TrimSpace(text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="msg user"><span class="sr">You: </span>%s`, esc(strings.TrimSpace(text)))
	for _, p := range m.Parts {
		if img, ok := htmlmark.Image(p.ImageURL, cmp.Or(p.FileName, "attached")); ok {
			b.WriteString(img)
		}
	}
	for _, label := range labels {
		fmt.Fprintf(&b, ` <span class="chip">%s</span>`, esc(label))
	}
	if v.root == "" {
		fmt.Fprintf(&b, `<div class="acts"><button type="button" class="btn quiet" data-act="edit" data-said="%d">Edit</button>`, v.said)
		if v.said > 0 { // before the first message there is nothing to go on from
			fmt.Fprintf(&b, `<button type="button" class="btn quiet" data-act="fork" data-said="%d">Fork</button>`, v.said)
		}
		b.WriteString(`</div>`)
	}
	v.said++
	b.WriteString(`</div>`)
	v.put(v.key("u"), b.String())
}

// write shows a piece of the model's answer.
func (v *view) write(piece string) {
	v.endThought()
	v.endRetry()
	if v.answer == nil {
		v.beginAnswer()
	}
	v.step.text.WriteString(piece)
	a := v.answer
	for _, block := range a.splitter.Write(piece) {
		v.finish(block)
	}
	a.changed = true
}

func (v *view) beginAnswer() {
	v.answer = &answer{key: v.key("m")}
	v.step.keys = append(v.step.keys, v.answer.key)
	v.put(v.answer.key, `<div class="msg"><span class="sr">Pygent: </span><div class="md" data-slot></div>`+
		`<div class="acts"><button type="button" class="btn quiet" data-act="copy">Copy</button></div></div>`)
}

// finish shows a block that never changes again.
func (v *view) finish(block string) {
	a := v.answer
	for _, html := range htmlmark.Blocks(block, htmlmark.Options{}) {
		v.log.put(a.blockKey(a.finished), a.key, html)
		a.finished++
		if a.open > 0 {
			a.open--
		}
		v.say(htmlmark.Plain(html))
	}
}

func (a *answer) blockKey(i int) string { return a.key + "." + strconv.Itoa(i) }

// paint shows the block that is still being written. A long one is painted less often,
// so that painting takes a bounded part of the time, whatever the model writes.
func (v *view) paint(now time.Time) {
	a := v.answer
	if a == nil || !a.changed {
		return
	}
	open := a.splitter.Open()
	const perKB = 10 * time.Millisecond
	if now.Sub(a.painted) < time.Duration(len(open)/1024)*perKB {
		return
	}
	a.changed, a.painted = false, now
	v.putOpen(htmlmark.Blocks(open, htmlmark.Options{Open: true}))
}

func (v *view) putOpen(elements []string) {
	a := v.answer
	for i, html := range elements {
		v.log.put(a.blockKey(a.finished+i), a.key, html)
	}
	for i := len(elements); i < a.open; i++ {
		v.log.del(a.blockKey(a.finished + i))
	}
	a.open = len(elements)
}

// endMessage shows what the model has written as finished.
func (v *view) endMessage() {
	v.endThought()
	a := v.answer
	if a == nil {
		return
	}
	for _, block := range a.splitter.Close() {
		v.finish(block)
	}
	v.putOpen(nil)
	if a.finished == 0 {
		v.log.del(a.key)
	}
	v.answer = nil
}

// answered ends an answer, of which pieces may have been lost.
func (v *view) answered(whole string) {
	if !strings.HasPrefix(whole, v.step.text.String()) {
		v.withdraw()
	}
	if rest := whole[v.step.text.Len():]; strings.TrimSpace(rest) != "" || v.answer != nil {
		v.write(rest)
	}
	v.endMessage()
	v.step = step{}
}

// withdraw takes back what the model has written in this step.
func (v *view) withdraw() {
	v.endMessage()
	for _, key := range v.step.keys {
		v.log.del(key)
	}
	v.step = step{}
	v.dropWriting()
}

// dropWriting takes the calls away that the model was writing.
func (v *view) dropWriting() {
	for _, c := range v.writing {
		v.log.del(c.key)
	}
	v.writing = nil
}

// markdown shows a text of the model that is complete.
func (v *view) markdown(text string) {
	v.endMessage()
	v.step = step{}
	v.answered(text)
}

// think shows a piece of the model's reasoning.
func (v *view) think(piece string, at time.Time) {
	v.endRetry()
	if v.thought == nil {
		v.endMessage()
		v.thought = &thought{key: v.key("r"), began: at}
		v.step.keys = append(v.step.keys, v.thought.key)
		v.put(v.thought.key, `<details class="think"><summary>Thinking</summary><div data-out></div></details>`)
	}
	if v.thought.text.Len() < maxThought {
		v.thought.text.WriteString(piece)
		v.log.appendOut(v.thought.key, plain.Clean(piece))
	}
}

func (v *view) endThought() {
	t := v.thought
	if t == nil {
		return
	}
	v.thought = nil
	v.putThought(t.key, "Thought for "+numeral.Took(time.Since(t.began)), t.text.String())
}

func (v *view) putThought(key, title, text string) {
	v.put(key, fmt.Sprintf(`<details class="think"><summary>%s</summary><div>%s</div></details>`, esc(title), esc(strings.TrimSpace(text))))
}

// retry shows that an attempt failed, until the next answer comes.
func (v *view) retry(r pygent.RetryInfo) {
	v.withdraw()
	words := "The model call failed: " + r.Error + faces.Again(r)
	if r.Attempt > 0 {
		words += ", attempt " + strconv.Itoa(r.Attempt+1)
	}
	v.retried = true
	v.put(v.retryKey(), `<div class="bar-state off">`+esc(words)+`</div>`)
}

func (v *view) endRetry() {
	if v.retried {
		v.retried = false
		v.log.del(v.retryKey())
	}
}

// notice shows something worth knowing. The kind is empty, warn or fail.
func (v *view) notice(kind, text string) {
	v.endMessage()
	class := map[string]string{"": "work", "warn": "off", "fail": "fail"}[kind]
	v.put(v.key("n"), `<div class="bar-state `+class+`">`+esc(text)+`</div>`)
}

// failure shows why a turn failed.
func (v *view) failure(text string) {
	v.endMessage()
	v.put(v.key("f"), `<div class="bar-state fail"><span>`+esc(text)+
		`</span><span class="gap"></span><button type="button" class="btn" data-act="retry">Try again</button></div>`)
}

// endTurn ends what a turn has left open.
func (v *view) endTurn() {
	v.endMessage()
	v.endRetry()
	v.dropWriting()
	v.step = step{}
	for id, c := range v.calls { // their results were not told
		c.state = cardOff
		c.fact = "not run"
		v.putCard(c)
		delete(v.calls, id)
	}
	v.doing.Is("", time.Now())
}

// endLine shows how a turn ended, and what it took.
func (v *view) endLine(words string, r *pygent.Result) {
	v.endMessage()
	facts := []string{words}
	if r != nil {
		facts = append(facts, turnFacts(r.Steps, r.Elapsed, r.Usage.Add(r.TaskUsage).Total(), r.Cost)...)
	}
	v.put(v.key("e"), `<div class="end">`+esc(strings.Join(facts, " · "))+`</div>`)
	v.say(words)
}

// turnFacts says what a turn took.
func turnFacts(steps int, elapsed time.Duration, tokens int64, cost float64) []string {
	facts := []string{numeral.Count(steps, "step"), numeral.Took(elapsed)}
	if tokens > 0 {
		facts = append(facts, numeral.Grouped(tokens)+" tokens")
	}
	if cost > 0 {
		facts = append(facts, fmt.Sprintf("cost %.4f", cost))
	}
	return facts
}
