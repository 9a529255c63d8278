package pygent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/boundset"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/thought"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/stash"
	"github.com/x/pygent/internal/toolcall"
	"github.com/x/pygent/internal/toolcall/callset"
	"github.com/x/pygent/internal/toolschema"
)

// readCall is a call of the model as its tool gets it. The name is that of the
// tool, whatever the model called it, and the arguments are those that the tool
// gets, if they can be read. Everything that looks at a call, approvals and events
// for example, looks at this one; only the history has the model's own words.
type readCall struct {
	ToolCall
	tool    Tool  // zero if it is not known
	err     error // why the call cannot run
	version int64 // of the registry that it was read with
	index   int   // of the call in its message; those of calls that another stands for are beyond

	set      *callset.Set // the calls that it stands for; nil for itself
	together int          // how many, from this one on, are done together or not at all; 0 for this one
}

// read returns a call of the model as its tool gets it.
func (r *run) read(call ToolCall) readCall {
	c := readCall{ToolCall: call, version: r.agent.tools.currentVersion()}
	if c.tool, c.err = r.find(call); c.tool.Name != "" {
		c.Name = c.tool.Name
	}
	if c.err == nil {
		var args json.RawMessage
		if args, c.err = c.tool.read(call); c.err == nil && string(args) != call.Arguments {
			c.Arguments = string(args)
		}
	}
	if c.tool.Name == "" || c.tool.isBuiltin() && (c.tool.Name != "bash" && c.tool.Name != "write_file" || r.agent.tools.edits(r.agent.runtime)) {
		if set, err := callset.Of(c.tool.Name, call.Name, c.Arguments); set != nil || err != nil {
			c.set, c.err = set, err
		}
	}
	return c
}

// unfold puts the calls that a call stands for into its place, just before it runs: what they
// are may depend on what the calls before have changed.
func (r *run) unfold(ctx context.Context, calls []readCall, at int) []readCall {
	c := &calls[at]
	var note string
	set, rt := c.set, r.agent.runtime
	within := stash.Place{Workspace: func(ctx context.Context) string {
		if d, ok := RuntimeAs[Describer](rt); ok {
			return d.Describe(ctx).Workspace
		}
		return ""
	}}
	describe, list := lookAt(ctx, rt)
	planned, err := callForeign(ctx, r, "the runtime", func() (planned []callset.Call, err error) {
		planned, note, err = set.Calls(callset.Files{
			Locate: func(name string) (string, error) {
				name, err := readPath(ctx, rt, name)
				if rel, outside := within.Rel(ctx, name); outside == nil {
					name = rel
				}
				return name, err
			},
			Read: func(name string) ([]byte, error) { return rt.ReadFile(ctx, name) },
			Stat: describe, Names: list,
		})
		return planned, err
	})
	if err != nil {
		c.err = err
		return calls
	}
	parts := make([]readCall, len(planned))
	for n, p := range planned {
		parts[n] = r.read(ToolCall{ID: r.joint.ID(c.ID, n, len(planned)), Name: p.Name, Arguments: p.Arguments})
		parts[n].index = callset.Index(c.index, n)
		if set.Together {
			parts[n].set, parts[n].together = nil, len(planned)-n
		}
	}
	r.joint.Join(len(parts), note)
	return slices.Replace(calls, at, at+1, parts...)
}

// locate puts the files that the paths of a call mean into its arguments, before
// anybody decides about it. A path that cannot be meant is an error of the call.
func (r *run) locate(ctx context.Context, call *readCall) {
	if call.err != nil || !call.tool.isBuiltin() {
		return
	}
	call.Arguments, call.err = pathname.InCall(call.Name, call.Arguments, func(given string) (string, error) {
		return callForeign(ctx, r, "the runtime", func() (string, error) { return readPath(ctx, r.agent.runtime, given) })
	})
}

// readPath returns the path of the workspace that is meant by a given one.
func readPath(ctx context.Context, rt Runtime, given string) (string, error) {
	if pathname.IsPlain(given) {
		return given, nil
	}
	var info RuntimeInfo
	if d, ok := RuntimeAs[Describer](rt); ok {
		info = d.Describe(ctx)
	}
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok {
		lister = bareLister{rt}
	}
	return pathname.Workspace(ctx, lister, func(f FileInfo) pathname.Info { return pathname.Info(f) }, info.Kind == kindLocal, info.Workspace, info.HostDir).Read(given)
}

// bareLister knows of the files of a runtime only whether they can be read.
type bareLister struct{ rt Runtime }

