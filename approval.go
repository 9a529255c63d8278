package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/boundset"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/denylist"
	"github.com/x/pygent/internal/eventqueue"
	"github.com/x/pygent/internal/form"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/taskpool"
)

// ApprovalFunc decides whether a tool call may run. An error denies it. It must
// honour ctx: when ctx ends while it decides, the run is interrupted, whatever
// it returns. [CallFrom] returns the call that ctx belongs to. It may be called
// by two goroutines at once: for the agent itself, and for one of its tasks. The
// time it takes does not count against a [StepTimeout], the agent's or the
// task's, but against [MaxTime].
type ApprovalFunc func(ctx context.Context, r ApprovalRequest) (Decision, error)

// ApprovalRequest is a tool call that waits for a [Decision].
type ApprovalRequest struct {
	Call    ToolCall    `json:"call"`           // with the arguments as the tool would get them
	Tool    ToolInfo    `json:"tool"`           // what the tool and the call are to people
	Agent   string      `json:"agent"`          // id of the agent that makes the call
	Task    string      `json:"task,omitempty"` // id of the task that the agent works on; empty for none
	Step    int         `json:"step"`           // the step of the run, from 1
	Runtime RuntimeInfo `json:"runtime"`        // where the call would run
	Why     string      `json:"why"`            // why the call needs approval

	// Changes are the changes of files that the call would make, of write_file,
	// edit_file and collect_file. They are what the files hold at the moment.
	Changes []FileChange `json:"changes,omitempty"`

	// Session says in words what a [Decision] for the session would cover. It is
	// empty if such a decision would cover this call only.
	Session string `json:"session,omitempty"`
	// AsksManager says that a task waits for its [TaskManager] to decide. It is
	// false where the task's agent has an [ApprovalFunc] of its own.
	AsksManager bool `json:"asks_manager,omitempty"`
}

// Decision is the answer of an [ApprovalFunc]. The zero value denies.
type Decision struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason,omitempty"` // told to the model when the call is denied

	// Arguments, if set, replace those of the call that is allowed. They are
	// checked like the model's own: arguments that do not fit, or that run a
	// banned command, deny the call. The model is told of the change.
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// Session allows, together with Allow, further calls without asking. It holds
	// for the agent and the agents of its tasks until the agent, or the terminal
	// session in which the user gave it, ends; of 1,000 such decisions the oldest
	// is forgotten. It covers:
	//   - for bash, the very same command in the same directory;
	//   - for write_file, edit_file and collect_file, writes to the same path,
	//     except where git obeys the file;
	//   - for any other tool, all its calls, until a tool that describes
	//     itself differently gets its name.
	Session bool `json:"session,omitempty"`

	// By says who decided, for people. A terminal session says "user". The agent
	// itself says "rule" when an earlier decision for the session allows a call,
	// and "nobody" when there is nobody to ask.
	By string `json:"by,omitempty"`
}

// Who decided, if it was not an [ApprovalFunc] of the caller.
const (
	byUser   = "user"
	byRule   = "rule"
	byNobody = "nobody"
)

// WithApproval sets who decides about calls. By default these are all calls of
// tools that are not ReadOnly; [WithApprovalFor] names the tools instead, and
// [WithConfirmBash] decides for bash. The same rules apply to the agent's
// tasks. Without WithApproval, calls that need approval are denied: those of
// tools with NeedsApproval, and those that WithApprovalFor and WithConfirmBash
// name.
func WithApproval(f ApprovalFunc) Option {
	return option(func(o *options) { o.approve, o.approveAll = f, f != nil })
}

// WithApprovalFor makes calls of the named tools need approval, and of no
// others except those whose [Tool] requires it. "*" stands for every tool,
// including those that only read. A name that no tool has is an error of [New].
func WithApprovalFor(tools ...string) Option {
	return option(func(o *options) { o.approvalFor = append(o.approvalFor, tools...) })
}

