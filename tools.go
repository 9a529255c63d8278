package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/jobtrack"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/toolschema"
)

// Tool is something a model can call. [NewTool] makes one from a typed
// function, and [RegisterTool] one from a function that takes a map.
type Tool struct {
	Name        string // letters, digits, "_" and "-", at most 64
	Description string // tells the model what the tool does and when to use it; at most 1,024 characters
	// Parameters is a JSON Schema of type object; nil means no parameters.
	// Arguments are checked against it. The model gets it in a form that every
	// provider accepts, with bounds and formats moved into the descriptions. A
	// schema that has no such form is an error. The model is asked to give objects
	// with arbitrary names, values of any type, and what contains itself below the
	// third level, as JSON text in a string; Run gets them parsed. An optional
	// property that a model gives as null is left out.
	Parameters json.RawMessage
	// Unchecked says that the tool checks its arguments itself, as one of a server
	// does: Run gets any JSON object.
	Unchecked bool

	// Run executes the tool. args is a JSON object that satisfies Parameters. An
	// error, or a panic, becomes the call's result for the model to read. ctx
	// ends at the limits of the run.
	Run func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error)

	// Title and Kind are for people: what the tool is called, and what sort of
	// thing it does. The defaults are Name and ToolOther.
	Title string
	Kind  ToolKind
	// Describe says what a call does. It gets arguments that satisfy Parameters,
	// must be quick, and may be called by several goroutines. The default is the
	// name with the argument "path", or else with the beginning of the arguments, as
	// key=value.
	Describe func(args json.RawMessage) CallDescription

	// Needs reports whether the tool can work in a runtime; nil means in every
	// one. Where it cannot, it is neither offered to the model nor run. It must
	// give the same answer each time.
	Needs func(rt Runtime) bool

	// Unoffered says for people why the tool is neither offered to the model nor run,
	// such as "there are no skills"; empty if it is.
	Unoffered string

	// NeedsApproval has the agent's [ApprovalFunc] decide about every call.
	NeedsApproval bool
	// RunsCommands says that the tool runs commands in the runtime: its calls need
	// approval wherever those of bash do.
	RunsCommands bool
	// ReadOnly says that the tool changes nothing. By default an [ApprovalFunc]
	// is not asked about its calls. Calls of such tools that stand beside each other
	// in a message run at the same time, so Run must allow that.
	ReadOnly bool
	// Idempotent says that running a call twice does no harm, so that it can
	// be repeated when a run is resumed.
	Idempotent bool

	err    error // why NewTool could not make it
	schema *toolschema.Schema
	// polls marks a tool that is meant to be called repeatedly with the same
	// arguments, such as one that asks for a status.
	polls      bool
	delegation delegation
	ends       bool // its only effect is to end the run
	// takesValue marks the tool of a run that ends with a value.
	takesValue bool
	// fit returns the tool as it can work in a runtime; nil means as it is.
	fit        func(t Tool, rt Runtime) Tool
	identities []string // of a built-in tool, in any runtime
}

// ToolKind is what sort of thing a tool does.
type ToolKind string

// The kinds of tools.
const (
	ToolRead   ToolKind = "read"   // looks at files
	ToolEdit   ToolKind = "edit"   // changes files
	ToolRun    ToolKind = "run"    // runs programs
	ToolSearch ToolKind = "search" // looks for something
	ToolOther  ToolKind = "other"
)

// CallDescription says what a call of a tool does.
type CallDescription struct {
	Title string   // in a line, such as "read a.txt"; at most 4 KiB are shown
	Paths []string // the files that it concerns, relative to the workspace; at most 100
}

// ToolInfo describes a tool, and a call of it, to people.
type ToolInfo struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"` // what the model is told
	Title       string   `json:"title"`                 // of the tool
	Kind        ToolKind `json:"kind"`
	ReadOnly    bool     `json:"read_only,omitempty"`
	Summary     string   `json:"summary"`         // what the call does, in a line
	Paths       []string `json:"paths,omitempty"` // the files that the call concerns
}

