package pygent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/mention"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
)

// Said is a message that [Agent.Say] has queued.
type Said struct {
	ID      string  `json:"id"`
	Message Message `json:"message,omitzero"`
}

// The bounds of what is said and not heard yet. Together they are more than
// anybody types, and less than a program that talks in a loop would queue.
const (
	maxUnheard      = 100
	maxUnheardBytes = 32 << 20
)

// unheard is what was said and is not heard yet.
type unheard struct {
	events *eventHub

	mu    sync.Mutex // guards what follows; held while the events about it are emitted, which keeps them in order
	said  []Said
	bytes int
	made  int // how many ids were made
}

// Say tells the agent something while it works, or before its next run. The
// model hears it before it is asked the next time, and never between a call and
// its result. When the model ends a run before it heard, the run goes on with
// what was said. It does not when it ended for another reason: a limit, an
// error, a question of the model, or the end of its context. What nobody has
// heard then, or what was said to an agent without a run, the next run hears
// before its own message.
//
// A chat takes what the user types with Say, and has one goroutine that is woken
// after each Say and calls RunUntilStop(ctx, "", WithEndOnReply()) if
// [State.Unheard] is not empty. So nothing is lost, whatever the agent does at the
// time.
//
// msg is a message in the user's role, which may be left out. The order of
// several is kept. The id is that of the event with which it is heard
// ([EventUser]); until then [Agent.Unsay] takes it back, and [State.Unheard] has
// it. It is an error when 100 messages or 32 MiB wait already.
//
// Say may be called at any time from any goroutine, tools and event handlers
// included. It does not wait.
func (a *Agent) Say(msg Message) (id string, err error) {
	if msg.Role == "" {
		msg.Role = chat.RoleUser
	}
	size := sizeOfMessage(msg)
	if size > maxUnheardBytes {
		return "", fmt.Errorf("say: the message has %d bytes, more than %d", size, maxUnheardBytes)
	}
	if err := sayable(msg); err != nil {
		return "", fmt.Errorf("say: %w", err)
	}
	if a.isClosed() {
		return "", fmt.Errorf("say: %w", ErrAgentClosed)
	}
	return a.unheard.add(msg, size)
}

func (u *unheard) add(msg Message, size int) (id string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.said) >= maxUnheard || u.bytes+size > maxUnheardBytes {
		return "", fmt.Errorf("say: %d messages are queued already; wait until the agent has read them", len(u.said))
	}
	u.made++
	id = fmt.Sprintf("said-%d", u.made)
	u.said, u.bytes = append(u.said, Said{id, msg.Clone()}), u.bytes+size
	u.emit()
	return id, nil
}

// isClosed reports whether Close was called.
func (a *Agent) isClosed() bool { return a.slot.IsClosed() }

// sayable returns why a message cannot be said.
func sayable(msg Message) error {
	switch {
	case msg.Role != chat.RoleUser:
		return fmt.Errorf("only messages of the user can be said, and this is one of the %s", msg.Role)
	case len(msg.ToolCalls) > 0 || msg.ToolCallID != "":
		return errors.New("messages of the user have no tool calls")
	case msg.IsEmpty():
		return errors.New("the message is empty")
	}
	return msg.Check()
}

// Unsay takes back what [Agent.Say] queued under an id. It reports false when
// the model hears it already, or when there is nothing of that id.
func (a *Agent) Unsay(id string) bool { return a.unheard.withdraw(id) }

func (u *unheard) withdraw(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := slices.IndexFunc(u.said, func(s Said) bool { return s.ID == id })
	if at < 0 {
		return false
	}
	u.remove(at)
	u.emit()
	return true
}

// remove takes an element out. The array of the others is not changed, because
// events share it. The caller holds mu.
func (u *unheard) remove(at int) Said {
	s := u.said[at]
	u.said = append(slices.Clone(u.said[:at]), u.said[at+1:]...)
	u.bytes -= sizeOfMessage(s.Message)
	return s
}

func (u *unheard) list() []Said {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.said)
}

func (u *unheard) empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.said) == 0
}

// emit emits the event about what is not heard yet. The caller holds mu.
func (u *unheard) emit() {
	u.events.emit(Event{Type: EventUnheard, Unheard: slices.Clip(u.said)})
}

// next removes what was said first.
func (u *unheard) next() (Said, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.said) == 0 {
		return Said{}, false
	}
	s := u.remove(0)
	u.emit()
	return s, true
}

// putBack undoes next for a message that is not in the history.
func (u *unheard) putBack(s Said) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.said, u.bytes = append([]Said{s}, u.said...), u.bytes+sizeOfMessage(s.Message)
	u.emit()
}