// WithConfirmBash says whether bash calls need approval; a terminal session
// asks the user for it. Outside of a container, writing a file can do the same
// as running a command, so there true also applies to write_file, edit_file and
// collect_file. Default: as [WithApproval] and [WithApprovalFor] say; without
// them, only in terminal sessions on the local runtime.
//
// Regardless of this option, those three tools need approval on the local
// runtime when they write below a .git directory of a workspace that is kept,
// because git runs programs that are named there.
func WithConfirmBash(on bool) Option { return option(func(o *options) { o.confirmBash = &on }) }

// deciders are those who decide about the calls of an agent and about the hosts that its
// commands want, and those who answer its questions.
type deciders struct {
	opts     *options
	calls    *callbacks
	settings *liveSettings
	stale    *atomic.Bool // the system message, which says whether the user is asked about hosts

	approver     approval.Approver[FaceUser]
	banned       *denylist.List
	allowed      *sessionRules     // what was allowed for the session, also in tasks
	approvalGate safecall.Pausable // closed while somebody decides about hosts, or about a call of the agent or one of its tasks
	questionLock safecall.Baton    // held while the user is asked a question
	hostsAsked   func() bool       // whether somebody decides about hosts; nil where nobody does
}

// begin makes the deciders ready as the options say.
func (d *deciders) begin() (err error) {
	d.questionLock = safecall.NewBaton()
	d.allowed = cmp.Or(d.opts.allowed, &sessionRules{})
	d.approver.Begin(FaceUser{Approve: d.opts.approve, Answer: d.opts.ask}, d.opts.confirmBash, FaceUser.over)
	d.banned, err = denylist.New(d.opts.banned, d.opts.bannedApps)
	return err
}

// enterFace has a face's user decide and answer until end is called. confirm says whether
// bash calls need approval, where nothing else does.
func (d *deciders) enterFace(user FaceUser, confirm *bool) (end func()) {
	forget := func() {}
	if program, _ := d.approver.BeforeFace(); user.Approve != nil && program.Approve == nil {
		forget = d.allowed.Layer() // what the user always allows is for this session
	}
	var leave func()
	d.change(func() { leave = d.approver.Enter(user, confirm) })
	return func() { d.change(func() { leave(); forget() }) }
}

// change calls set, and emits an event if what [Settings] has of it has changed.
func (d *deciders) change(set func()) {
	beforeAsks, beforeConfirms := d.currentSettings()
	set()
	d.stale.Store(true)
	if asks, confirms := d.currentSettings(); asks != beforeAsks || confirms != beforeConfirms {
		d.settings.emit()
	}
}

// currentSettings returns what [Settings] has of approvals.
func (d *deciders) currentSettings() (asks, confirms bool) {
	return d.approver.User().Approve != nil, d.opts.needsApproval(Tool{Name: "bash"}, d.approver.Confirm())
}

// permit decides whether a call may run. Deny overrides allow, and without an
// answer the call is denied. It returns the call with the arguments that were
// permitted, which somebody may have changed, or the result of a call that must
// not run.
func (r *run) permit(c *callContext, tool Tool) (permitted *callContext, refused *ToolResult) {
	if c, refused = r.hook(c, tool); refused != nil {
		return nil, refused
	}
	call := &c.info.Call
	deciders, rt := &r.agent.deciders, r.agent.runtime
	if err := deciders.checkBans(*call); err != nil {
		return nil, deniedResult(err.Error())
	}
	why := deciders.whyAsk(rt, tool, *call)
	if why == "" {
		return c, nil
	}
	decision := r.decide(c, tool, *call, why)
	if c.Err() != nil {
		return nil, notRunResult(OutcomeInterrupted, looptext.NotRun(context.Cause(c)))
	}
	decision = deciders.resolve(rt, decision, tool, call)
	if decision.Arguments != nil {
		c = c.with(string(decision.Arguments))
	}
	r.emit(Event{Type: EventDecision, Step: r.result.Steps, Call: &c.info.Call, Decision: &decision})
	switch {
	case !decision.Allow && decision.Reason == "":
		return nil, &ToolResult{Content: "error: denied by the user", IsError: true, Outcome: OutcomeDenied}
	case !decision.Allow:
		return nil, deniedResult(decision.Reason)
	}
	return c, nil
}

func deniedResult(reason string) *ToolResult {
	return &ToolResult{Content: "error: denied: " + reason, IsError: true, Outcome: OutcomeDenied}
}

