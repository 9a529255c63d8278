package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
)

func init() {
	bridge.History = func(h any) any { return inside{h.(*History)} }
	bridge.OpenHistoryBeside = func(dirs []string, path string) (any, error) { return openHistoryBeside(dirs, path) }
	bridge.EncodeMessages = func(messages any) (openai.Messages, error) { return encodeMessages(messages.([]Message)) }
	bridge.AnswerMessage = func(a *chatstream.Answer) (any, error) { return answerMessage(a) }
}

// inside is a history as the agent sees it that goes on with it. The interface of package
// pygent that has these methods describes them. What they return is to be read only.
type inside struct{ *History }

func (i inside) Unwrap() *History { return i.History }

func (i inside) Reserve() (release func(), err error) { return i.reserve() }

func (i inside) AppendReserved(ctx context.Context, e HistoryEntry) (added bool, err error) {
	return i.appendReserved(ctx, e)
}

func (i inside) AppendEntries(ctx context.Context, entries []HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := i.append(ctx, slices.Clone(entries), false)
	return err
}

func (i inside) CatchUp(ctx context.Context) error         { return i.catchUp(ctx) }
func (i inside) AnswerOpenCalls(ctx context.Context) error { return i.answerOpenCalls(ctx) }

func (i inside) SetSystemContext(ctx context.Context, text string) error {
	return i.setSystem(ctx, text)
}

func (i inside) AllEntries() []HistoryEntry                 { return i.allEntries() }
func (i inside) LoadAll() ([]HistoryEntry, error)           { return i.loadAll() }
func (i inside) ActiveEntries() []HistoryEntry              { return i.activeEntries() }
func (i inside) ActiveMessageEntries() []HistoryEntry       { return i.activeMessageEntries() }
func (i inside) ActiveMessages() []Message                  { return i.activeMessages() }
func (i inside) MessageCount() int                          { return i.messageCount() }
func (i inside) ActiveCount() int                           { return i.activeCount() }
func (i inside) CountSinceNew() int                         { return i.countSinceNew() }
func (i inside) IndexOf(seq int64) int                      { return i.indexOf(seq) }
func (i inside) ToSend() []Message                          { return i.toSend() }
func (i inside) Shown() []Message                           { return i.shown() }
func (i inside) ForPlan() ([]Message, []compact.Item)       { return i.forPlan() }
func (i inside) Bytes() int                                 { return i.bytes() }
func (i inside) Weight() int                                { return i.weight() }
func (i inside) WeightAfter(mark *Compaction) int           { return i.weightAfter(mark) }
func (i inside) SystemWeight() int                          { return i.systemWeight() }
func (i inside) LastOfUserWeight() int                      { return i.lastOfUserWeight() }
func (i inside) Place() Rewind                              { return i.place() }
func (i inside) CanRewind(mark Rewind) bool                 { return i.canRewind(mark) }
func (i inside) Rewind(ctx context.Context, m Rewind) error { return i.rewind(ctx, m) }
func (i inside) Until(mark Rewind) ([]HistoryEntry, error)  { return i.until(mark) }
func (i inside) NewRepairs() []string                       { return i.newRepairs() }

func (i inside) WordsBefore(items []compact.Item, plan compact.Plan) []string {
	return i.wordsBefore(items, plan)
}

// LastRewind returns the last mark of the history; nil for none.
func (i inside) LastRewind() *Rewind {
	all := i.allEntries()
	if at := lastRewind(all); at >= 0 {
		return all[at].Rewind
	}
	return nil
}

func (i inside) AddRepair(note string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.repairs = append(i.repairs, note)
}

// BeLenient makes what a file does not take a repair instead of an error.
func (i inside) BeLenient() { i.store.file.lenient = true }

// CopyTo writes the conversation, with what is known of its messages, to a new file, and
// returns it in memory.
func (i inside) CopyTo(path string) (*History, error) {
	entries := slices.Clone(i.loadAllBestEffort())
	h, err := OpenHistory(path)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		_, err = h.append(context.Background(), entries, false)
	}
	if err = errors.Join(err, h.Sync(), h.Close()); err != nil {
		return nil, err
	}
	copied := &History{}
	copied.record(entries...)
	return copied, nil
}

// openHistoryBeside opens a history whose file may lie in a directory that
// commands can write to.
func openHistoryBeside(dirs []string, path string) (*History, error) {
	disk, name, shared, err := journal.Beside(dirs, path)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, err)
	}
	h, err := openHistoryOn(disk, name)
	if err == nil && shared {
		h.repairs = append(h.repairs, fmt.Sprintf("%s is where commands can read and change it; a file outside of the workspace is safer", path))
	}
	return h, err
}

// encodedMessages are messages that have their JSON, as servers with OpenAI's APIs get them.
type encodedMessages []Message

// Len implements [openai.Messages].
func (e encodedMessages) Len() int { return len(e) }

// At implements [openai.Messages].
func (e encodedMessages) At(i int) *openai.Message { return e[i].enc.forOpenAI() }

// encodeMessages returns messages as servers with OpenAI's APIs get them. Each message is
// encoded once in its life. Messages of a history are encoded already, and need no copy.
func encodeMessages(messages []Message) (openai.Messages, error) {
	all, own := messages, false
	for i := range messages {
		if messages[i].isEncoded() {
			continue
		}
		m, err := messages[i].encoded()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if !own {
			all, own = slices.Clone(messages), true
		}
		all[i] = m
	}
	return encodedMessages(all), nil
}

// answerMessage returns the message of an answer. Its JSON is not kept with it: whoever gets
// it may change it in place, which only a copy's JSON would show.
func answerMessage(a *chatstream.Answer) (Message, error) {
	msg := Message{Role: RoleAssistant, Content: a.Content, Extra: a.Extra}
	for _, raw := range a.Parts {
		var p Part
		if err := json.Unmarshal(raw, &p); err != nil {
			p = Part{raw: raw} // of a shape unknown here: kept as it is
		}
		msg.Parts = append(msg.Parts, p)
	}
	for _, call := range a.ToolCalls {
		msg.ToolCalls = append(msg.ToolCalls, ToolCall(call))
	}
	if name, ok := msg.Extra["name"]; ok && json.Unmarshal(name, &msg.Name) == nil {
		delete(msg.Extra, "name")
	}
	delete(msg.Extra, "tool_call_id") // not of an assistant
	if msg.hasRaw() {
		if _, err := msg.marshal(); err != nil {
			return msg, err
		}
	}
	return msg, nil
}
