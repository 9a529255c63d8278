package pygent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/toolcall"
)

// Texts that replace what was never recorded, or was lost.
const (
	interruptedResult = "interrupted; it may have taken effect"
	lostResult        = "this result is lost: the file of the conversation was damaged; the call may have taken effect"
	lostCall          = "The file of the conversation was damaged here: the call of this tool is lost. Its result was:"
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
	case !e.isMark():
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
	case saysNothing(m):
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
			c.push(ToolMessage(call.ID, interruptedResult), about{outcome: OutcomeInterrupted})
			continue
		}
		result := e.results[i].Message
		result.ToolCallID = call.ID
		result.ToolCalls = nil
		result.Extra = jsonobj.WithoutNulls(result.Extra)
		if media := mediaOf(result); len(media) > 0 {
			images = append(images, Part{Text: fmt.Sprintf("%s%s (%s):", nameMedia(media, imagesOfResult, filesOfResult), call.Name, call.ID)})
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
	if media := mediaOf(m); text == "" && len(media) > 0 {
		return nameMedia(media, "The images follow.", "The files follow.")
	}
	return text
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
	for at >= 0 && (record[at].Message.Role == RoleTool || saysNothing(record[at].Message)) {
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
	case saysNothing(m):
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
	r.add(Message{Role: RoleUser, Parts: append([]Part{{Text: lostCall + "\n" + textOfResult(m)}}, mediaOf(m)...)})
}

// closeCalls answers the calls that have no result.
func (r *mender) closeCalls() {
	say := interruptedResult
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

// ErrNothingToResume is returned by [Agent.Resume] for an empty conversation.
var ErrNothingToResume = errors.New("there is no run to resume")

// Resume goes on with a run that was interrupted, by the death of its process
// say, from the history that was kept. It takes the same options as
// [Agent.RunUntilStop], whose result it returns; limits count anew.
//
// Every message of the model is in the history before its tools run, and every
// result before the model is asked again. So only results of the last message's
// calls can be missing. Resume runs calls of tools that are declared Idempotent
// again, such as delegate_task, which finds its task by the same id. It answers
// all others with "interrupted; it may have taken effect", so that the model
// looks. For a run that had ended, it returns the status without asking the
// model.
func (a *Agent) Resume(ctx context.Context, opts ...RunOption) (*Result, error) {
	if a.history.spokenAnew() == 0 {
		return &Result{Status: StatusFailed, Reason: ErrNothingToResume.Error()}, ErrNothingToResume
	}
	return a.run(ctx, "", nil, append(opts[:len(opts):len(opts)], runOption(func(o *runOptions) { o.resume = true })))
}

// exchangeAtEnd finds the last message that calls tools, if only results follow
// it. given has the index of each call's result, noResult for a call without one.
func exchangeAtEnd(record []Message) (at int, given []int, ok bool) {
	results := map[string][]int{} // by call, in reverse order
	for at = len(record) - 1; at >= 0; at-- {
		m := &record[at]
		if m.Role == RoleTool {
			results[m.ToolCallID] = append(results[m.ToolCallID], at)
			continue
		}
		if m.Role != RoleAssistant || len(m.ToolCalls) == 0 {
			return 0, nil, false
		}
		given = make([]int, len(m.ToolCalls))
		for i, call := range m.ToolCalls {
			given[i] = noResult
			if left := results[call.ID]; len(left) > 0 {
				given[i], results[call.ID] = left[len(left)-1], left[:len(left)-1]
			}
		}
		return at, given, true
	}
	return 0, nil, false
}

// noResult stands for the index of a result that there is none of.
const noResult = -1

// wasRefused reports whether a call of a tool that ends the run was refused.
// Only where the history does not say how it ended, the words of its result do.
func wasRefused(result HistoryEntry) bool {
	if result.Outcome != "" {
		return result.Outcome != OutcomeOK
	}
	text := result.Message.Text()
	return looptext.Refuses(text) || strings.HasPrefix(text, "error: ") || text == interruptedResult
}

// resume answers the calls that were left open, or ends the run if it had ended
// before.
func (r *run) resume(ctx context.Context) error {
	record := r.agent.history.view()
	said := r.agent.history.said()
	r.recallWork(said)
	at, given, ok := exchangeAtEnd(record)
	if !ok {
		r.resumeReply(ctx, record)
		return nil
	}
	msg := record[at]
	r.message = r.agent.history.indexOf(said[at].Seq)
	r.result.Message = msg
	var media []Part
	for i, call := range r.readAll(msg.ToolCalls) {
		if given[i] == noResult {
			r.judge.Ran(false) // or may have
		}
		if given[i] != noResult {
			r.endAgain(ctx, &call, said[given[i]])
			continue
		}
		shown, err := r.resumeCall(ctx, &call, media)
		if err != nil {
			return err
		}
		media = append(media, shown...)
	}
	if err := r.showMedia(media); err != nil {
		return err
	}
	return r.broken
}

// recallWork notes what the user asked for last, and what the model has done since.
func (r *run) recallWork(said []HistoryEntry) {
	for _, e := range said {
		switch text := e.Message.Text(); {
		case e.Message.Role == RoleUser && isOfUser(e.Message, e.Source):
			r.judgeHears(e.Message)
		case e.Message.Role == RoleAssistant:
			r.judge.Answered(len(e.Message.ToolCalls) > 0)
		case e.Message.Role == RoleTool && e.Outcome != OutcomeNotRun && !looptext.Refuses(text) && !strings.HasPrefix(text, "error: "):
			r.judge.Ran(e.Outcome != OutcomeOK && e.Outcome != "")
		}
	}
}

// resumeReply handles a conversation whose last message is a reply, which may
// have ended the run. A reply that summed up at a limit has not, since limits
// count anew.
func (r *run) resumeReply(ctx context.Context, record []Message) {
	at := len(record) - 1
	if record[at].Role != RoleAssistant {
		return
	}
	r.result.Message, r.replies = record[at], 1
	last := record[at].Text()
	summedUp := at > 0 && looptext.AsksToSumUp(record[at-1].Text())
	for at >= 2 && toldToGoOn(record[at-1]) && isReply(record[at-2]) {
		at -= 2
		r.replies++
		r.judge.Waits()
	}
	r.result.Summary = strings.TrimSpace(record[at].Text())
	if !summedUp && r.opts.answerEnds {
		r.judged(ctx, last)
		return
	}
	if !summedUp && (r.opts.replyEnds || r.replies >= r.opts.maxReplies) {
		r.end(StatusReplied, "")
	}
}

func toldToGoOn(m Message) bool {
	return m.Role == RoleUser && looptext.SaysGoOn(m.Text())
}

func isReply(m Message) bool { return m.Role == RoleAssistant && len(m.ToolCalls) == 0 }

// resumeCall gives a call of the interrupted message a result: by running it
// again where that is safe. It returns the images and files of the result, as far
// as there is room beside those of the calls before.
func (r *run) resumeCall(ctx context.Context, call *readCall, shown []Part) (media []Part, err error) {
	switch {
	case r.result.Status != "":
		return nil, r.skip(ctx, &call.ToolCall, notRunResult(OutcomeNotRun, looptext.Ended), "")
	case !call.tool.mayRepeat(call):
		return nil, r.skip(ctx, &call.ToolCall, notRunResult(OutcomeInterrupted, interruptedResult), "")
	}
	result := r.runCall(ctx, call)
	chooseMedia(result, shown)
	r.finished(result)
	return result.media(), r.answer(Event{Type: EventToolDone, Call: &call.ToolCall}, result, "")
}

// runsAgain says which calls a resumed run would make again, "" if none.
func (a *Agent) runsAgain() string {
	record := a.history.view()
	at, given, ok := exchangeAtEnd(record)
	if !ok {
		return ""
	}
	var again []string
	for i, call := range (&run{agent: a}).readAll(record[at].ToolCalls) {
		if given[i] == noResult && call.err == nil && call.tool.mayRepeat(&call) && !call.tool.ends {
			summary, _ := callsummary.Of(call.Name, call.Arguments)
			again = append(again, summary)
		}
	}
	if len(again) == 0 {
		return ""
	}
	return "/resume makes these calls again, which were interrupted: " + strings.Join(again, "; ")
}

// interrupted reports whether the conversation ends where it is the model's
// turn: after a message of the user, or after a call that did not end the run.
func (r *Registry) interrupted(record []Message) bool {
	if len(record) == 0 || record[len(record)-1].Role == RoleUser {
		return len(record) > 0
	}
	at, results, ok := exchangeAtEnd(record)
	return ok && (slices.Contains(results, noResult) ||
		!slices.ContainsFunc(record[at].ToolCalls, func(c ToolCall) bool { return endsRun(r.nameFor(c)) }))
}

// recorded is what the history and the runtime know of the work, in at most about so many bytes.
func (r *run) recorded(ctx context.Context, most int) string {
	var made []compact.Made
	calls := map[string]ToolCall{}
	for _, e := range r.agent.history.current() {
		for _, call := range e.Message.ToolCalls {
			calls[call.ID] = call
		}
		if e.Compaction != nil && e.Compaction.Anew {
			made = nil
		} else if e.Message.Role == RoleTool {
			read := r.read(calls[e.Message.ToolCallID])
			made = append(made, compact.Made{Tool: read.Name, Arguments: read.Arguments, OK: e.Outcome == OutcomeOK, End: e.Bash.end()})
		}
	}
	return compact.Record(made, append(r.openTasks(ctx), r.openJobs(ctx)...), most)
}

// end says how the command ended; empty if there was none.
func (r *BashResult) end() string {
	switch {
	case r == nil:
		return ""
	case r.GoesOn:
		return "goes on as job " + r.Job
	case r.TimedOut:
		return "stopped at its time limit"
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}
