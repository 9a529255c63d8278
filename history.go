package pygent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/looptext"
)

// conversation is a history as the agent sees it that goes on with it; package chat hands
// it over through internal/bridge. What it returns is to be read only. Entries whose texts
// a compaction has left to the file lack those, except in LoadAll.
type conversation interface {
	Unwrap() *History
	Len() int
	Messages() []Message
	Close() error

	// Reserve keeps all others from appending, until release is called.
	Reserve() (release func(), err error)
	// AppendReserved adds an entry for the run that has reserved the history. added reports
	// whether the history has the entry, also if its store does not.
	AppendReserved(ctx context.Context, e chat.HistoryEntry) (added bool, err error)
	// AppendEntries adds entries where no run goes on.
	AppendEntries(ctx context.Context, entries []chat.HistoryEntry) error
	// CatchUp writes what could not be written before, so that nothing is done whose reason
	// is not stored.
	CatchUp(ctx context.Context) error
	// AnswerOpenCalls appends results for the interrupted calls.
	AnswerOpenCalls(ctx context.Context) error
	SetSystemContext(ctx context.Context, text string) error

	AllEntries() []chat.HistoryEntry
	LoadAll() ([]chat.HistoryEntry, error)
	// Active are those that no rewind has taken out of effect.
	ActiveEntries() []chat.HistoryEntry
	ActiveMessageEntries() []chat.HistoryEntry
	ActiveMessages() []Message
	// The counts leave out the system message: of the record, of what is active, and of that
	// since the conversation began anew.
	MessageCount() int
	ActiveCount() int
	CountSinceNew() int
	// IndexOf returns the index of an entry among the messages of the record.
	IndexOf(seq int64) int

	// ToSend is what a model is sent. It closes open calls, and Shown leaves those of a
	// current run open.
	ToSend() []Message
	Shown() []Message
	Bytes() int  // of ToSend
	Weight() int // of ToSend, for counting tokens
	SystemWeight() int
	LastOfUserWeight() int

	// ForPlan describes ToSend for a compaction, WeightAfter is what it weighs after one, and
	// WordsBefore are what the user said in the messages that a plan leaves out.
	ForPlan() ([]Message, []compact.Item)
	WeightAfter(mark *chat.Compaction) int
	WordsBefore(items []compact.Item, plan compact.Plan) []string

	// Place returns the mark that leads to where the conversation is now, and Until the
	// entries in effect at a mark, with their texts.
	Place() chat.Rewind
	CanRewind(mark chat.Rewind) bool
	Rewind(ctx context.Context, mark chat.Rewind) error
	LastRewind() *chat.Rewind
	Until(mark chat.Rewind) ([]chat.HistoryEntry, error)

	// NewRepairs returns the repairs that it has not returned before.
	NewRepairs() []string
	AddRepair(note string)
	// BeLenient makes what a file does not take a repair instead of an error.
	BeLenient()
	// CopyTo writes the conversation to a new file, and returns it in memory.
	CopyTo(path string) (*History, error)
}

// insideOf returns a history as its agent sees it.
func insideOf(h *History) conversation { return bridge.History(h).(conversation) }

// openHistory returns the history of an agent: the one that was given, or a new one.
func (o *options) openHistory() (conversation, error) {
	switch {
	case o.history != nil:
		return insideOf(o.history), nil
	case o.historyFile != "":
		dirs, err := o.writableDirs()
		if err != nil {
			return nil, err
		}
		h, err := bridge.OpenHistoryBeside(dirs, o.historyFile)
		if err != nil {
			return nil, err
		}
		return insideOf(h.(*History)), nil
	}
	return insideOf(chat.NewHistory()), nil
}

// closeHistory closes the history unless it is the caller's.
func (a *Agent) closeHistory() error {
	if a.opts.history != nil {
		return nil
	}
	a.session.Ending()
	err := errors.Join(a.history.Close(), a.session.Close())
	emitRepairs(a.history, a.emit) // the file may have been changed since the last run
	return err
}

