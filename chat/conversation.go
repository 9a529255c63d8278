package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/toolcall"
)

// Texts that replace what was never recorded, or was lost.
const (
	lostResult = "this result is lost, because the conversation's file was damaged; the call may have taken effect"
	lostCall   = "The file of the conversation was damaged here: the call of this tool is lost. Its result was:"
)

// conversation is the legal form of a record, built message by message. It
// depends only on the messages added and on the moments at which it was
// settled. An element of messages never changes.
type conversation struct {
	messages []Message
	about    []about             // of each message, what is known of it besides
	open     *exchange           // the calls that wait for results, if any
	ids      map[string]struct{} // the ids of all calls so far
	made     int                 // how many ids were made here
	images   mediabudget.Window  // of the images and files of tools, which ones are sent
	size     int                 // of messages, in bytes of JSON
	weight   int                 // of messages, for counting tokens
}

// exchange is an assistant message's calls and the results that came so far.
type exchange struct {
	calls   []ToolCall       // with their ids in the conversation
	results []*HistoryEntry  // of each call, nil as long as it has none
	waiting map[string][]int // calls without a result, by their ids in the record
	missing int              // how many calls have no result yet
}

// take takes the record's next entry.
func (c *conversation) take(e HistoryEntry) {
	switch {
	case !e.IsMark():
		c.add(e)
	case e.Compaction != nil:
		before := c.messages
		c.compact(e.Compaction)
		c.release(before)
	}
}

// add takes the record's next message.
func (c *conversation) add(e HistoryEntry) {
	m := e.Message
	switch {
	case m.Role == RoleTool:
		c.answer(e)
	case m.IsEmpty():
	default:
		c.settle()
		m.ToolCallID = ""
		if len(m.Parts) == 0 && strings.TrimSpace(m.Content) == "" {
			m.Content = ""
		}
		// Clients write null for every field they know, and some servers refuse
		// null.
		m.Extra = jsonobj.WithoutNulls(m.Extra)
		if m.Role != RoleAssistant {
			m.ToolCalls = nil
		}
		if len(m.ToolCalls) > 0 {
			c.begin(m)
			return
		}
		c.push(m, about{source: e.Source})
	}
}

// begin opens an exchange with an assistant message that calls tools.
func (c *conversation) begin(m Message) {
	e := &exchange{
		calls:   slices.Clone(m.ToolCalls),
		results: make([]*HistoryEntry, len(m.ToolCalls)),
		waiting: make(map[string][]int, len(m.ToolCalls)),
		missing: len(m.ToolCalls),
	}
	for i := range e.calls {
		call := &e.calls[i]
		e.waiting[call.ID] = append(e.waiting[call.ID], i)
		call.ID = c.uniqueID(call.ID)
		call.Name = toolcall.Legal(call.Name)
		call.Arguments = toolcall.LegalArguments(call.Arguments)
		call.Extra = jsonobj.WithoutNulls(call.Extra)
	}
	m.ToolCalls = e.calls
	c.push(m, about{})
	c.open = e
}

// answer takes a tool message. It leaves out one that answers no open call:
// that is a second result, or one that comes too late.
func (c *conversation) answer(result HistoryEntry) {
	if c.open == nil {
		return
	}
	e, id := c.open, result.Message.ToolCallID
	at := e.waiting[id]
	if len(at) == 0 {
		return
	}
	e.waiting[id] = at[1:]
	e.results[at[0]] = &result
	if e.missing--; e.missing == 0 {
		c.settle()
	}
}

// settle closes the open exchange: it adds the results in the order of the
// calls, a stand-in where one is missing, and then the images of all results.
func (c *conversation) settle() {
	e := c.open
	if e == nil {
		return
	}
	c.open = nil
	var images []Part
	for i, call := range e.calls {
		if e.results[i] == nil {
			c.push(ToolMessage(call.ID, looptext.Interrupted), about{outcome: OutcomeInterrupted})
			continue
		}
		result := e.results[i].Message
		result.ToolCallID = call.ID
		result.ToolCalls = nil
		result.Extra = jsonobj.WithoutNulls(result.Extra)
		if media := result.Media(); len(media) > 0 {
			images = append(images, Part{Text: mediabudget.OfResult(result.HasFiles(), call.Name, call.ID)})
			images = append(images, media...)
		}
		result.Content, result.Parts = textOfResult(result), nil
		c.push(result, about{outcome: e.results[i].Outcome})
	}
	if images != nil {
		c.push(Message{Role: RoleUser, Parts: images}, about{source: SourceImages})
	}
}

// settled returns the messages as settle would leave them, without changing c.
func (c conversation) settled() []Message {
	c.messages, c.about = slices.Clip(c.messages), slices.Clip(c.about)
	c.settle()
	return slices.Clip(c.messages)
}

