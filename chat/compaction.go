package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/numeral"
)

// Compaction says how the conversation before it was made shorter for the model,
// and is the mark of that in the history. The messages stay in the history; only
// [History.Conversation], which the model is sent, is shorter. So a session that
// is resumed sends the same bytes.
//
// Without a Summary, old messages have shrunk: results of tools to a line that
// says what they were, images and files to a line each, and long arguments to
// their beginning. With a Summary, a message with that text takes their place.
type Compaction struct {
	Keep    int    `json:"keep"`              // how many messages at the end stayed as they were
	Summary string `json:"summary,omitempty"` // the text of the message in whose place the others are gone
	Pinned  int    `json:"pinned,omitempty"`  // of those others, the one that stayed: the last one of the user, counted from the end; 0 for none
	Cut     int    `json:"cut,omitempty"`     // what is left, in bytes, of each result among those that stayed; 0 if they are whole
	Unshown int    `json:"unshown,omitempty"` // how many images and files of results among those that stayed are left out, the oldest first

	// Anew says that a new conversation begins: see pygent.Agent.NewConversation. Nothing
	// before it is sent but the system message.
	Anew bool `json:"anew,omitempty"`

	Gone    int   `json:"gone"`               // how many messages have shrunk, or are summed up
	ByModel bool  `json:"by_model,omitempty"` // the model wrote the summary; else it gave none, and a list of its calls takes its place
	Before  int64 `json:"before"`             // the tokens of the next request, as estimated
	After   int64 `json:"after"`
	Usage   Usage `json:"usage,omitzero"` // what the summary took, on request; that of a run counts in its [TurnEnd]
}

// String says in a line what was done, for people.
func (c Compaction) String() string {
	if c.Anew {
		return fmt.Sprintf("a new conversation starts; the earlier one (%s) stays in the history", numeral.Count(c.Gone, "message"))
	}
	var what []string
	switch {
	case c.Summary != "" && c.ByModel:
		what = append(what, "a summary replaces "+numeral.Count(c.Gone, "old message"))
	case c.Summary != "":
		what = append(what, "a list of its calls stands for "+numeral.Count(c.Gone, "old message"))
	case c.Gone > 0:
		what = append(what, "what tools said in "+numeral.Count(c.Gone, "old message")+" is left out")
	}
	if c.Cut > 0 {
		what = append(what, "the last results are cut")
	}
	if c.Unshown > 0 {
		what = append(what, fmt.Sprintf("%d of the last images or files have no room", c.Unshown))
	}
	return fmt.Sprintf("the conversation was compacted from about %d to %d tokens: %s", c.Before, c.After, strings.Join(what, "; "))
}

// sourceSummary is the source of the message that takes the place of others. The
// record has no such message.
const sourceSummary Source = "summary"

// replace puts another message in the place of one. The caller made sure that no
// view shares the arrays.
func (c *conversation) replace(i int, m Message) {
	c.size += sizeInJSON(m) - sizeInJSON(c.messages[i])
	c.messages[i] = m
	weight := weightOf(m)
	c.weight += weight - c.about[i].weight
	c.about[i].weight = weight
}

// replaceHead puts others in the place of the first messages.
func (c *conversation) replaceHead(n int, head []Message) {
	known := make([]about, 0, len(head)+len(c.about)-n)
	for range head {
		known = append(known, about{})
	}
	c.messages, c.about = slices.Concat(head, c.messages[n:]), append(known, c.about[n:]...)
	c.count(len(head))
}

// count counts anew what the messages weigh; of the first n also what each does.
func (c *conversation) count(n int) {
	c.size, c.weight = 0, 0
	for i := range c.messages {
		if i < n {
			c.about[i].weight = weightOf(c.messages[i])
		}
		c.size += sizeInJSON(c.messages[i])
		c.weight += c.about[i].weight
	}
}

// systemMessages is how many system messages begin the conversation.
func (c *conversation) systemMessages() int {
	n := 0
	for n < len(c.messages) && c.messages[n].Role == RoleSystem {
		n++
	}
	return n
}

// compact makes the conversation shorter, as a mark in the record says. The result
// depends on the record alone, and is legal whatever the mark says. A nil mark
// changes nothing.
func (c *conversation) compact(mark *Compaction) {
	if mark == nil {
		return
	}
	c.settle()
	head := c.systemMessages()
	start := max(head, len(c.messages)-max(mark.Keep, 0))
	for start > head && start < len(c.messages) && c.messages[start].Role == RoleTool {
		start-- // results stay with their call
	}
	var next conversation
	add := func(m Message, a about) {
		if encoded, err := m.encoded(); err == nil {
			m = encoded
		}
		next.messages, next.about = append(next.messages, m), append(next.about, a)
	}
	unshown := mark.Unshown
	for i, m := range c.messages {
		switch {
		case mark.Anew && i >= head:
		case i >= start:
			add(unshow(cutResult(m, mark.Cut), &unshown), c.about[i])
		case i < head:
			add(m, c.about[i])
		case mark.Summary == "":
			add(shrunk(m, c.about[i].outcome), c.about[i])
		}
		if i == start-1 && i >= head && mark.Summary != "" {
			add(UserMessage(mark.Summary), about{source: sourceSummary})
			// What the user said last stands after all that is older.
			if last := len(c.messages) - mark.Pinned; last >= head && last < start && c.messages[last].Role == RoleUser {
				add(c.messages[last], c.about[last])
			}
		}
	}
	c.messages, c.about = next.messages, next.about
	c.count(len(c.messages))
	c.countImages()
}

