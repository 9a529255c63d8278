package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/lines"
)

// runCmd works on one prompt, without a person.
type runCmd struct {
	Prompt []string `arg:"" optional:"" help:"What to do. Piped input is added to it; - waits for it."`
	Attach []string `help:"Attach a file to the prompt: text, a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 recording." placeholder:"FILE" sep:"none"`
	JSON   bool     `help:"Print events as JSON lines on standard output."`
	Quiet  bool     `help:"Show no progress, only warnings." short:"q"`
	goesOn
}

// Help lists the exit codes.
func (*runCmd) Help() string {
	var text strings.Builder
	text.WriteString(`The run ends when the model says that it is done, or answers in text after it
has worked. Standard output gets that answer or question, and nothing else.
Progress goes to standard error.

Exit codes:
`)
	for _, c := range exitCodes {
		printRow(&text, strconv.Itoa(c.Code), c.Meaning)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Run makes the run and ends with the exit code of its status.
func (r *runCmd) Run(ctx context.Context, s *settings, out *output) error {
	var kept keeping
	cfg, opts, err := s.options(ctx, func(cfg *pygent.Config) (err error) {
		if err = r.checkResumable(*cfg, nil); err == nil {
			kept, err = r.choose(ctx, cfg, s, r.Prompt)
		}
		return err
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	prompt, err := r.task(ctx)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	parts, err := attached(r.Attach)
	if err == nil {
		opts, err = s.goOn(ctx, cfg, opts, r.Quiet || r.JSON)
	}
	if err != nil {
		return asUsage(err)
	}
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	if cfg.Container.Docker == pygent.DockerAuto {
		// The user did not choose to run commands on this machine, and cannot be
		// asked.
		opts = append(opts, pygent.WithDocker(pygent.DockerRequired))
	}
	show, endShow := r.handler(out, abandon)
	defer endShow()
	seen := &follower{next: show, out: out, silent: r.JSON, together: !r.Quiet && !r.JSON && oneTerminal(), boxes: boxes{}}
	made, company := newWorkspace(cfg), kept.company(cfg)
	talks := !r.Quiet && !r.JSON
	making := ctx
	if talks {
		making = tellingOfEngine(ctx)
	}
	agent, err := kept.newAgent(making, nil, append(opts, pygent.OnEvent(seen.event)))
	if err != nil {
		return asUsage(s.nameOmitted(cfg, err))
	}
	defer kept.prune(ctx, cfg.SessionLimits)()
	ctx, stop := interruptible(ctx)
	defer stop()
	cleans, end := endAtSecondInterrupt(ctx, func() leftovers { return leftovers{seen.containers(), agent.UseDocker()} })
	defer end()
	if talks {
		s.scripts.tell()
		tellIf(made)
		tellIf(company())
		tellHistory(kept.name(cfg), agent)
		tellProtection(ctx, agent)
	}
	result, err := r.work(ctx, agent, prompt, parts)
	if talks {
		tellCost(cfg, agent)
		kept.tell(agent)
	}
	if talks && seen.hasWorked() {
		tellFiles(ctx, agent)
	}
	if refused := seen.refusedHosts(); refused != "" {
		warn(refused)
	}
	if cause := seen.startFailure(); cause != "" && result.NoCommand == "" && !errors.Is(err, pygent.ErrRuntimeStart) {
		warn("no command could have run: " + cause)
	}
	seen.conclude(result)
	cleans()
	return join(r.finish(result, err, out, kept.onward(cfg)), cleanUp(agent))
}

// oneTerminal reports whether standard output and standard error are both
// terminals. An answer that was shown as progress is then not printed again.
func oneTerminal() bool {
	return screen.Stdout().Terminal() && screen.Stderr().Terminal()
}

// follower passes on the events of a run, remembers what is needed at its end, and
// then prints the answer.
type follower struct {
	next     func(pygent.Event)
	out      *output // gets the answer
	silent   bool    // whether it gets none, since it gets the events
	together bool    // whether progress is shown where the answer is

	mu       sync.Mutex // guards what follows, since the runtime's events come from other goroutines
	words    string     // what the model has said since its last tool call, shown as progress
	answered []string   // what was printed
	worked   bool       // whether a tool has run
	failed   string     // why no container has started
	ran      bool       // whether one of the agent's own has
	boxes    boxes      // the containers
	hosts    hostLog    // the hosts that commands were refused
}

func (f *follower) event(e pygent.Event) {
	f.note(e)
	f.next(e)
}

// note remembers what is needed of an event.
func (f *follower) note(e pygent.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boxes.note(e)
	switch {
	case e.Type == pygent.EventRuntime && e.Runtime.Host != nil:
		f.hosts.note(*e.Runtime.Host)
	case e.Task != "": // the agent that delegated the task hears of it
	case e.Type == pygent.EventToolStart:
		f.worked = true
	case e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimeFailed:
		if !f.ran {
			f.failed = e.Text
		}
	case e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimeStarted:
		f.failed, f.ran = "", true
	case e.Type == pygent.EventMessage && strings.TrimSpace(e.Message.Text()) != "":
		f.words = strings.TrimSpace(e.Message.Text())
	case e.Type == pygent.EventToolCall && e.Call.Name != "stop" && e.Call.Name != "continue":
		f.words = ""
	}
}

// answer prints an answer, unless it was printed already, as the words are that are also
// the question, or has just been shown as progress in the same place.
func (f *follower) answer(text string) {
	text = strings.TrimSpace(text)
	f.mu.Lock()
	known := text == "" || slices.Contains(f.answered, text) || f.together && text == f.words
	f.answered = append(f.answered, text)
	f.mu.Unlock()
	if !known && !f.silent {
		f.out.println(text)
	}
}

// conclude prints the last words of the model: the answer, or its question with the words
// beside that. What it said before is progress, also where a run ended without an answer.
func (f *follower) conclude(result *pygent.Result) {
	switch result.Status {
	case pygent.StatusStopped, pygent.StatusReplied, pygent.StatusAwaitingUser, pygent.StatusMaxSteps, pygent.StatusMaxToolCalls:
	default:
		return
	}
	q := result.Question
	if q == nil || result.SummaryIsText() { // else it was progress
		f.answer(result.Summary)
	}
	if q == nil || f.silent {
		return
	}
	f.answer(q.Prompt)
	for _, option := range q.Options {
		f.out.println("-", option)
	}
}

func (f *follower) hasWorked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.worked
}

func (f *follower) startFailure() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// containers returns the names of the containers.
func (f *follower) containers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boxes.names()
}

func (f *follower) refusedHosts() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts.String()
}

// work makes the run. Where a conversation goes on without a prompt, its interrupted
// run does. With one, the history answers the calls that were left open as
// interrupted, and the prompt follows them.
func (r *runCmd) work(ctx context.Context, agent *pygent.Agent, prompt string, parts []pygent.Part) (*pygent.Result, error) {
	opts := []pygent.RunOption{pygent.WithEndOnStartFailure(), pygent.WithEndOnAnswer()}
	if r.given() && prompt == "" {
		return agent.Resume(ctx, opts...)
	}
	parts = append(r.mentioned(ctx, agent), parts...)
	return agent.RunUntilStop(ctx, prompt, append(opts, pygent.WithParts(parts...))...)
}

// mentioned returns the files of the workspace that the words of the prompt mention. What
// is piped in mentions none.
func (r *runCmd) mentioned(ctx context.Context, agent *pygent.Agent) []pygent.Part {
	words := slices.DeleteFunc(slices.Clone(r.Prompt), func(word string) bool { return word == "-" })
	parts, missing, err := agent.AttachMentioned(ctx, strings.Join(words, " "))
	if err != nil && ctx.Err() == nil {
		warn(err.Error())
	}
	if len(missing) > 0 {
		warn(pathname.MissingMentions(missing, describe(ctx, agent).Temporary))
	}
	return parts
}

// task returns the prompt. A conversation that goes on does not need one.
func (r *runCmd) task(ctx context.Context) (string, error) {
	if r.given() && len(r.Prompt) == 0 {
		if len(r.Attach) > 0 {
			return "", errors.New("--attach needs a prompt: --continue and --resume alone send no message")
		}
		return "", nil
	}
	prompt, _, err := promptFrom(ctx, r.Prompt, os.Stdin)
	if err == nil && strings.TrimSpace(prompt) == "" {
		err = errors.New(`the prompt is empty. Usage: pygent run "PROMPT"`)
	}
	return prompt, err
}

// handler returns a function that shows the events: as JSON on standard output,
// or as text on standard error, so that standard output has only the answer. If
// JSON cannot be written, its reader does not know what the run does, so the run
// is abandoned. When end has returned, show writes only while it is called.
func (r *runCmd) handler(out *output, abandon func(error)) (show func(pygent.Event), end func()) {
	switch {
	case r.JSON:
		return func(e pygent.Event) {
			if err := writeJSON(out, e); err != nil {
				abandon(fmt.Errorf("could not write the event %s: %w", e.Type, err))
			}
		}, func() {}
	case r.Quiet:
		return warnings(lines.EventPrinter(screen.Stderr())), func() {}
	}
	return lines.ProgressPrinter(screen.Stderr())
}

// writeJSON writes a value as a line of JSON that is safe to show on a terminal.
func writeJSON(out io.Writer, v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(screen.EscapeJSON(line.Bytes()))
	return err
}

// warnings returns a function that passes on warnings and no other events.
func warnings(next func(pygent.Event)) func(pygent.Event) {
	return func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			next(e)
		}
	}
}

