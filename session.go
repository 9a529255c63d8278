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
	"strings"
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
	lines      chan line     // what was read; closed at the end of the input
	wanted     chan struct{} // asks for a line; none is read ahead
	interrupts chan os.Signal
	warned     bool // the user was told that another Ctrl-C leaves
}

type line struct {
	text string
	err  error
}

// errLeave ends a session.
var errLeave = errors.New("leave the session")

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
		text, err := s.in.ReadString('\n')
		if err != nil && text != "" {
			err = nil
		}
		select {
		case s.lines <- line{strings.TrimRight(text, "\r\n"), err}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) loop(ctx context.Context) error {
	for {
		text, err := s.ask(ctx, "> ", s.interrupts)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errLeave):
			return nil
		case err != nil:
			return err
		}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		s.warned = false
		if strings.HasPrefix(text, "/") {
			err = runCommand(ctx, s.agent, text, s.out)
		} else {
			err = s.turn(ctx, text)
		}
		if errors.Is(err, errLeave) || errors.Is(err, ErrAgentClosed) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			s.printer.line("error: %v", err)
		}
	}
}

// ask prompts for a line. A second interrupt leaves the session; a nil channel
// leaves interrupts to others.
func (s *session) ask(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if s.terminal {
		fmt.Fprint(s.out, prompt)
	}
	wanted := s.wanted
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case l := <-s.lines:
			return l.text, l.err
		case <-interrupts:
			if s.warned {
				return "", errLeave
			}
			s.warned = true
			fmt.Fprint(s.out, "\n(Ctrl-C again, or /exit, to leave)\n"+prompt)
		case <-ctx.Done():
			return "", errLeave
		}
	}
}

// turn has the agent answer one message. Ctrl-C ends the turn, not the session.
func (s *session) turn(ctx context.Context, text string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-s.interrupts:
			cancel()
		case <-done:
		}
	}()
	result, err := s.agent.RunUntilStop(ctx, text, ReplyEnds(), OnEvent(s.printer.event))
	s.printer.endLine()
	if result.Status == StatusCancelled {
		s.printer.line("(interrupted)")
		return nil
	}
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
			s.printer.line("%s", r.Summary)
		}
	case StatusAwaitingUser:
		if r.Question == nil {
			return
		}
		if r.Question.Prompt != "" {
			s.printer.line("? %s", r.Question.Prompt)
		}
		for i, option := range r.Question.Options {
			s.printer.line("  %d. %s", i+1, option)
		}
	default:
		s.printer.line("(%s; say \"go on\" to continue)", cmp.Or(r.Reason, string(r.Status)))
	}
}

// banner says who answers and where commands run.
func (s *session) banner(ctx context.Context) {
	info := s.agent.describe(ctx)
	where := "locally, on this machine"
	if s.agent.runtime.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	s.printer.line("%s: commands run %s, in %s", s.agent.persona.Name, where, info.Workspace)
	if info.Fallback != "" {
		s.printer.line("! NOT isolated: %s", info.Fallback)
	}
	if s.terminal {
		s.printer.line("Type a message; /help lists the commands, /exit leaves.")
	}
}

// askForCommands has the user approve calls, and makes bash ask on the local
// runtime, where commands are not contained, unless that was decided. It returns a function that restores what was.
func (s *session) askForCommands(ctx context.Context) (restore func()) {
	o := &s.agent.opts
	s.agent.busy.Lock()
	defer s.agent.busy.Unlock()
	approve, confirm := o.approve, o.confirmBash
	if confirm == nil {
		unsafe := !s.agent.runtime.UseDocker() && (s.terminal || s.agent.describe(ctx).Fallback != "")
		ask := unsafe && approve == nil
		confirm = &ask
	}
	asked := approve
	if s.terminal && approve == nil {
		asked = s.approve
	}
	before := o.confirmBash
	s.agent.setApproval(asked, confirm)
	return func() {
		s.agent.busy.Lock()
		defer s.agent.busy.Unlock()
		s.agent.setApproval(approve, before)
	}
}

// approve asks the user about a call; anything but yes is no.
func (s *session) approve(ctx context.Context, call ToolCall) (Decision, error) {
	if taskOf(ctx) != "" {
		return Decision{Reason: "the user is not asked about background tasks on this machine; do it yourself"}, nil
	}
	s.printer.endLine()
	answer, err := s.ask(ctx, fmt.Sprintf("Run this on your machine? %s\n[y]es, or say why not: ", visible(describeCall(call))), nil)
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