// ToolResult is the result of a tool call. The model sees Content, Images and Files;
// Display, if set, is shown to people instead.
type ToolResult struct {
	Content string `json:"content"`
	Display string `json:"display,omitempty"` // a shorter or richer rendering for people
	// Images are https or data URLs. A model is shown at most 8 images of a result,
	// of 5 MiB each, and 6 MiB of all results of one answer; Content then says
	// which were left out. Later requests lack images that are not among the last
	// ones: see [chat.History.Conversation].
	Images []string `json:"images,omitempty"`
	// Files are PDF files and recordings, as [chat.FilePart] makes them, which a model is
	// shown within the same bounds. Those that are images or texts become Images
	// and Content.
	Files        []Part          `json:"files,omitempty"`
	Value        json.RawMessage `json:"value,omitempty"`         // the result as JSON, for programs; the model sees Content
	ValueOmitted bool            `json:"value_omitted,omitempty"` // Value has more than 1 MiB; only middleware got it
	// Locations are the places that the result is about, for faces to open.
	Locations []Location `json:"locations,omitempty"`
	IsError   bool       `json:"is_error,omitempty"`

	// End ends the run: with StatusStopped and Summary, or with
	// StatusAwaitingUser and Question. Later calls in the same message are
	// skipped; of several that ran at the same time, only the first ends the run.
	End      Status    `json:"end,omitempty"`
	Summary  string    `json:"summary,omitempty"`
	Question *Question `json:"question,omitempty"`

	// Outcome says how the call ended. The agent sets it. A tool may only set
	// [OutcomeFailed], for a call that is no error but has failed its purpose.
	Outcome Outcome `json:"outcome,omitempty"`

	Bash    *BashResult  `json:"bash,omitempty"`    // what a command did, of the tool bash
	Changes []FileChange `json:"changes,omitempty"` // the files that the call changed, as far as its tool tells

	// take stores the value that the call gave in a typed run; nil for none.
	take func()
	// compared is what identifies equal results, if Content has parts that
	// differ each time; empty means Content itself.
	compared string
}