// checkBans returns an error for a call that runs a banned command.
func (d *deciders) checkBans(call ToolCall) error {
	if call.Name != "bash" {
		return nil
	}
	command, _ := commandIn(call)
	return d.banned.Check(command.Cmd)
}

// decide has somebody decide about a call, unless an earlier decision covers
// it.
func (r *run) decide(ctx context.Context, tool Tool, call ToolCall, why string) Decision {
	a := r.agent
	approve := a.deciders.approver.User().Approve
	switch {
	case a.deciders.allowed.Has(scopeOf(a.runtime, tool, call).key):
		return Decision{Allow: true, By: byRule}
	case approve == nil && changesGit(a.runtime, call):
		return Decision{By: byNobody, Reason: "files below .git can make git on the user's machine run programs, so writing there needs approval, and nobody is here to approve it"}
	case approve == nil:
		return Decision{By: byNobody, Reason: "this tool needs approval, and nobody is here to approve it"}
	}
	request := r.requestFor(ctx, tool, call, why)
	r.emit(Event{Type: EventApproval, Step: request.Step, Call: &call, Approval: &request})
	if ctx.Err() != nil {
		return Decision{}
	}
	decision, err := r.askFor(ctx, approve, request)
	if err != nil {
		a.logPanic("approval", err)
		return Decision{Reason: fmt.Sprintf("asking for approval failed: %v", err)}
	}
	return decision
}

func (r *run) requestFor(ctx context.Context, tool Tool, call ToolCall, why string) ApprovalRequest {
	a := r.agent
	return ApprovalRequest{
		Call:        call,
		Tool:        *r.describeCall(ctx, tool, call),
		Agent:       a.id,
		Task:        a.opts.task,
		Step:        r.result.Steps,
		Runtime:     a.describe(ctx),
		Why:         why,
		Changes:     r.changesOf(ctx, call),
		Session:     scopeOf(a.runtime, tool, call).words,
		AsksManager: a.opts.asksManager,
	}
}

// askFor has somebody decide about a call. The time limit of the step pauses
// meanwhile.
func (r *run) askFor(ctx context.Context, approve ApprovalFunc, request ApprovalRequest) (Decision, error) {
	defer r.agent.deciders.approvalGate.Close()()
	return callForeign(ctx, r, "the approval", func() (Decision, error) { return approve(ctx, request) })
}

// resolve returns a decision as it takes effect. Arguments are set only if they
// replace those of the call; a call whose new arguments cannot be used is
// denied. A decision for the session is remembered.
func (d *deciders) resolve(rt Runtime, decision Decision, tool Tool, call *ToolCall) Decision {
	given := string(bytes.TrimSpace(decision.Arguments))
	decision.Arguments, decision.Session = nil, decision.Session && decision.Allow
	if !decision.Allow {
		return decision
	}
	decided := *call
	if given != "" && given != call.Arguments {
		args, err := tool.schema.Arguments(given)
		decided.Arguments = string(args)
		if err == nil {
			err = d.checkBans(decided)
		}
		if err != nil {
			return Decision{By: decision.By, Reason: fmt.Sprintf("the arguments from the approval are invalid: %v", err)}
		}
		decision.Arguments = args
	}
	if decision.Session {
		d.allowed.Add(scopeOf(rt, tool, decided).key)
	}
	return decision
}

// whyAsk returns why a call needs approval. It is empty for a call that needs
// none.
func (d *deciders) whyAsk(rt Runtime, tool Tool, call ToolCall) string {
	why := d.whyByRules(rt, tool, call)
	if (why != "" || !isolated(rt)) && changesGit(rt, call) {
		return approval.WritesGit
	}
	return why
}

// whyByRules is whyAsk but for what git obeys.
func (d *deciders) whyByRules(rt Runtime, tool Tool, call ToolCall) string {
	confirmBash := d.approver.Confirm()
	switch {
	case tool.NeedsApproval:
		return "the tool " + call.Name + " always needs approval"
	case d.opts.needsApproval(tool, confirmBash):
		return "calls of " + call.Name + " need approval here"
	case confirmBash != nil && *confirmBash && writesUnconfined(rt, call):
		return "it writes a file where commands need approval"
	case strings.HasPrefix(call.ID, writtenID) && !tool.ReadOnly && d.canAsk():
		return "the model wrote it as text, and may only be quoting something it read"
	}
	return ""
}