// finish turns the outcome into an exit code. onward is the command that goes on.
func (r *runCmd) finish(result *pygent.Result, err error, out *output, onward string) error {
	code := codeOf(result, err)
	switch {
	case r.JSON && out.lost() != nil: // the run was abandoned for this, which report prints
		return &exitError{code: exitFailed}
	case code == exitOK:
		return nil
	case err == nil && exitCode(result.Status) == exitOK: // a warning has told that no command could run
		return &exitError{code: code}
	}
	if err == nil && result.Reason != "" {
		err = &endError{result.Reason, onward}
	}
	return &exitError{code, err}
}

// codeOf returns the exit code for the outcome of a run.
func codeOf(result *pygent.Result, err error) int {
	code := exitCode(result.Status)
	if errors.Is(err, pygent.ErrRuntimeStart) || errors.Is(err, pygent.ErrNothingToResume) || code == exitOK && result.NoCommand != "" {
		return exitUsage
	}
	return code
}

// exitCode returns the exit code for the status of a run.
func exitCode(s pygent.Status) int {
	switch s {
	case pygent.StatusStopped, pygent.StatusReplied:
		return exitOK
	case pygent.StatusAwaitingUser:
		return exitAwaiting
	case pygent.StatusMaxSteps, pygent.StatusMaxToolCalls, pygent.StatusTimeout, pygent.StatusBudget:
		return exitLimit
	case pygent.StatusTruncated, pygent.StatusEmpty, pygent.StatusStuck:
		return exitStuck
	case pygent.StatusCancelled:
		return exitCancel
	}
	return exitFailed
}