// release drops the JSON of messages that a compaction has taken out of before.
func (c *conversation) release(before []Message) {
	kept := make(map[*encodedMessage]bool, len(c.messages))
	for _, m := range c.messages {
		kept[m.enc] = true
	}
	for _, m := range before {
		if !kept[m.enc] {
			m.enc.release()
		}
	}
}

// countImages counts anew the images and files of tools that are sent.
func (c *conversation) countImages() {
	c.images = conversation{}.images
	for _, m := range c.messages {
		if !showsMediaOfTools(m) {
			continue
		}
		var urls []string
		for _, p := range m.Media() {
			urls = append(urls, p.MediaURL())
		}
		c.images.Add(urls...)
	}
}

// shrunk returns what stays of an old message: of a result what it was, of images
// and files that they were there, of a call the beginnings of long arguments. What
// was said stays.
func shrunk(m Message, outcome Outcome) Message {
	switch m.Role {
	case RoleTool:
		m.Content = compact.ShrinkResult(m.Text(), string(outcome))
		m.Parts = nil
	case RoleAssistant:
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Arguments = compact.ShrinkArguments(m.ToolCalls[i].Arguments)
		}
	default:
		if len(m.Media()) > 0 {
			m = withoutMedia(m)
		}
	}
	return m
}

// cutResult returns a result of which so many bytes are left, if it is too long.
func cutResult(m Message, bytes int) Message {
	if bytes > 0 && m.Role == RoleTool {
		m.Content = compact.CutResult(m.Content, max(bytes, 100))
	}
	return m
}

// unshow leaves out so many images and files of a message that shows those of
// results, and counts down.
func unshow(m Message, left *int) Message {
	if *left <= 0 || !showsMediaOfTools(m) {
		return m
	}
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if url := p.MediaURL(); url != "" && *left > 0 {
			m.Parts[i] = Part{Text: mediabudget.NoRoom(url)}
			*left--
		}
	}
	return m
}

// items describes the conversation for a plan.
func (c *conversation) items() []compact.Item {
	items := make([]compact.Item, len(c.messages))
	for i, m := range c.messages {
		items[i].Weight = c.about[i].weight
		items[i].Kind = c.kind(i)
		if small, err := shrunk(m, c.about[i].outcome).encoded(); err == nil {
			items[i].Shrunk = weightOf(small)
		}
		if items[i].Kind == compact.Shown {
			for _, p := range m.Media() {
				items[i].Media = append(items[i].Media, max(p.weight()-len(mediabudget.NoRoom(p.MediaURL())), 0))
			}
		}
	}
	return items
}

func (c *conversation) kind(i int) compact.Kind {
	m, source := c.messages[i], c.about[i].source
	switch {
	case m.Role == RoleSystem && i < c.systemMessages():
		return compact.System
	case m.Role == RoleTool:
		return compact.Result
	case source == sourceSummary || source == "" && m.Role == RoleUser && compact.IsMessage(m.Text()):
		return compact.Summary
	case source == SourceImages || source == "" && isOfTools(m):
		return compact.Shown
	case m.Role == RoleUser && isOfUser(m, source):
		return compact.User
	}
	return compact.Other
}

// forPlan returns the settled conversation and its description.
func (h *History) forPlan() ([]Message, []compact.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.legal.settle()
	return slices.Clip(h.legal.messages), h.legal.items()
}

// weightAfter returns what the conversation weighs after a compaction.
func (h *History) weightAfter(mark *Compaction) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	after := h.legal // compact makes new arrays
	after.compact(mark)
	return after.weight
}

// systemWeight is what the system messages at the beginning weigh.
func (h *History) systemWeight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	weight := 0
	for _, known := range h.legal.about[:h.legal.systemMessages()] {
		weight += known.weight
	}
	return weight
}

// lastOfUserWeight is what the last message of the user weighs, which always stays.
func (h *History) lastOfUserWeight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.legal
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.kind(i) == compact.User {
			return c.about[i].weight
		}
	}
	return 0
}

// countSinceNew is how many messages there are since the conversation began anew,
// without the system message.
func (h *History) countSinceNew() int {
	n := 0
	for _, e := range h.activeEntries() {
		switch {
		case e.Compaction != nil && e.Compaction.Anew:
			n = 0
		case !e.IsMark() && e.Message.Role != RoleSystem:
			n++
		}
	}
	return n
}

// wordsBefore returns what the user said in the messages that a plan leaves out,
// and in those that earlier compactions left out.
func (h *History) wordsBefore(items []compact.Item, plan compact.Plan) (words []string) {
	for _, e := range h.activeEntries() {
		if e.Compaction != nil && e.Compaction.Anew {
			words = nil
		}
		if m := e.Message; m.Role == RoleUser && !m.IsEmpty() && isOfUser(m, e.Source) {
			text := m.Text()
			if media := len(m.Media()); media > 0 {
				text += " [and " + numeral.Count(media, "attachment") + "]"
			}
			words = append(words, text)
		}
	}
	stay := min(plan.Pinned, 1)
	for _, item := range items[len(items)-plan.Keep:] {
		if item.Kind == compact.User {
			stay++
		}
	}
	return words[:max(len(words)-stay, 0)]
}

// weight returns the weight of what a model is sent, for counting tokens.
func (h *History) weight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.legal.weight
}

// bytes returns the size of what a model is sent, in bytes of JSON.
func (h *History) bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.legal.size
}