// emitRepairs emits a warning for each repair of the history's file, and each
// change of it by others, since the last time.
func emitRepairs(h conversation, emit emitter) {
	for _, repair := range h.NewRepairs() {
		emit(Event{Type: EventWarning, Text: "history: " + repair})
	}
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
	if a.history.CountSinceNew() == 0 {
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
		if m.Role == chat.RoleTool {
			results[m.ToolCallID] = append(results[m.ToolCallID], at)
			continue
		}
		if m.Role != chat.RoleAssistant || len(m.ToolCalls) == 0 {
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
func wasRefused(result chat.HistoryEntry) bool {
	if result.Outcome != "" {
		return result.Outcome != OutcomeOK
	}
	text := result.Message.Text()
	return looptext.Refuses(text) || strings.HasPrefix(text, "error: ") || text == looptext.Interrupted
}

// resume answers the calls that were left open, or ends the run if it had ended
// before.
func (r *run) resume(ctx context.Context) error {
	record := r.agent.history.ActiveMessages()
	said := r.agent.history.ActiveMessageEntries()
	r.recallWork(said)
	at, given, ok := exchangeAtEnd(record)
	if !ok {
		r.resumeReply(ctx, record)
		return nil
	}
	msg := record[at]
	r.message = r.agent.history.IndexOf(said[at].Seq)
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
func (r *run) recallWork(said []chat.HistoryEntry) {
	for _, e := range said {
		switch text := e.Message.Text(); {
		case e.IsOfUser():
			r.judgeHears(e.Message)
		case e.Message.Role == chat.RoleAssistant:
			r.judge.Answered(len(e.Message.ToolCalls) > 0)
		case e.Message.Role == chat.RoleTool && e.Outcome != OutcomeNotRun && !looptext.Refuses(text) && !strings.HasPrefix(text, "error: "):
			r.judge.Ran(e.Outcome != OutcomeOK && e.Outcome != "")
		}
	}
}

// resumeReply handles a conversation whose last message is a reply, which may
// have ended the run. A reply that summed up at a limit has not, since limits
// count anew.
func (r *run) resumeReply(ctx context.Context, record []Message) {
	at := len(record) - 1
	if record[at].Role != chat.RoleAssistant {
		return
	}
	r.result.Message, r.replies = record[at], 1
	last := record[at].Text()
	summedUp := at > 0 && looptext.AsksToSumUp(record[at-1].Text())
	for at >= 2 && asksToGoOn(record[at-1]) && isReply(record[at-2]) {
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

func asksToGoOn(m Message) bool {
	return m.Role == chat.RoleUser && looptext.SaysGoOn(m.Text())
}

func isReply(m Message) bool { return m.Role == chat.RoleAssistant && len(m.ToolCalls) == 0 }

// resumeCall gives a call of the interrupted message a result: by running it
// again where that is safe. It returns the images and files of the result, as far
// as there is room beside those of the calls before.
func (r *run) resumeCall(ctx context.Context, call *readCall, shown []Part) (media []Part, err error) {
	switch {
	case r.result.Status != "":
		return nil, r.skip(ctx, &call.ToolCall, notRunResult(OutcomeNotRun, looptext.Ended), "")
	case !call.tool.mayRepeat(call):
		return nil, r.skip(ctx, &call.ToolCall, notRunResult(OutcomeInterrupted, looptext.Interrupted), "")
	}
	result := r.runCall(ctx, call)
	chooseMedia(result, shown)
	r.finished(result)
	return result.media(), r.answer(Event{Type: EventToolDone, Call: &call.ToolCall}, result, "")
}

// runsAgain says which calls a resumed run would make again, "" if none.
func (a *Agent) runsAgain() string {
	record := a.history.ActiveMessages()
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
	return "/resume repeats these interrupted calls: " + strings.Join(again, "; ")
}

// interrupted reports whether the conversation ends where it is the model's
// turn: after a message of the user, or after a call that did not end the run.
func (r *Registry) interrupted(record []Message) bool {
	if len(record) == 0 || record[len(record)-1].Role == chat.RoleUser {
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
	for _, e := range r.agent.history.ActiveEntries() {
		for _, call := range e.Message.ToolCalls {
			calls[call.ID] = call
		}
		if e.Compaction != nil && e.Compaction.Anew {
			made = nil
		} else if e.Message.Role == chat.RoleTool {
			read := r.read(calls[e.Message.ToolCallID])
			made = append(made, compact.Made{Tool: read.Name, Arguments: read.Arguments, OK: e.Outcome == OutcomeOK, End: endOf(e.Bash)})
		}
	}
	return compact.Record(made, append(r.openTasks(ctx), r.openJobs(ctx)...), most)
}

// endOf says how a command ended; empty if there was none.
func endOf(r *BashResult) string {
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