// canAsk reports whether somebody can be asked about calls now, for a task those whom its
// manager asks.
func (d *deciders) canAsk() bool {
	if m := d.opts.manager; d.opts.asksManager && m != nil {
		r := m.tasks.Record(d.opts.task)
		return r != nil && m.approver(r) != nil
	}
	return d.approver.User().Approve != nil
}

// needsApproval reports whether calls of a tool need approval by the options. A
// rule that names the tool, or one for bash, overrides the general rule.
func (o *options) needsApproval(tool Tool, confirmBash *bool) bool {
	switch {
	case slices.Contains(o.approvalFor, tool.Name), slices.Contains(o.approvalFor, "*"):
		return true
	case tool.RunsCommands && slices.Contains(o.approvalFor, "bash"):
		return true
	case (tool.RunsCommands || tool.Name == "bash") && confirmBash != nil:
		return *confirmBash
	}
	return o.approveAll && len(o.approvalFor) == 0 && (tool.RunsCommands || !tool.ReadOnly)
}

// writesUnconfined reports whether a call writes a file of this machine. Such a write could
// do the same harm as a command.
func writesUnconfined(rt Runtime, call ToolCall) bool {
	_, writes := changeIn(call)
	return writes && !isolated(rt)
}

// ownApprovalFor returns the names given to this agent itself. Names that it
// inherited are not checked: the parent may have removed such a tool since.
func (o *options) ownApprovalFor() []string {
	return slices.DeleteFunc(slices.Clone(o.approvalFor), func(name string) bool {
		return name == "*" || slices.Contains(o.inheritedFor, name)
	})
}

// scope is what a decision for the session covers: all calls with the same key.
// The zero scope covers nothing.
type scope struct {
	key   boundset.Key
	words string // for people
}

// scopeOf returns the scope of a call. It never covers another tool that
// gets the same name later. A program may have registered a tool under the name
// of a built-in one; that is covered call by call.
func scopeOf(rt Runtime, tool Tool, call ToolCall) scope {
	command, _ := commandIn(call)
	change, writes := changeIn(call)
	ours := isOurs(call) && tool.isBuiltin()
	switch {
	case command.Cmd != "" && ours:
		return scope{boundset.Of("bash", fmt.Sprint(command.Background), command.Cwd, command.Cmd), "this exact command"}
	case writes && steersGit(rt, change.path):
		return scope{}
	case writes && change.path != "." && ours:
		return scope{boundset.Of("write", change.path), "all writes to this file"}
	case call.Name == "bash" || writes:
		return scope{boundset.Of("call", tool.identity(), call.Arguments), "this exact call"}
	}
	return scope{boundset.Of("tool", tool.identity()), "all calls of " + call.Name}
}

// sessionRules are what was allowed for the session. An agent shares them with
// those of its tasks.
type sessionRules struct{ boundset.Set }

// approve waits for the decision about a call of which an event has told the
// task's followers.
func (t *localTask) approve(ctx context.Context, request ApprovalRequest) (Decision, error) {
	t.mu.Lock()
	answer := t.answers[request.Call.ID]
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.answers[request.Call.ID] == answer { // else a later run asks about a call with the same id
			t.status.withdraw(request.Call.ID)
			delete(t.answers, request.Call.ID)
		}
	}()
	select {
	case d := <-answer:
		return d, nil
	case <-ctx.Done():
		return Decision{}, safecall.ContextError(ctx)
	}
}

// recordRequest makes room for the decision about the call of an event, or notes
// that nobody waits for one any more. The caller has held t.mu since before it
// appended the event, so that no decision comes earlier.
func (t *localTask) recordRequest(e Event) {
	if e.Type == EventToolDone {
		delete(t.answers, e.Call.ID) // also if the run ended before anybody waited
	}
	if e.Type != EventApproval || !e.Approval.AsksManager {
		return
	}
	if t.answers == nil {
		t.answers = map[string]chan Decision{}
	}
	t.answers[e.Call.ID] = make(chan Decision, 1)
}