// sayWorkAfter is how long a command looks for what is left, or cleans up, in silence. With
// an engine that does not answer, it takes much longer.
const sayWorkAfter = 2 * time.Second

// sayIfSlow says something if what goes on until end is called takes a while.
func sayIfSlow(text string) (end func()) {
	slow := time.AfterFunc(sayWorkAfter, func() { complain(text) })
	return func() { slow.Stop() }
}

// cleanUp closes the agent, and says so if that takes a while; Ctrl-C has to end the
// process then. Leftovers are only a warning, since the run is done and they can be
// removed later.
func cleanUp(agent *pygent.Agent) error {
	defer sayIfSlow("still cleaning up… Ctrl-C to finish next time")()
	return withoutLeftovers(agent.Close(), func(err error) { warn(err.Error()) })
}

// withoutLeftovers passes those parts of a clean-up's error that are about
// leftovers to warn, and returns the others.
func withoutLeftovers(err error, warn func(error)) error {
	if !tellsOfLeftovers(err) {
		return err
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		if !slices.ContainsFunc(e.Unwrap(), isLeftover) {
			var rest []error
			for _, part := range e.Unwrap() {
				rest = append(rest, withoutLeftovers(part, warn))
			}
			return errors.Join(rest...)
		}
	case interface{ Unwrap() error }:
		// If all of e is about leftovers, warn gets e itself and not only what it
		// wraps.
		if withoutLeftovers(e.Unwrap(), func(error) {}) != nil {
			return withoutLeftovers(e.Unwrap(), warn)
		}
	}
	warn(err)
	return nil
}

func tellsOfLeftovers(err error) bool {
	return errors.Is(err, pygent.ErrCleanupIncomplete) || errors.Is(err, pygent.ErrLeftBehind)
}

func isLeftover(err error) bool {
	return err == pygent.ErrCleanupIncomplete || err == pygent.ErrLeftBehind
}

// join adds an error of the clean-up to the error of a command, and keeps the
// exit code of that.
func join(err, also error) error {
	var exit *exitError
	if also != nil && errors.As(err, &exit) {
		return &exitError{exit.code, errors.Join(exit.err, also)}
	}
	return errors.Join(err, also)
}