// nudge appends what the model has to be told before it is asked again: which
// tasks ended, what the user said meanwhile, and what to do after an answer
// without a tool call. A reply to which the user says something needs no nudge.
func (r *run) nudge() error {
	replies := r.replies
	if !r.agent.unheard.empty() {
		r.replies = 0
	}
	replied := looptext.Answers{Replies: r.replies, Final: r.opts.final.name(), Judged: r.opts.answerEnds, Demanded: r.judge.Demanded, Open: r.judge.Open}
	last := replied
	last.Empty, last.Trouble, last.Written, last.Form = r.empty, r.trouble, r.written.Tool, r.written.Form
	say := looptext.After(last)
	if say != "" {
		say = looptext.OnALine(say, r.limitNote())
	}
	ended := r.agent.notices.drain()
	if jobs := r.agent.jobs.news(r.ctx); jobs != "" {
		ended = strings.TrimPrefix(looptext.OnALine(ended, jobs), "\n")
	}
	if !r.asked { // later, it is told with results
		r.asked = true
		ended = strings.TrimPrefix(looptext.OnALine(looptext.OnALine(ended, r.startNote), r.agent.news(r.ctx)), "\n")
	}
	if ended != "" {
		if err := r.hear(chat.UserMessage(ended), chat.SourceNotice); err != nil {
			return err
		}
	}
	if say != "" {
		if err := r.hear(chat.UserMessage(say), chat.SourceNudge); err != nil {
			return err
		}
	}
	heard, err := r.listenToUser()
	if err != nil || heard || say != "" || r.replies == replies {
		return err
	}
	r.replies, replied.Replies = replies, replies // what was said was taken back meanwhile
	say = looptext.After(replied)
	return r.hear(chat.UserMessage(looptext.OnALine(say, r.limitNote())), chat.SourceNudge)
}

// listenToUser appends what was sent to the task, and what was said since the model
// was asked, if anything.
func (r *run) listenToUser() (heard bool, err error) {
	if r.opts.inbox != nil {
		for _, m := range r.opts.inbox() {
			if err := r.hear(chat.UserMessage(m.text, m.parts...), chat.SourceUser); err != nil {
				return true, err
			}
			heard = true
		}
	}
	said, err := r.listenToSaid()
	return heard || said, err
}

// listenToSaid appends what was said to the agent since the model was asked.
func (r *run) listenToSaid() (heard bool, err error) {
	for {
		s, ok := r.agent.unheard.next()
		if !ok {
			return heard, nil
		}
		before := r.agent.history.MessageCount()
		if err := r.hearSaid(s.Message, chat.SourceUser, s.ID); err != nil {
			if r.agent.history.MessageCount() == before {
				r.agent.unheard.putBack(s)
			}
			return true, err
		}
		heard = true
	}
}

// goesOn reports whether a run that the model ended goes on, because something
// was said that the model has not heard.
func (r *run) goesOn(ended bool) bool {
	byModel := r.result.Status == StatusReplied || r.result.Status == StatusStopped
	if ended || !byModel || r.agent.unheard.empty() ||
		r.result.Steps >= r.opts.MaxSteps || r.result.ToolCalls >= r.opts.MaxToolCalls || r.budgetSpent() != "" {
		return false
	}
	r.result.Status, r.result.Reason = "", ""
	r.opts.final.discard()
	return true
}

// Settings is what can be changed in an agent at work. An [EventSettings] tells
// each change, and [State] what is set now.
type Settings struct {
	Model string `json:"model,omitempty"` // the model that is asked for, as [Agent.SetModel] set it; empty for the model's default
	// DefaultModel is the name of that default, if no other is set and the model tells it.
	DefaultModel string   `json:"default_model,omitempty"`
	Persona      Persona  `json:"persona"`
	Approval     bool     `json:"approval"`                 // somebody can be asked whether calls may run
	Confirm      bool     `json:"confirm_bash"`             // bash calls need approval, as [Agent.SetConfirmBash] sets it
	Tools        []string `json:"tools,omitempty"`          // the names of the agent's tools that are not disabled, those of its sources too; sorted
	Disabled     []string `json:"disabled_tools,omitempty"` // sorted
	// Unoffered are those of Tools that the model is not offered, because they cannot
	// work: the runtime cannot serve them, or there is nothing to delegate to; sorted.
	Unoffered []string `json:"unoffered_tools,omitempty"`
}

// liveSettings are the settings of an agent as they are now.
type liveSettings struct {
	agent *Agent
	mu    sync.Mutex // held while the settings are read and emitted, so that the last event is right
}

func (l *liveSettings) current() Settings {
	a := l.agent
	enabled, disabled := a.tools.names()
	unoffered := a.tools.unoffered(a.runtime)
	asks, confirms := a.deciders.currentSettings()
	model := a.model.current()
	settings := Settings{
		Model:    model.name,
		Persona:  a.Persona(),
		Approval: asks,
		Confirm:  confirms,
		Tools:    enabled,
		Disabled: disabled,

		Unoffered: unoffered,
	}
	if settings.Model == "" {
		settings.DefaultModel = model.asked()
	}
	return settings
}