// withdraw removes a call from those that wait for a decision. Statuses that were
// handed out keep it.
func (s *TaskStatus) withdraw(call string) {
	s.Approvals = slices.DeleteFunc(slices.Clone(s.Approvals), func(p PendingApproval) bool { return p.Request.Call.ID == call })
}

// decide answers a call that waits for a decision: the one of the event with the
// number request, or if that is 0 the one with the id call.
func (t *localTask) decide(request int64, call string, d Decision) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.status.Approvals {
		if id := p.Request.Call.ID; p.Seq == request || request == 0 && id == call {
			t.answers[id] <- d // has room, since nobody answered before
			t.status.withdraw(id)
			return nil
		}
	}
	return ErrNotAsked
}

// errSessionOver is the reason why nobody answers any more.
var errSessionOver = errors.New("the session is over")

// hostApproval has them decide about hosts, unless the runtime's own options name
// somebody. The time limit of the step pauses meanwhile. callGoingOn returns the call of a
// tool, if any.
func (d *deciders) hostApproval(callGoingOn func() context.Context) RuntimeOption {
	return runtimeOption{"withHostApproval", func(o *runtimeOptions) {
		given := o.askHosts
		o.canAskHosts = func() bool { return given != nil || d.approver.User().Hosts != nil }
		o.askHosts = func(ctx context.Context, r HostRequest) (HostDecision, error) {
			ask := given
			if ask == nil {
				ask = d.approver.User().Hosts
			}
			if ask == nil {
				return HostDecision{}, errSessionOver
			}
			defer d.approvalGate.Close()()
			defer d.calls.enter(&d.calls.calling, "the approval of hosts")()
			if c, ok := callGoingOn().(*callContext); ok {
				ctx = &callContext{Context: safecall.WithValues(ctx, c), info: c.info}
			}
			return ask(ctx, r)
		}
		d.hostsAsked = o.canAskHosts
	}}
}

// canAskHosts reports whether somebody decides about hosts.
func (d *deciders) canAskHosts() bool { return d.hostsAsked != nil && d.hostsAsked() }

// Question is what a model asks the user with the tool "continue", or a tool by
// [Ask].
type Question struct {
	Prompt  string   `json:"prompt,omitempty"`
	Options []string `json:"options,omitempty"` // answers to choose from; the user may give another

	// Schema asks for values instead of a text: a JSON Schema of type object whose
	// properties are strings, numbers, integers or booleans. People are shown the
	// titles of values to choose from, given by enumNames, or by oneOf with const
	// and title, as elicitation in MCP has them.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Secret says that the answer is a password or the like: events and logs do not
	// have it, and a session does not show what is typed. So it is with a string in
	// Schema whose format is "password". What the tool does with the answer is up to
	// the tool: its result goes into the history.
	Secret bool `json:"secret,omitempty"`

	// UserOnly says that only the user may answer, as where the answer permits
	// something: a model that delegated the task is not asked.
	UserOnly bool `json:"user_only,omitempty"`

	// AsksParent says that the model of the agent that delegated the task is asked,
	// because there is no user. [Ask] sets it.
	AsksParent bool `json:"asks_parent,omitempty"`
}

// Answer is what is said to a [Question].
type Answer struct {
	Text     string          `json:"text,omitempty"`     // one of the options, or any other text
	Values   json.RawMessage `json:"values,omitempty"`   // an object that fits the question's Schema
	Declined bool            `json:"declined,omitempty"` // there is no answer

	// By says who answered, for people. A terminal session says "user", and the model
	// of the agent that delegated a task "parent".
	By string `json:"by,omitempty"`
}

// byParent is who answered if it was the model of the agent that delegated a task.
const byParent = "parent"

// AskRequest is a question to the user.
type AskRequest struct {
	Question Question `json:"question"`
	From     CallInfo `json:"from"` // the tool call that asks, and the task that it belongs to
}

// AskFunc asks the user. It must honour ctx. One question of an agent and its
// tasks is asked at a time. The time it takes does not count against a
// [StepTimeout], but against [MaxTime].
type AskFunc func(ctx context.Context, r AskRequest) (Answer, error)