// Location is a place in a file of the workspace.
type Location struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`     // from 1; 0 for the file as a whole
	EndLine int    `json:"end_line,omitempty"` // the last line; 0 if it is Line
}

// ToolFunc is a tool that takes its arguments as a map, as decoded from JSON:
// numbers are float64, objects map[string]any.
type ToolFunc func(ctx context.Context, rt Runtime, args map[string]any) (string, error)

// NewTool makes a tool from a function whose arguments are the struct In. The
// schema is derived from In: fields are named by their json tags, described by
// their jsonschema tags, and required unless tagged omitempty or omitzero.
// Arguments are validated before fn is called. The model gives a []byte as
// base64, and a map, an any or a [json.RawMessage] as JSON text. A type T with a
// method Enum() []T has only the values that the method returns. Structs may
// contain themselves.
//
// Out says what the model gets: a string as it is, a [ToolResult] or a pointer
// to one with all that it holds, and any other value as JSON text, with the
// value in [ToolResult.Value] too. Each function in adjust may set further
// fields of the tool:
//
//	type in struct {
//		City string `json:"city" jsonschema:"the city to look up"`
//	}
//	weather := pygent.NewTool("weather", "Tell the weather",
//		func(ctx context.Context, rt pygent.Runtime, in in) (string, error) { … },
//		func(t *pygent.Tool) { t.ReadOnly = true })
//	agent, err := pygent.New(pygent.WithTools(weather))
//
// What is wrong with the tool, an invalid name for example, is an error where
// the tool is used: of [New], or of [Registry.Add]. [Tool.Check] tells it
// alone.
func NewTool[In, Out any](name, description string, fn func(ctx context.Context, rt Runtime, in In) (Out, error), adjust ...func(*Tool)) Tool {
	t := Tool{Name: name, Description: description}
	var err error
	if t.Parameters, err = toolschema.For(reflect.TypeFor[In]()); err != nil {
		t.err = fmt.Errorf("derive the schema: %w", err)
	}
	switch fn := any(fn).(type) {
	case func(context.Context, Runtime, In) (string, error):
		t.Run = typedRun(fn, textResult)
	case func(context.Context, Runtime, In) (*ToolResult, error):
		t.Run = typedRun(fn, func(r *ToolResult) (*ToolResult, error) { return r, nil })
	case func(context.Context, Runtime, In) (Out, error):
		t.Run = typedRun(fn, anyResult[Out])
	}
	if fn == nil {
		t.err = errNoFunction
	}
	for _, set := range adjust {
		if set != nil {
			set(&t)
		}
	}
	return t
}

// typedRun returns the Run of a tool whose function takes an In. give makes the
// result of what that function returns.
func typedRun[In, Out any](fn func(context.Context, Runtime, In) (Out, error), give func(Out) (*ToolResult, error)) func(context.Context, Runtime, json.RawMessage) (*ToolResult, error) {
	return func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		out, err := fn(ctx, rt, in)
		if err != nil {
			return nil, err
		}
		return give(out)
	}
}

func textResult(text string) (*ToolResult, error) { return &ToolResult{Content: text}, nil }

// anyResult makes the result of a value that is none yet and no text.
func anyResult[Out any](out Out) (*ToolResult, error) {
	switch out := any(out).(type) {
	case ToolResult:
		return &out, nil
	case *ToolResult:
		return out, nil
	case string:
		return textResult(out)
	}
	value, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	text, err := jsonobj.Encode(out) // without the escapes for HTML
	return &ToolResult{Content: string(text), Value: value}, err
}

// toolFromFunc makes a tool from a function that takes a map. parameters is a
// JSON Schema: a json.RawMessage, or any value that encodes to one.
func toolFromFunc(name, description string, parameters any, fn ToolFunc) Tool {
	t := Tool{Name: name, Description: description}
	if parameters != nil {
		var err error
		if t.Parameters, err = json.Marshal(parameters); err != nil {
			t.err = fmt.Errorf("encode the parameters: %w", err)
		}
	}
	t.Run = typedRun(fn, textResult)
	if fn == nil {
		t.err = errNoFunction
	}
	return t
}

var errNoFunction = errors.New("the function is nil")

// Limits that providers set.
const (
	maxDescription = 1024 // characters of a tool's description
	maxTools       = 128  // in a request
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Check returns what is wrong with the tool: with its name, its description or
// its schema. Whoever registers the tool gets the same error.
func (t Tool) Check() error {
	_, err := t.checked()
	return err
}

// checked returns the tool with its schema prepared.
func (t Tool) checked() (Tool, error) {
	if !toolName.MatchString(t.Name) {
		return Tool{}, fmt.Errorf("tool %q: a name has 1 to 64 letters, digits, _ or -", t.Name)
	}
	if t.err != nil {
		return Tool{}, fmt.Errorf("tool %s: %w", t.Name, t.err)
	}
	if n := utf8.RuneCountInString(t.Description); n > maxDescription {
		return Tool{}, fmt.Errorf("tool %s: the description has %d characters, and providers take at most %d", t.Name, n, maxDescription)
	}
	if t.Run == nil {
		return Tool{}, fmt.Errorf("tool %s: Run is nil", t.Name)
	}
	if len(t.Parameters) == 0 || bytes.Equal(t.Parameters, []byte("null")) {
		t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	parse := toolschema.Parse
	if t.Unchecked {
		parse = toolschema.ParseUnchecked
	}
	schema, err := parse(t.Parameters)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: %w", t.Name, err)
	}
	t.schema = schema
	return t, nil
}

// on returns the tool as it can work in a runtime. ok is false if it cannot.
func (t Tool) on(rt Runtime) (_ Tool, ok bool) {
	if t.Needs != nil && !meets(rt, t.Needs) {
		return t, false
	}
	if t.fit != nil {
		t = t.fit(t, rt)
	}
	return t, true
}

// meets reports whether a runtime has what a tool needs. A panic means no.
func meets(rt Runtime, needs func(Runtime) bool) bool {
	can, err := safecall.Catch(func() (bool, error) { return needs(rt), nil })
	return err == nil && can
}

// info describes the tool and a call of it, which its own Describe described
// as said.
func (t Tool) info(call ToolCall, said CallDescription) *ToolInfo {
	info := &ToolInfo{
		Name: call.Name, Description: t.Description, Title: cmp.Or(t.Title, call.Name), Kind: cmp.Or(t.Kind, ToolOther), ReadOnly: t.ReadOnly,
	}
	info.Summary, info.Paths = callsummary.Bound(said.Title, said.Paths)
	if info.Summary == "" {
		info.Summary, info.Paths = callsummary.Of(call.Name, call.Arguments)
	}
	return info
}

// summaryOf says in a line what the call of an event does.
func summaryOf(e Event) string {
	if e.Tool != nil && e.Tool.Summary != "" {
		return e.Tool.Summary
	}
	summary, _ := callsummary.Of(e.Call.Name, e.Call.Arguments)
	return summary
}

// call runs the tool with checked arguments. A panic of the tool becomes an
// error. The result is a copy, because a tool may return the same value each
// time.
func (t Tool) call(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
	result, err := safecall.Catch(func() (*ToolResult, error) { return t.Run(ctx, rt, args) })
	if err != nil {
		failed := &ToolError{Tool: t.Name, Err: err}
		if p, ok := err.(*safecall.PanicError); ok {
			failed.Stack = p.Stack
		}
		return nil, failed
	}
	if result == nil {
		return &ToolResult{Outcome: OutcomeOK}, nil
	}
	own := *result
	own.Outcome = own.outcome()
	return &own, nil
}

// errorResult renders an error as the result of a call.
func errorResult(err error) *ToolResult {
	var te *ToolError
	if errors.As(err, &te) {
		err = te.Err
	}
	return &ToolResult{Content: "error: " + err.Error(), IsError: true, Outcome: OutcomeFailed}
}

type bashInput struct {
	bashCommand
	Background bool `json:"background,omitempty" jsonschema:"do not wait: return a job id for job_output and job_kill; without a time limit unless timeout is given. A command without timeout becomes such a job after 120 seconds"`
}

// bashCommand is the part of bash that every runtime can serve.
type bashCommand struct {
	Cmd     string  `json:"cmd" jsonschema:"the command, or a whole script"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"time limit in seconds, at most 600; default 120"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"directory to run in, relative to the workspace"`
}

// endsBefore is how long before the end of its step or run a command is ended, so
// that its result can still be given.
const endsBefore = 2 * time.Second

// errStepEnds is why a command was ended before its own limit.
var errStepEnds = errors.New("it was ended because the time of its step, or of the run, is almost over; run what takes long with background")

func runBash(ctx context.Context, rt Runtime, in bashInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Cmd) == "" {
		return nil, errors.New("cmd is empty")
	}
	if in.Timeout < 0 {
		return nil, errors.New("timeout must not be negative")
	}
	timeout := min(secondsOf(in.Timeout), MaxBashTimeout)
	if in.Background {
		return startJob(ctx, rt, in.Cmd, BashTimeout(timeout), BashDir(in.Cwd))
	}
	opts := []BashOption{BashTimeout(cmp.Or(timeout, BashToolTimeout)), BashDir(in.Cwd), BashRaw()}
	if timeout == 0 && canReadJobs(ctx, rt) {
		opts = append(opts, BashGoesOn())
	}
	limited, cancel := safecall.Before(ctx, endsBefore, errStepEnds)
	defer cancel()
	r, err := rt.Bash(limited, in.Cmd, withLiveOutput(limited, opts...)...)
	noTime := err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errStepEnds)
	if err != nil && r.Output == "" && !noTime {
		return nil, err
	}
	r.Command = in.Cmd
	followJob(ctx, r.Job, in.Cmd, max(r.Printed-int64(openEnd(r)), 0))
	result := bashResult(r)
	if secondsOf(in.Timeout) > MaxBashTimeout {
		result.addLine(fmt.Sprintf("[the timeout was cut to %g seconds, the most there is; use background for longer work]", MaxBashTimeout.Seconds()))
	}
	switch {
	case noTime:
		result.addLine("[did not finish: " + errStepEnds.Error() + "]")
		result.IsError = true
	case err != nil:
		result.addLine(fmt.Sprintf("[did not finish: %v]", err))
		result.IsError = true
	}
	return result, nil
}

// bashResult describes how a command ended. The model is shown the output as it
// looks in the end, programs get it as it was printed.
func bashResult(r BashResult) *ToolResult {
	shown, whole := r, r
	shown.Output = cut.Middle(plain.Clean(r.Output[:len(r.Output)-openEnd(r)]), maxToolResult)
	whole.Output = strings.ToValidUTF8(r.Output, string(utf8.RuneError))
	compared := shown
	compared.FullPath, compared.Duration, compared.Job = "", 0, ""
	result := &ToolResult{Bash: &whole, compared: compared.Text()}
	if len(r.Command) > shownCommand {
		result.Display = shown.Text()
		shown.Command = cut.Head(r.Command, shownCommand) + " …"
	}
	result.Content = shown.Text()
	if (r.ExitCode != 0 || r.TimedOut) && !r.GoesOn {
		result.Outcome = OutcomeFailed
	}
	return result
}

// openEnd returns how many bytes at the end of the output belong to a character or
// an escape sequence of which the job prints the rest.
func openEnd(r BashResult) int {
	if !r.GoesOn {
		return 0
	}
	return plain.Open(r.Output)
}

// addLine adds a line to what is shown of a result.
func (r *ToolResult) addLine(line string) {
	r.Content = strings.TrimSuffix(r.Content, "\n") + "\n" + line
	if r.Display != "" {
		r.Display = strings.TrimSuffix(r.Display, "\n") + "\n" + line
	}
}

// commandIn returns the command of a bash call; ok is false for other calls.
func commandIn(call ToolCall) (in bashInput, ok bool) {
	ok = call.Name == "bash" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in, ok
}

// jobRunner returns the runtime as a [JobRunner], or an error if it is none.
func jobRunner(rt Runtime) (JobRunner, error) {
	j, ok := RuntimeAs[JobRunner](rt)
	if !ok {
		return nil, errors.New("this runtime cannot run commands in the background")
	}
	return j, nil
}

// canReadJobs reports whether the model of a call can follow a job of the runtime.
func canReadJobs(ctx context.Context, rt Runtime) bool {
	if call := toolCallOf(ctx); call != nil {
		if _, err := call.agent.tools.lookup("job_output", rt); err != nil {
			return false
		}
	}
	return hasJobs(rt)
}

func startJob(ctx context.Context, rt Runtime, cmd string, opts ...BashOption) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	job, err := runner.StartJob(ctx, cmd, opts...)
	if err != nil {
		return nil, err
	}
	followJob(ctx, job.ID, cmd, 0)
	return &ToolResult{Content: jobtrack.Started(job.ID), Display: "started job " + job.ID}, nil
}

type jobOutputInput struct {
	ID     string  `json:"id" jsonschema:"the job's id"`
	Until  string  `json:"until,omitempty" jsonschema:"wait until it prints this text"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"seconds to wait for until or the job's end, at most 600; default 0, or 60 with until"`
	Tail   int     `json:"tail,omitempty" jsonschema:"show only so many last lines, older ones too"`
	Offset *int64  `json:"offset,omitempty" jsonschema:"begin at this byte instead"`
}

// jobIn returns the job that a call of job_output reads.
func jobIn(call readCall) (id string, reads bool) {
	var in jobOutputInput
	reads = call.Name == "job_output" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in.ID, reads
}

// defaultUntilWait is how long a text is waited for.
const defaultUntilWait = 60 * time.Second

func jobOutput(ctx context.Context, rt Runtime, in jobOutputInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	switch {
	case err != nil:
		return nil, err
	case in.Wait < 0 || in.Tail < 0 || in.Offset != nil && *in.Offset < 0:
		return nil, errors.New("wait, tail and offset must not be negative")
	case len(in.Until) > jobtrack.MaxUntil:
		return nil, fmt.Errorf("until is longer than %d bytes", jobtrack.MaxUntil)
	}
	in.ID = knownJobs(ctx).Meant(in.ID)
	known, _ := knownJobs(ctx).Job(in.ID)
	read := jobtrack.Reader{Until: in.Until, At: known.Read, From: func(ctx context.Context, at int64, wait time.Duration) (jobtrack.Output, error) {
		out, err := runner.JobOutput(ctx, in.ID, at, wait)
		return jobtrack.Output{Text: out.Text, Next: out.Next, Skipped: out.Skipped, State: jobtrack.State(out.Job)}, err
	}}
	if in.Offset != nil {
		read.At = *in.Offset
	}
	wait := min(secondsOf(in.Wait), maxJobWait)
	if wait == 0 && in.Until != "" {
		wait = defaultUntilWait
	}
	limited, cancel := safecall.Before(ctx, endsBefore, errStepEnds)
	defer cancel()
	if err := read.Begin(limited, in.Tail > 0); err != nil {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	err = read.Follow(limited, wait)
	read.Early = err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errStepEnds)
	if err != nil && !read.Early {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	knownJobs(ctx).Read(in.ID, read.At)
	sawJob(ctx, Job(read.State))
	return &ToolResult{Content: read.Describe(in.Tail, wait, maxToolResult-shownCommand)}, nil
}

// nameJobs adds to the error about an unknown job which ones there are.
func nameJobs(ctx context.Context, runner JobRunner, id string, err error) error {
	if !errors.Is(err, ErrUnknownJob) {
		return err
	}
	if known, ok := knownJobs(ctx).Job(id); ok && known.Gone {
		err = fmt.Errorf("%w: %s", ErrUnknownJob, strings.Trim(known.Lost(), "[]"))
	}
	jobs, listErr := runner.Jobs(ctx)
	if listErr != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("%w; there are no jobs", err)
	}
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return fmt.Errorf("%w; the jobs are: %s", err, cut.Head(strings.Join(ids, ", "), shownCommand))
}

type jobListInput struct{}

func jobList(ctx context.Context, rt Runtime, _ jobListInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	jobs, err := runner.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return &ToolResult{Content: "no jobs"}, nil
	}
	var lines []string
	for _, j := range jobs {
		sawJob(ctx, j)
		lines = append(lines, j.String())
	}
	return &ToolResult{Content: strings.Join(lines, "\n")}, nil
}

type jobKillInput struct {
	ID string `json:"id" jsonschema:"the job's id"`
}

func jobKill(ctx context.Context, rt Runtime, in jobKillInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	in.ID = knownJobs(ctx).Meant(in.ID)
	job, err := runner.KillJob(ctx, in.ID)
	if err != nil {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	sawJob(ctx, job)
	return &ToolResult{Content: job.String()}, nil
}