// SetConfirmBash changes whether bash calls need approval, as [WithConfirmBash]
// sets it, from the next call on. What is set while a [Face] goes on ends with it.
func (a *Agent) SetConfirmBash(on bool) {
	a.deciders.change(func() { a.deciders.approver.SetConfirm(on) })
}

// emit emits the event about a changed setting.
func (l *liveSettings) emit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	settings := l.current()
	l.agent.emit(Event{Type: EventSettings, Settings: &settings})
}

// Persona returns who the agent is.
func (a *Agent) Persona() Persona {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.persona
}

// SetPersona changes who the agent is, from its next model call on, also in a
// run that goes on. The zero Persona is the default one. Tasks that work already
// keep theirs.
func (a *Agent) SetPersona(p Persona) {
	a.mu.Lock()
	a.persona = (&p).orDefault()
	a.mu.Unlock()
	a.system.stale.Store(true)
	a.settings.emit()
}

// SetApproval changes who decides about calls, from the next call on. It does
// not change which calls need approval: [WithApproval], [WithApprovalFor] and
// [WithConfirmBash] do. With nil nobody decides, and those calls are denied.
func (a *Agent) SetApproval(f ApprovalFunc) {
	a.deciders.approver.Set(FaceUser{Approve: f}, func(of *FaceUser, to FaceUser) { of.Approve = to.Approve })
	a.settings.emit()
}

// WithParts adds parts to the message with which a run begins: images and files,
// from [chat.Attach] for example. The text of the message comes before them, and may
// be empty. It is an option of one run, and an error for an agent or for
// [Agent.Resume].
func WithParts(parts ...Part) RunOption {
	return runOption(func(o *runOptions) { o.parts = append(o.parts, parts...) })
}

// WithTaskParts adds parts to the prompt of a task, as [WithParts] does to the
// message of a run. They are in the task's spec, and at most 32 MiB together.
func WithTaskParts(parts ...Part) TaskOption {
	return func(o *taskOptions) { o.parts = append(o.parts, parts...) }
}

// WithMessageParts adds parts to a message for a task, as [WithParts] does to the
// message of a run. The text of the message may then be empty.
func WithMessageParts(parts ...Part) SendOption {
	return func(in *taskInput) { in.Parts = append(in.Parts, parts...) }
}

// checkParts returns an error if there are parts but no message to add them to.
func (o *runOptions) checkParts(ofAgent int) error {
	switch {
	case ofAgent > 0:
		return errors.New("WithParts is for one run, not for an agent")
	case o.resume && len(o.parts) > 0:
		return errors.New("WithParts: a resumed run has no new message")
	}
	return nil
}

// AttachMentioned reads the files of the workspace that a text mentions, as
// "look at @main.go" and `@"a name.txt"` do, for [WithParts]. A file is a part as
// [chat.FilePart] makes them, a directory its listing, and what cannot go along a
// sentence that tells the model so; FileName has the name in any case. There are at
// most 50 parts and 24 MiB.
//
// What is no file stays a word of the text. missing has such names, with control
// characters made visible, for people to be told: only they know whether @nope was
// meant as a file. An error means that ctx ended or the runtime panicked.
func (a *Agent) AttachMentioned(ctx context.Context, text string) (parts []Part, missing []string, err error) {
	names := pathname.Mentions(text)
	if len(names) == 0 {
		return nil, nil, nil
	}
	found, err := safecall.Outlive(ctx, func() (mention.Found, error) {
		defer a.enter(&a.calling, "the runtime's ReadFile")()
		return mention.Attach(ctx, names, mentionable{a.runtime}), ctx.Err()
	})
	a.logPanic("reading the files of a message", err)
	if err != nil {
		return nil, nil, fmt.Errorf("files of the message: %w", err)
	}
	return found.Parts, found.Missing, nil
}

// mentionable are the files of a runtime as a message can mention them.
type mentionable struct{ Runtime }

// Meant implements [mention.Files].
func (m mentionable) Meant(ctx context.Context, name string) (string, error) {
	return readPath(ctx, m.Runtime, name)
}

// Read implements [mention.Files].
func (m mentionable) Read(ctx context.Context, name string, limit int64) ([]byte, int64, error) {
	return readRange(ctx, m.Runtime, name, 0, limit)
}

// List implements [mention.Files].
func (m mentionable) List(ctx context.Context, name string, most int) ([]filetext.Entry, bool, error) {
	lister, ok := RuntimeAs[FileLister](m.Runtime)
	if !ok {
		return nil, false, errors.ErrUnsupported
	}
	found, more, err := lister.ListFiles(ctx, name, 1, most)
	return entriesOf(found), more, err
}

// IsOutside implements [mention.Files].
func (mentionable) IsOutside(err error) bool { return errors.Is(err, ErrOutsideWorkspace) }
