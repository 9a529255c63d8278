package pygent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// RunInteractive talks with the user: it reads messages line by line from
// standard input, or what [WithIO] set, and shows what the agent does. A reply
// ends the agent's turn. Lines that begin with "/" are commands: /help lists
// them. Ctrl-C interrupts the turn, and, when there is none, leaves at the
// second press. It returns at /exit, at the end of the input, and when ctx ends.
//
// A person at a terminal is asked about calls that need approval, which on the
// local runtime every bash command does; see [WithConfirmBash].
func (a *Agent) RunInteractive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(a)
	s.interrupts = make(chan os.Signal, 2)
	signal.Notify(s.interrupts, os.Interrupt)
	defer signal.Stop(s.interrupts)
	go s.readLines(ctx)
	defer s.askForCommands(ctx)()
	defer s.printer.end()
	s.banner(ctx)
	return s.loop(ctx)
}

// session is a conversation in plain text.
type session struct {
	agent      *Agent
	in         *bufio.Reader
	out        io.Writer
	printer    *printer
	terminal   bool          // a person types
	lines      chan line     // what was read
	wanted     chan struct{} // asks for a line; none is read ahead
	interrupts chan os.Signal
	warned     bool     // the user was told that another Ctrl-C leaves
	options    []string // answers to the model's last question, which may be given by number
}

type line struct {
	text string
	err  error
}

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

var (
	// errLeave ends a session.
	errLeave = errors.New("leave the session")
	// errInterrupted ends a turn.
	errInterrupted = errors.New("interrupted by the user")
	// errLongLine is what becomes of a line that exceeds maxLine.
	errLongLine = fmt.Errorf("the line is longer than %d bytes; put the text in a file", maxLine)
)

func newSession(a *Agent) *session {
	in, out := a.opts.in, a.opts.out
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = os.Stdout
	}
	f, isFile := in.(*os.File)
	return &session{
		agent:    a,
		in:       bufio.NewReader(in),
		out:      out,
		printer:  &printer{w: out},
		terminal: isFile && term.IsTerminal(int(f.Fd())),
		lines:    make(chan line),
		wanted:   make(chan struct{}),
	}
}

