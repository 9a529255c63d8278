package pygent

import "fmt"

// What stands in a conversation for what a damaged file has lost.
const (
	lostResult = "this result is lost: the file of the conversation was damaged; the call may have taken effect"
	lostCall   = "The file of the conversation was damaged here: the call of this tool is lost. Its result was:"
)

// mender brings the messages of a file into a legal order where a provider
// would refuse them, losing as little as it can.
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

// mend answers the calls that were left open although the conversation went on,
// and turns results whose calls are lost into messages of the user. gaps tells
// before which messages something is missing. Calls that are open at the end
// stay open: a run may be resumed there. notes tells what was done.
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
func answersToOpenCalls(record []Message) ([]Message, error) {
	at := len(record) - 1
	for at >= 0 && (record[at].Role == RoleTool || saysNothing(record[at])) {
		at--
	}
	var r mender
	for _, m := range record[max(at, 0):] {
		r.take(m)
	}
	n := len(r.out)
	r.closeCalls()
	return r.out[n:], r.err
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
			r.begin(m.ToolCalls)
		}
	}
}

func (r *mender) begin(calls []ToolCall) {
	for _, call := range calls {
		r.open = append(r.open, openCall{id: call.ID})
	}
}

// result takes a tool's result. One of a call that is lost stays readable.
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
	r.add(Message{Role: RoleUser, Parts: append([]Part{{Text: lostCall + "\n" + textOfResult(m)}}, imagesOf(m)...)})
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