// ErrNobodyToAsk is returned by [Ask] if there is nobody who could answer.
var ErrNobodyToAsk = errors.New("there is nobody to ask")

// WithAsk sets who answers the questions of tools; see [Ask]. The questions of
// the agent's tasks come there, too. Default: the user at the terminal, while a
// session goes on. Given to the agents of tasks, nil keeps their questions from
// everybody, also from the model of the agent that delegated them.
func WithAsk(f AskFunc) Option { return option(func(o *options) { o.ask, o.askAbove = f, nil }) }

// Ask asks the user in the middle of a tool call, and waits for the answer. ctx
// is the context that the tool got. Events tell of the question and its answer. A
// question whose schema is not flat is an error, and so is an answer that does
// not fit the schema. Without anybody to ask, the error is [ErrNobodyToAsk]: a
// program answers by [WithAsk] or [Agent.SetAsk], and so does the user of a terminal
// session.
//
// In a task whose user nobody can ask, the model of the agent that delegated it is
// asked, while a run of that agent goes on. It hears of the question as of the end
// of a task, and answers with the tool send_task; see also [TaskManager.Answer]. The
// error is ErrNobodyToAsk once that run is over, and after ten minutes without an
// answer. A model is never asked for what is Secret, nor what is UserOnly.
func Ask(ctx context.Context, q Question) (Answer, error) {
	c := toolCallOf(ctx)
	if c == nil {
		return Answer{}, ErrNobodyToAsk
	}
	f, err := form.Parse(q.Schema)
	if err != nil {
		return Answer{}, fmt.Errorf("question: %w", err)
	}
	a := c.agent
	if err := a.deciders.questionLock.LockContext(ctx); err != nil {
		return Answer{}, err
	}
	defer a.deciders.questionLock.Unlock()
	ask := a.deciders.asker()
	q.AsksParent = ask == nil
	if q.AsksParent {
		ask = a.opts.parentAnswers(f, q)
	}
	if ask == nil {
		return Answer{}, ErrNobodyToAsk
	}
	about := Event{Type: EventQuestion, Step: c.info.Step, Call: &c.info.Call, Question: &q}
	if told := a.emit(about); a.opts.gate.ask != nil {
		eventqueue.Await(told, ctx.Done()) // from then on the task takes answers
	}
	answer, err := a.deciders.ask(ctx, AskRequest{Question: q, From: c.info}, ask)
	if err == nil {
		answer, err = check(f, answer, q.Secret)
	}
	if err != nil {
		answer = Answer{Declined: true}
	}
	told := withoutSecrets(f, answer, q.Secret)
	about.Type, about.Question, about.Answer = EventAnswer, nil, &told
	a.emit(about)
	return answer, err
}

// ask asks a question of the agent. An answer that is sent to the agent's task
// counts too.
func (d *deciders) ask(ctx context.Context, r AskRequest, ask AskFunc) (Answer, error) {
	defer d.approvalGate.Close()()
	call := func(ctx context.Context, r AskRequest) (Answer, error) {
		answer, err := safecall.Outlive(ctx, func() (Answer, error) {
			defer d.calls.enter(&d.calls.calling, "the answer to a question")()
			return ask(ctx, r)
		})
		d.calls.logPanic("answer to a question", err)
		if err == nil && ctx.Err() != nil {
			err = safecall.ContextError(ctx)
		}
		return answer, err
	}
	if gate := d.opts.gate.ask; gate != nil {
		return gate(ctx, r, call)
	}
	return call(ctx, r)
}

// askUser passes a question of one of the agent's tasks on to whoever answers.
func (d *deciders) askUser(ctx context.Context, r AskRequest) (Answer, error) {
	if err := d.questionLock.LockContext(ctx); err != nil {
		return Answer{}, err
	}
	defer d.questionLock.Unlock()
	ask := d.asker()
	if ask == nil {
		return Answer{}, ErrNobodyToAsk
	}
	return d.ask(ctx, r, ask)
}

