package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/cycle"
	"github.com/x/pygent/internal/guard"
)

// What the loop says to a model, besides the results of tools.
const (
	sayGoOn      = "Go on. Call stop when the work is done, or continue to ask the user."
	sayEmpty     = "Your last answer was empty. Call a tool, or say what you need."
	sayTruncated = "Your last answer was cut off by the token limit. Go on in smaller pieces."
	sayStepsLeft = "[%d more steps are possible in this run: finish what matters most, then end it.]"
	sayStepLeft  = "[One more step is possible in this run: end it now, and say what is done and what is open.]"
	sayEndsHere  = "[The run ends here: "
	saySumUp     = sayEndsHere + "%s, and no tool is run any more. Answer in text now, without calling a tool. Sum up for the user what is done, what was checked and what is open.]"

	notStopped = "not stopped: "
	sayNotDone = notStopped + "%s. See to it, or call stop again to stop all the same"
)

// stepsTold is how many steps before its limit a model is told of it.
const stepsTold = 3

// nudge appends what the model has to hear before it is asked again: that tasks
// ended, and what to do after an answer that called no tool.
func (r *run) nudge() error {
	say := ""
	switch {
	case r.empty:
		say = sayEmpty
	case r.truncated && r.replies > 0:
		say = sayTruncated
	case r.replies > 0:
		say = sayGoOn
	}
	if say != "" {
		say = joinLines(say, r.limitNote())
	}
	for _, text := range []string{r.agent.notices.take(), say} {
		if text == "" {
			continue
		}
		if err := r.record(UserMessage(text)); err != nil {
			return err
		}
	}
	return nil
}

// limitNote is what the model has to hear of the limit of steps: how many are
// left, or that it is asked to sum up. It is empty while there are many.
//
// After calls it is a line of the last result, since some providers refuse a
// message of the user right after results.
func (r *run) limitNote() string {
	left := r.opts.MaxSteps - r.result.Steps
	switch {
	case !r.sumsUp():
		return ""
	case r.result.Status == StatusMaxToolCalls:
		return r.sayLast(r.toolCallLimit())
	case r.result.Status != "" || left > stepsTold:
		return ""
	case left == 0:
		return r.sayLast(r.stepLimit())
	case left == 1:
		return sayStepLeft
	}
	return fmt.Sprintf(sayStepsLeft, left)
}

func (r *run) sayLast(limit string) string {
	r.toldLast = true
	return fmt.Sprintf(saySumUp, limit)
}

func (r *run) stepLimit() string {
	return fmt.Sprintf("the limit of %d steps is reached", r.opts.MaxSteps)
}

func (r *run) toolCallLimit() string {
	return fmt.Sprintf("the limit of %d tool calls is reached", r.opts.MaxToolCalls)
}

// spent is how many tokens the run and its tasks have used, and those set aside
// for tasks at work.
func (r *run) spent() int64 { return r.budget.Limit() - r.budget.Left() }

// budgetSpent reports whether the run has used up its tokens.
func (r *run) budgetSpent() bool { return r.opts.MaxTokens > 0 && r.spent() >= r.opts.MaxTokens }

// sumsUp reports whether the run is one that lets the model sum up at a limit.
// A run of one step is a pass of the caller's own loop.
func (r *run) sumsUp() bool { return r.opts.MaxSteps > 1 }

// sumUp gives the model one last call when the run ended at its limit of steps or
// tool calls, so that the user learns how far it came. It changes neither the
// status nor the error of the run, and does not begin past another limit.
//
// The request still has the tools, and calls are refused: Anthropic's API and
// Bedrock refuse a conversation with tool calls in it without tools, and a change
// of the tools would cost the provider's cache of the whole conversation.
func (r *run) sumUp(ctx context.Context) {
	limited := r.result.Status == StatusMaxSteps || r.result.Status == StatusMaxToolCalls
	replied := r.replies > 0 && !r.truncated && !r.empty // the last reply is the summary
	if !limited || !r.sumsUp() || replied || ctx.Err() != nil || r.budgetSpent() {
		return
	}
	ctx, done := r.beginStep(ctx)
	defer done()
	if err := r.askForSummary(ctx); err != nil {
		r.agent.log.Warn("the model did not sum up", "error", err)
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the model did not sum up: " + err.Error()})
	}
}

func (r *run) askForSummary(ctx context.Context) error {
	if !r.toldLast {
		if err := r.record(UserMessage(fmt.Sprintf(saySumUp, r.result.Reason))); err != nil {
			return err
		}
	}
	resp, err := r.ask(ctx)
	if err != nil {
		return err
	}
	if isEmpty(resp.Message) {
		return errors.New("its answer was empty")
	}
	r.replies, r.truncated = 0, false
	if err := r.tookMessage(resp); err != nil {
		return err
	}
	return r.refuseCalls(resp.Message.ToolCalls)
}