func (b bareLister) StatFile(ctx context.Context, path string) (f FileInfo, err error) {
	_, _, err = readRange(ctx, b.rt, path, 0, 1)
	return f, err
}

func (bareLister) ListFiles(context.Context, string, int, int) (files []FileInfo, more bool, err error) {
	return nil, false, nil
}

// readAll is read for the calls of a message.
func (r *run) readAll(calls []ToolCall) []readCall {
	read := make([]readCall, len(calls))
	for i, call := range calls {
		read[i] = r.read(call)
		read[i].index = i
	}
	return read
}

// find returns the tool that a call means. A tool that cannot be used is returned
// with an error, and an unknown one is zero. In a run that ends with a value, the
// names by which other agents end their work mean the tool that takes it.
func (r *run) find(call ToolCall) (Tool, error) {
	if f := r.opts.final; f != nil && call.Name != "stop" {
		name := r.agent.tools.nameFor(call)
		if call.Name == f.name() || toolcall.Ends(call.Name) && (name == "" || name == "stop" && !r.agent.tools.has(call.Name)) {
			return f.tool, nil
		}
	}
	return r.agent.tools.find(call, r.agent.runtime)
}

// read returns the arguments of a call as the tool gets them. Only a built-in
// tool's are translated from the words of other agents' tools, since we know
// what they mean.
func (t Tool) read(call ToolCall) (json.RawMessage, error) {
	own := call.Name == t.Name
	if own {
		if args, err := t.schema.Arguments(call.Arguments); err == nil {
			return args, nil
		}
	}
	var words toolschema.Dialect
	switch {
	case t.takesValue:
		words = toolcall.Value
	case t.isBuiltin():
		words = toolcall.Translator(t.Name, call.Name)
	}
	if own || toolcall.Fold(toolcall.Bare(call.Name)) == toolcall.Fold(t.Name) {
		return t.schema.Read(call.Arguments, words)
	}
	return t.schema.ReadAs(call.Arguments, words)
}

// find returns the tool that a call means, as it can work in a runtime. One that
// cannot be used is returned with an error.
func (r *Registry) find(call ToolCall, rt Runtime) (Tool, error) {
	name := r.nameFor(call)
	switch {
	case name == "" && toolcall.IsNote(call.Name):
		noted := noteTool()
		noted.Name = toolcall.Legal(call.Name)
		return noted, nil
	case name == "":
		return Tool{}, r.unknown(call.Name, rt)
	}
	t, err := r.lookup(name, rt)
	t.Name = name
	if err != nil && name != call.Name {
		err = fmt.Errorf("%w: %s means %s here", err, cut.Head(toolcall.Bare(call.Name), shownName), name)
	}
	return t, err
}

// noteTool is the tool for calls of other agents' tools in which a model only thinks or keeps
// a list of what to do.
var noteTool = sync.OnceValue(func() Tool {
	t, err := Tool{
		Name: "note", Parameters: json.RawMessage(`{"type":"object"}`), ReadOnly: true, Idempotent: true,
		Run: func(context.Context, Runtime, json.RawMessage) (*ToolResult, error) {
			return &ToolResult{Content: "noted"}, nil
		},
	}.checked()
	if err != nil {
		panic(err)
	}
	return t
})

// shownName is how much of an unknown name an error repeats, in bytes.
const shownName = 64

// nameFor returns the name of the tool that a call means, which may be disabled,
// or "". That is the tool of that very name, without what servers put around it,
// or the only one whose name is spelled alike, or the built-in tool that does what
// another agent's tool of that name does. A tool that somebody has put in
// the place of a built-in one may do something else.
func (r *Registry) nameFor(call ToolCall) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.knows(call.Name) {
		return call.Name
	}
	bare := toolcall.Bare(call.Name)
	if r.knows(bare) {
		return bare
	}
	if name, found := toolcall.Like(bare, maps.Keys(r.tools), maps.Keys(r.disabled)); found {
		return name
	}
	meant := toolcall.Tool(bare, call.Arguments)
	if meant != "" && (r.disabled[meant] || r.tools[meant].isBuiltin()) {
		return meant
	}
	return ""
}

// knows reports whether a tool is registered or disabled. The caller holds r.mu.
func (r *Registry) knows(name string) bool {
	_, ok := r.tools[name]
	return ok || r.disabled[name]
}

// edits reports whether the built-in tool edits files in a runtime.
func (r *Registry) edits(rt Runtime) bool {
	t, err := r.lookup("edit_file", rt)
	return err == nil && t.isBuiltin()
}