// readLines feeds s.lines on demand. It ends with ctx, except while a read of
// the terminal waits: that goroutine ends with the process or the next line.
func (s *session) readLines(ctx context.Context) {
	for {
		select {
		case <-s.wanted:
		case <-ctx.Done():
			return
		}
		l := s.readLine()
		select {
		case s.lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

// readLine reads a line, whose end may be missing at the end of the input. Of
// a line that is too long no more than maxLine is kept in memory.
func (s *session) readLine() line {
	var text []byte
	for {
		piece, err := s.in.ReadSlice('\n')
		text = append(text, piece[:min(len(piece), maxLine+1-len(text))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(text) == 0:
			return line{err: err}
		case len(text) > maxLine:
			return line{err: errLongLine}
		}
		return line{text: strings.TrimRight(string(text), "\r\n")}
	}
}

func (s *session) loop(ctx context.Context) error {
	for {
		text, err := s.ask(ctx, "> ", s.interrupts)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, errLeave):
			return nil
		case errors.Is(err, errLongLine):
			s.printer.say("error: %v", err)
			continue
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		s.warned = false
		err = s.interruptible(ctx, func(ctx context.Context) error {
			if strings.HasPrefix(text, "/") {
				return runCommand(ctx, s.agent, text, s.out)
			}
			return s.turn(ctx, text)
		})
		if errors.Is(err, errLeave) || errors.Is(err, ErrAgentClosed) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			s.printer.say("error: %v", err)
		}
	}
}

// ask prompts for a line. A second interrupt leaves the session; a nil channel
// leaves interrupts to others.
func (s *session) ask(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if s.terminal {
		s.printer.prompt(prompt)
	}
	wanted := s.wanted
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case l := <-s.lines:
			if s.terminal && l.err == nil {
				s.printer.typed()
			}
			return l.text, l.err
		case <-interrupts:
			if s.warned {
				return "", errLeave
			}
			s.warned = true
			s.printer.say("(Ctrl-C again, or /exit, to leave)")
			if s.terminal {
				s.printer.prompt(prompt)
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// interruptible calls f with a context that Ctrl-C ends. That f was
// interrupted is no error.
func (s *session) interruptible(outer context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-s.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel(nil)
	err := f(ctx)
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		s.printer.say("(interrupted)")
		return nil
	}
	return err
}

// turn has the agent answer one message.
func (s *session) turn(ctx context.Context, text string) error {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(s.options) {
		text = s.options[n-1]
	}
	s.options = nil
	result, err := s.agent.RunUntilStop(ctx, text, ReplyEnds(), OnEvent(s.printer.event))
	if err != nil {
		return err
	}
	s.outcome(result)
	return nil
}

// outcome says what the events of the turn did not.
func (s *session) outcome(r *Result) {
	switch r.Status {
	case StatusReplied:
	case StatusStopped:
		if r.Summary != "" && r.Summary != strings.TrimSpace(r.Message.Text()) {
			s.printer.say("%s", r.Summary)
		}
	case StatusAwaitingUser:
		if r.Question == nil {
			return
		}
		if r.Question.Prompt != "" {
			s.printer.say("? %s", r.Question.Prompt)
		}
		s.options = r.Question.Options
		for i, option := range s.options {
			s.printer.say("  %d. %s", i+1, option)
		}
	default:
		s.printer.say("(%s; say \"go on\" to continue)", cmp.Or(r.Reason, string(r.Status)))
	}
}

// banner says who answers and where commands run.
func (s *session) banner(ctx context.Context) {
	info := s.agent.describe(ctx)
	where := "locally, on this machine"
	if s.agent.runtime.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	s.printer.say("%s: commands run %s, in %s", s.agent.persona.Name, where, info.Workspace)
	if info.Fallback != "" {
		s.printer.say("! NOT isolated: %s", info.Fallback)
	}
	if s.terminal {
		s.printer.say("Type a message; /help lists the commands, /exit leaves.")
	}
}

// askForCommands has the user approve calls, and makes bash ask on the local
// runtime, where commands are not contained, unless that was decided. It
// returns a function that restores what was.
func (s *session) askForCommands(ctx context.Context) (restore func()) {
	o := &s.agent.opts
	s.agent.busy.Lock()
	defer s.agent.busy.Unlock()
	approve, confirm := o.approve, o.confirmBash
	asked, ask := approve, confirm
	if confirm == nil && approve == nil {
		ask = new(!s.agent.runtime.UseDocker() && (s.terminal || s.agent.describe(ctx).Fallback != ""))
	}
	if s.terminal && approve == nil {
		asked = s.approve
	}
	s.agent.setApproval(asked, ask)
	return func() {
		s.agent.busy.Lock()
		defer s.agent.busy.Unlock()
		s.agent.setApproval(approve, confirm)
	}
}

// approve asks the user about a call; anything but yes is no.
func (s *session) approve(ctx context.Context, call ToolCall) (Decision, error) {
	if taskOf(ctx) != "" {
		return Decision{Reason: "the user is not asked about background tasks here; do it yourself"}, nil
	}
	answer, err := s.ask(ctx, s.approvalQuestion(call), nil)
	if err != nil {
		return Decision{}, err
	}
	switch answer = strings.TrimSpace(answer); strings.ToLower(answer) {
	case "y", "yes":
		return Decision{Allow: true}, nil
	case "", "n", "no":
		return Decision{}, nil
	}
	return Decision{Reason: "the user says: " + answer}, nil
}

// approvalQuestion shows all of a call: who says yes has to know to what.
func (s *session) approvalQuestion(call ToolCall) string {
	question, what := "Allow this call?", call.Name+" "+bound(call.Arguments, maxShownArguments)
	if call.Name == "bash" {
		what = describeCall(call)
		question = "Run this on your machine?"
		if s.agent.runtime.UseDocker() {
			question = "Run this in the container?"
		}
	}
	return fmt.Sprintf("%s %s\n[y]es, or say why not: ", question, what)
}

// maxShownArguments bounds the arguments that the user is shown when asked for
// approval, in bytes.
const maxShownArguments = 8 << 10

// describe says what the agent's runtime is, as far as it can tell.
func (a *Agent) describe(ctx context.Context) RuntimeInfo {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	if d, ok := a.runtime.(Describer); ok {
		return d.Describe(ctx)
	}
	return RuntimeInfo{Kind: "custom"}
}

// describeTimeout bounds how long a banner waits for a runtime to say what it is.
const describeTimeout = 3 * time.Second