// refuseCalls answers the calls of an answer that was to sum up. A summary that
// the model gives by calling stop is taken all the same.
func (r *run) refuseCalls(calls []ToolCall) error {
	for _, call := range calls {
		if summary := stopSummary(call); summary != "" {
			r.result.Summary = summary
		}
		if err := r.skip(call, resultLast, ""); err != nil {
			return err
		}
	}
	return nil
}

// stopSummary returns what a call of stop gives as the summary, if it is one.
func stopSummary(call ToolCall) string {
	var in stopInput
	if call.Name != "stop" || json.Unmarshal([]byte(call.Arguments), &in) != nil {
		return ""
	}
	return strings.TrimSpace(in.Summary)
}

// openWithin bounds how long a run looks for what is open before it stops.
const openWithin = 3 * time.Second

// checkStop refuses a stop, once in a run, when a call of the same answer failed,
// or when tasks or jobs are at work still: the model may not know.
func (r *run) checkStop(ctx context.Context, result *ToolResult, failed []string) *ToolResult {
	if result.End != StatusStopped || r.stopRefused || ctx.Err() != nil {
		return result
	}
	var open []string
	if len(failed) > 0 {
		open = append(open, "in the same answer "+counted(failed)+" failed")
	}
	open = append(open, r.openTasks(ctx)...)
	open = append(open, r.openJobs(ctx)...)
	if len(open) == 0 {
		return result
	}
	r.stopRefused = true
	return &ToolResult{Content: fmt.Sprintf(sayNotDone, strings.Join(open, "; ")), IsError: true}
}

// counted lists names, each once, with how often it stands there.
func counted(names []string) string {
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	var list []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if count[name] > 1 {
			name = fmt.Sprintf("%s (%d times)", name, count[name])
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// openTasks names the delegated tasks that are at work.
func (r *run) openTasks(ctx context.Context) []string {
	tasks, err := r.agent.openTasks(ctx)
	if err != nil {
		r.agent.log.Warn("open tasks are not known", "error", err)
	}
	var open []string
	for _, t := range tasks {
		open = append(open, fmt.Sprintf("task %s is %s", t.ID, t.State))
	}
	return open
}

// openJobs names the background jobs that run. A runtime in which no command ran
// is not asked: that could start it.
func (r *run) openJobs(ctx context.Context) []string {
	jobs, ok := r.agent.runtime.(JobRunner)
	if !ok || !r.agent.ranCommands.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	all, err := guard.Outlive(ctx, func() ([]Job, error) { return jobs.Jobs(ctx) })
	if err != nil {
		r.agent.log.Warn("background jobs are not known", "error", err)
	}
	var open []string
	for _, job := range all {
		if job.Running {
			open = append(open, fmt.Sprintf("job %s runs: %s", job.ID, cut.Head(job.Command, 80)))
		}
	}
	return open
}

// noteCycle tells a model that goes round in circles, and in the end stops it.
func (r *run) noteCycle(call ToolCall, result *ToolResult) {
	last, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), result.IsError || result.failed)
	if !found {
		return
	}
	what := fmt.Sprintf("this is the same call with the same result, %d times in a row", last.Times)
	reason := fmt.Sprintf("%s gave the same result %d times in a row", call.Name, last.Times)
	if last.Calls > 1 {
		what = fmt.Sprintf("the last %d calls failed in the same way %d times in a row", last.Calls, last.Times)
		reason = what
	}
	result.Content += fmt.Sprintf("\n[%s; try something else]", what)
	if last.Times >= cycle.Stuck {
		r.end(StatusStuck, reason)
	}
}

// beginStep starts the clock of a step, which stands still while somebody is
// asked about a call.
func (r *run) beginStep(ctx context.Context) (_ context.Context, done func()) {
	if r.opts.StepTimeout <= 0 {
		return ctx, func() {}
	}
	step, cancel := r.agent.asking.WithTimeout(ctx, r.opts.StepTimeout, r.stepOver)
	r.patience = step.Done()
	return step, func() {
		if step.Err() == nil { // else the run ends with the step
			r.patience = ctx.Done()
		}
		cancel()
	}
}

// interrupted ends the run because ctx, or the context of its step, ended. A
// time limit of the run itself is a status; anything else is an error too. A run
// that had ended already stays as it is.
func (r *run) interrupted(ctx context.Context) error {
	if r.result.Status != "" {
		return nil
	}
	err := guard.ContextError(ctx)
	switch {
	case errors.Is(err, errHandler):
		return r.fail(err)
	case errors.Is(err, r.stepOver):
		r.end(StatusTimeout, fmt.Sprintf("the step took longer than %s", r.opts.StepTimeout))
		return nil
	case errors.Is(err, r.timeOver):
		r.end(StatusTimeout, fmt.Sprintf("the run took longer than %s", r.opts.MaxTime))
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		r.end(StatusTimeout, "the caller's deadline passed")
	default:
		r.end(StatusCancelled, err.Error())
	}
	return err
}

// joinLines puts a note on a line of its own after text.
func joinLines(text, note string) string {
	if note == "" {
		return text
	}
	return text + "\n" + note
}