// has reports whether a tool of that very name is registered or disabled.
func (r *Registry) has(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.knows(name)
}

// needsParser says what to do about a server that leaves calls in the text.
const needsParser = "its server may need a chat template or parser for tool calls (vLLM: --enable-auto-tool-choice; llama.cpp: --jinja)"

// acceptWritten makes a call of one that the model wrote as text, if its server leaves
// calls there, and the answer can be nothing else: it ends with one complete call, of a
// tool that it fits, and which the model has not read anywhere. The message then has the
// call, as if the server had parsed it, and the text before it. Approvals and all else are
// those of any call, and if it may change something, the user is asked about it in any
// case. Where nobody can be asked, the model is told how to call, and such a call is taken
// only if the model then writes the same again: a model that repeats what it has read in a
// file does not insist on it.
func (r *run) acceptWritten(resp *ChatResponse, thoughts string) {
	before := r.withheld
	r.withheld = boundset.Key{}
	msg := &resp.Message
	parse, text, silent := toolcall.Parse, msg.Content, thought.IsNothing(msg.Content)
	if silent {
		parse, text = toolcall.ParseThoughts, thoughts
	}
	if len(msg.ToolCalls)+len(msg.Parts) > 0 || text == "" || resp.FinishReason == chat.FinishFilter {
		return
	}
	written, ok := parse(r.agent.model.current().leavesCalls(), text)
	if !ok {
		return
	}
	call := ToolCall{ID: fmt.Sprintf(writtenID+"%d", r.agent.history.Len()), Name: written.Name, Arguments: written.Arguments}
	read := r.read(call)
	if read.err != nil || r.wasRead(written) {
		return
	}
	if key := boundset.Of(read.Name, jsonobj.Sorted(read.Arguments)); !read.tool.ReadOnly && key != before && !r.agent.deciders.canAsk() {
		r.withheld = key
		return
	}
	if msg.ToolCalls = []ToolCall{call}; !silent {
		msg.Content = strings.TrimSpace(written.Before)
	}
	if !r.toldWritten {
		r.toldWritten = true
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: fmt.Sprintf("the model wrote a call of %s as text, which is treated as a call: %s", read.Name, needsParser)})
	}
}

// writtenID begins the id of a call that the model wrote as text.
const writtenID = "text_"

// leavesCalls reports whether the model's server may leave its calls in the text. A model
// of another package says so itself.
func (m agentModel) leavesCalls() bool {
	server, ok := m.given.(interface{ LeavesCalls(model string) bool })
	if !ok {
		return false
	}
	leaves, _ := safecall.Catch(func() (bool, error) { return server.LeavesCalls(m.name), nil }) // who panics has said nothing
	return leaves
}

// offers reports whether the model was given a tool of that very name.
func (r *run) offers(name string) bool {
	return slices.ContainsFunc(r.specs, func(s chat.ToolSpec) bool { return s.Name == name })
}

// wasRead reports whether the model has read a call in a result or in what the
// user said, so that its answer may only repeat it.
func (r *run) wasRead(written toolcall.Call) bool {
	all, err := r.agent.history.LoadAll()
	return err != nil || slices.ContainsFunc(all, func(e chat.HistoryEntry) bool {
		return e.Message.Role != chat.RoleAssistant && written.Quoted(e.Message.Text())
	})
}

// writtenIn returns the sign that a text has a call of a tool in it, which then has our name.
func (r *run) writtenIn(text string) toolcall.Sign {
	sign := toolcall.In(text, r.offers, func(name string) bool { return r.agent.tools.nameFor(ToolCall{Name: name}) != "" })
	if sign.Tool != "" {
		sign.Tool = r.read(ToolCall{Name: sign.Tool}).Name
	}
	return sign
}

// onlyWritten reports whether an answer is nothing but a call as text. It does not
// end a run the first time, nor while a call is withheld until the model writes it again:
// the model is told how to call.
func (r *run) onlyWritten() bool {
	withheld := r.withheld != boundset.Key{}
	return r.opts.maxReplies > 1 && (withheld || r.replies == 1 && r.written.Alone)
}

// putsOff reports whether a reply announces a step of the work that was asked for, and
// takes none. As a call in text, it does not end a run the first time.
func (r *run) putsOff() bool {
	return r.opts.maxReplies > 1 && r.replies == 1 && len(r.specs) > 0 && r.judge.PutsOff(r.result.Message.Text())
}