// push adds a message with its JSON, so that no request has to encode it again.
func (c *conversation) push(m Message, a about) {
	c.makeRoom(m)
	if encoded, err := m.encoded(); err == nil {
		m = encoded
	}
	a.weight = weightOf(m)
	c.messages, c.about = append(c.messages, m), append(c.about, a)
	c.size, c.weight = c.size+sizeInJSON(m), c.weight+a.weight
}

// uniqueID returns id, or a new one if it is empty or taken. Made ids are nine
// letters and digits, the only form that every provider takes.
func (c *conversation) uniqueID(id string) string {
	if c.ids == nil {
		c.ids = make(map[string]struct{})
	}
	for {
		if _, taken := c.ids[id]; id != "" && !taken {
			c.ids[id] = struct{}{}
			return id
		}
		c.made++
		id = fmt.Sprintf("call%05d", c.made)
	}
}

func textOfResult(m Message) string {
	text := m.Text()
	switch {
	case text == "" && m.HasFiles():
		return "The files follow."
	case text == "" && m.HasImages():
		return "The images follow."
	}
	return text
}

// about is what a conversation knows of a message besides.
type about struct {
	source  Source
	outcome Outcome
	weight  int
}

// makeRoom replaces the images and files of older messages of tools by text, once
// there are too many with those of m. The record keeps them.
func (c *conversation) makeRoom(m Message) {
	if !showsMediaOfTools(m) {
		return
	}
	var urls []string
	for _, p := range m.Media() {
		urls = append(urls, p.MediaURL())
	}
	drop := c.images.Add(urls...)
	if drop > 0 {
		c.messages, c.about = slices.Clone(c.messages), slices.Clone(c.about) // views keep the images that they have
	}
	for i := 0; drop > 0 && i < len(c.messages); i++ {
		if old := c.messages[i]; showsMediaOfTools(old) {
			c.replace(i, withoutMedia(old))
			drop--
		}
	}
}

// mender puts the messages of a file into an order that providers accept,
// losing as little as it can.
type mender struct {
	out   []Message
	notes []string
	err   error

	open []openCall // of the last assistant message
	gap  bool       // something is missing since then
}

type openCall struct {
	id       string
	answered bool
}

// mend answers the calls that were left open although the conversation
// continued, and turns results whose calls are lost into messages of the user.
// gaps names the messages before which something is missing. Calls that are
// open at the end stay open, because a run may be resumed there. notes report
// what was done.
func mend(msgs []Message, gaps map[int]bool) (_ []Message, notes []string, err error) {
	r := mender{out: make([]Message, 0, len(msgs))}
	for i, m := range msgs {
		r.gap = r.gap || gaps[i]
		r.take(m)
	}
	return r.out, r.notes, r.err
}

// answersToOpenCalls returns results for the calls that are open at the end of
// a record.
func answersToOpenCalls(record []HistoryEntry) ([]HistoryEntry, error) {
	at := len(record) - 1
	for at >= 0 && (record[at].Message.Role == RoleTool || record[at].Message.IsEmpty()) {
		at--
	}
	var r mender
	for _, m := range messagesOf(record[max(at, 0):]) {
		r.take(m)
	}
	n := len(r.out)
	r.closeCalls()
	var answers []HistoryEntry
	for _, m := range r.out[n:] {
		answers = append(answers, HistoryEntry{Message: m, Outcome: OutcomeInterrupted})
	}
	return answers, r.err
}

// take takes the record's next message.
func (r *mender) take(m Message) {
	switch {
	case m.Role == RoleTool:
		r.result(m)
	case m.IsEmpty():
		r.out = append(r.out, m)
	default:
		r.closeCalls()
		r.out = append(r.out, m)
		r.gap = false
		if m.Role == RoleAssistant {
			for _, call := range m.ToolCalls {
				r.open = append(r.open, openCall{id: call.ID})
			}
		}
	}
}

// result takes a tool's result. If its call is lost, its text stays readable.
func (r *mender) result(m Message) {
	for i := range r.open {
		if call := &r.open[i]; call.id == m.ToolCallID && !call.answered {
			call.answered = true
			r.out = append(r.out, m)
			return
		}
	}
	if !r.gap {
		r.out = append(r.out, m)
		return
	}
	r.closeCalls()
	r.notes = append(r.notes, fmt.Sprintf("the call %q is lost: its result is kept as message %d, of the user", m.ToolCallID, len(r.out)+1))
	r.add(Message{Role: RoleUser, Parts: append([]Part{{Text: lostCall + "\n" + textOfResult(m)}}, m.Media()...)})
}

// closeCalls answers the calls that have no result.
func (r *mender) closeCalls() {
	say := looptext.Interrupted
	if r.gap {
		say = lostResult
	}
	for _, call := range r.open {
		if !call.answered {
			r.notes = append(r.notes, fmt.Sprintf("the call %q had no result: message %d says so", call.id, len(r.out)+1))
			r.add(ToolMessage(call.id, say))
		}
	}
	r.open = nil
}

func (r *mender) add(m Message) {
	m, err := m.encoded()
	if err != nil && r.err == nil {
		r.err = err
	}
	r.out = append(r.out, m)
}