// SetAsk changes who answers the questions of tools, as [WithAsk] sets it, from
// the next question on. With nil nobody does. A [Face] calls it when it begins, as
// it calls [Agent.SetApproval].
func (a *Agent) SetAsk(f AskFunc) {
	a.deciders.approver.Set(FaceUser{Answer: f}, func(of *FaceUser, to FaceUser) { of.Answer = to.Answer })
}

// asker returns who answers questions, or nil.
func (d *deciders) asker() AskFunc {
	above := d.opts.askAbove
	if program, _ := d.approver.BeforeFace(); program.Answer == nil && above != nil && above.deciders.asker() != nil {
		return above.deciders.askUser
	}
	return d.approver.User().Answer
}

// check returns an answer that fits a form, or a text if there is none.
func check(f *form.Form, answer Answer, secret bool) (_ Answer, err error) {
	if f == nil || answer.Declined {
		answer.Values = nil // nobody asked for them, and they may be no JSON
		return answer, nil
	}
	if answer.Values, err = f.Check(answer.Values, secret); err != nil {
		return Answer{}, err
	}
	return answer, nil
}

// withoutSecrets returns an answer as events may tell it.
func withoutSecrets(f *form.Form, a Answer, secret bool) Answer {
	switch {
	case secret:
		return Answer{Declined: a.Declined, By: a.By}
	case f == nil || len(f.Secrets()) == 0:
		return a
	case len(a.Values) == 0: // the text is no answer to a form, and may be what was typed into a field
		return Answer{Declined: a.Declined, By: a.By}
	}
	return Answer{Values: f.WithoutSecrets(a.Values), Declined: a.Declined, By: a.By}
}

// parentAnswersWithin is how long the model of a parent has for an answer. It may be
// in a call that takes long, and has to hear of the question first.
const parentAnswersWithin = 10 * time.Minute

// parentAnswers returns how the model of the agent that delegated the task answers,
// or nil if it cannot be asked.
func (o *options) parentAnswers(f *form.Form, q Question) AskFunc {
	if o.askAbove == nil || o.parentListens == nil || q.Secret || q.UserOnly || f != nil && len(f.Secrets()) > 0 {
		return nil
	}
	gone, listens := o.parentListens()
	if !listens {
		return nil
	}
	return func(ctx context.Context, _ AskRequest) (Answer, error) {
		late := time.NewTimer(parentAnswersWithin)
		defer late.Stop()
		select {
		case <-gone:
			return Answer{}, fmt.Errorf("%w: the agent that delegated the task ended its run without answering", ErrNobodyToAsk)
		case <-late.C:
			return Answer{}, fmt.Errorf("%w: the agent that delegated the task did not answer within %s", ErrNobodyToAsk, parentAnswersWithin)
		case <-ctx.Done():
			return Answer{}, safecall.ContextError(ctx)
		}
	}
}

// ParseAnswer reads what a person or a model wrote as the answer to the question:
// one of the options, in words or by its number from 1, or any other text; for a
// Schema a JSON object that fits it, or the value alone where it has one field.
// Nothing at all declines, and for a Schema so does the word "decline". The error
// says what is wrong and what is expected.
func (q Question) ParseAnswer(text string) (Answer, error) {
	f, err := form.Parse(q.Schema)
	if err != nil {
		return Answer{}, err
	}
	word := strings.TrimSpace(text)
	if word == "" || f != nil && strings.EqualFold(word, "decline") {
		return Answer{Declined: true}, nil
	}
	if f == nil {
		text, _ := q.chosen(text)
		return Answer{Text: text}, nil
	}
	values, err := f.Read(text, q.Secret)
	return Answer{Values: values}, err
}

// chosen returns the option of a question that an answer means, by its text or
// its number, or else the answer itself, and what to say about it.
func (q *Question) chosen(answer string) (text, note string) {
	trimmed := strings.TrimSpace(answer)
	if len(q.Options) == 0 {
		return answer, ""
	}
	for _, option := range q.Options {
		if trimmed == option || strings.EqualFold(trimmed, strings.TrimSpace(option)) {
			return option, ": " + cut.Line(option, shownPrompt)
		}
	}
	if n, err := strconv.Atoi(trimmed); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1], ": " + cut.Line(q.Options[n-1], shownPrompt)
	}
	return answer, ", with none of its options"
}

// onOneLine returns the beginning of a text in one line.
func onOneLine(text string) string { return cut.Line(text, 200) }

// PendingQuestion is a question of a task's tool that waits for an answer; see
// [Ask]. It comes from the user, from the model of the agent that delegated the task
// if the question AsksParent, or from whoever calls [TaskManager.Answer].
type PendingQuestion struct {
	Request AskRequest `json:"request"`
	Seq     int64      `json:"seq"`   // the number of the event that asked
	Since   time.Time  `json:"since"` // when it asked
}

// PendingApproval is a call of a task that waits until somebody decides about
// it: the manager's [ApprovalFunc], or whoever calls [TaskManager.Decide].
type PendingApproval struct {
	Request ApprovalRequest `json:"request"`
	Seq     int64           `json:"seq"`   // the number of the event that asked
	Since   time.Time       `json:"since"` // when it asked
}

// Answer answers the question of a task's tool: the one in the Asked of its
// [TaskStatus], whose call has the id. The first answer counts: it ends the context
// of an [AskFunc] that is still asked, and the error of a later one matches
// [ErrNotAsked]. An answer that does not fit the question is an error, and the
// question stays. [Question.ParseAnswer] reads what somebody wrote. To have all
// questions answered here, give [WithAsk] a function that waits until its context
// ends. A task that rests with a question is answered by Send.
func (m *TaskManager) Answer(ctx context.Context, id, call string, a Answer) error {
	s, err := m.exec.status(ctx, id)
	if err == nil && (s.Asked == nil || s.Asked.Request.From.Call.ID != call) {
		err = ErrNotAsked
	}
	if err == nil {
		err = m.answer(ctx, id, newID(), *s.Asked, a)
	}
	return taskError(id, err)
}

// answer sends an answer with an input of the given id.
func (m *TaskManager) answer(ctx context.Context, id, input string, p PendingQuestion, a Answer) error {
	q := p.Request.Question
	f, err := form.Parse(q.Schema)
	if err != nil {
		return err
	}
	if n := len(a.Text) + len(a.Values); n > taskpool.MaxMailBytes {
		return fmt.Errorf("the answer has %d bytes, more than %d", n, taskpool.MaxMailBytes)
	}
	if a, err = check(f, a, q.Secret); err != nil {
		return err
	}
	_, err = m.exec.send(ctx, id, taskInput{ID: "answer-" + input, Kind: inputAnswer, Request: p.Seq, Answer: a})
	return err
}

// parentListens reports whether the model of the agent that delegated a task can be
// asked, and when that ends: a run of the agent goes on, it may use send_task, and it
// is not in a call of a tool of its own, which may wait for the task that it started.
func (m *TaskManager) parentListens(id string) (gone <-chan struct{}, listens bool) {
	r := m.tasks.Record(id)
	if r == nil || r.Value.agent == nil || r.Value.inCall() {
		return nil, false
	}
	by := r.Value.agent
	if tool, err := by.tools.lookup("send_task", by.runtime); err != nil || !tool.isBuiltin() {
		return nil, false
	}
	return by.notices.present.Here()
}

// inCall reports whether the tool call that delegated the task goes on, unless it is
// one of the delegation tools, which wait for no task.
func (r *taskLinks) inCall() bool {
	return r.by != nil && !r.by.isOver() && delegationOf(r.by.info.Call.Name) == ofStarted
}

// isOver reports whether the call has returned.
func (c *callContext) isOver() bool { return c.progress.Load() == progressOver }

// awaitNews waits until a task rests, or asks its parent, after the status.
func (m *TaskManager) awaitNews(ctx context.Context, s TaskStatus) {
	if m.waitsForItself(ctx, s.ID) {
		return
	}
	for e, err := range m.exec.events(ctx, s.ID, s.Seq) {
		switch {
		case err != nil, e.Type == EventQuestion && e.Question.AsksParent:
			return
		case e.TaskStatus != nil && e.TaskStatus.State.AtRest():
			_, _ = m.Wait(ctx, s.ID) // until its events have been handled
			return
		}
	}
}
