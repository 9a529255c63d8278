package pygent

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/tomlfile"
)

// askForHosts has the user decide about hosts that commands want to reach, where
// a person can be asked and commands have no network of their own. It returns a
// function that ends this.
func (s *session) askForHosts() (end func()) {
	if !s.terminal || !s.agent.runtime.UseDocker() {
		return func() {}
	}
	s.agent.setHostApproval(s.approveHosts)
	return func() { s.agent.setHostApproval(nil) }
}

// beginTurn says that a turn goes on until end is called. Questions about hosts
// go with it.
func (s *session) beginTurn(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.turnLife.Store(&ctx)
	return func() {
		s.turnLife.Store(nil)
		cancel()
	}
}

// errBetweenTurns is why nobody is asked about what a background job does while
// the user writes the next message.
var errBetweenTurns = errors.New("the user is asked during a turn only")

// approveHosts asks the user about hosts, about all of them together.
func (s *session) approveHosts(ctx context.Context, r HostRequest) (HostDecision, error) {
	turn := s.turnLife.Load()
	if turn == nil {
		return HostDecision{}, errBetweenTurns
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(*turn, func() { cancel(errBetweenTurns) })()
	for {
		answer, err := s.question(ctx, s.hostQuestion(r.Hosts))
		if err != nil {
			return HostDecision{}, err
		}
		if d, clear := hostDecision(answer); clear {
			if isAlways(answer) {
				s.keepHosts(r.Hosts)
			}
			return d, nil
		}
		s.printer.say(errUnclear)
	}
}

// hostDecision is what an answer means, if it is clear.
func hostDecision(answer string) (d HostDecision, clear bool) {
	switch strings.ToLower(answer) {
	case "y", "yes":
		return HostDecision{Allow: true}, true
	case "s", "session":
		return HostDecision{Allow: true, Session: true}, true
	case "", "n", "no":
		return HostDecision{}, true
	}
	if isAlways(answer) {
		return HostDecision{Allow: true, Session: true}, true
	}
	return HostDecision{Reason: "the user says: " + answer}, len(strings.Fields(answer)) > 1
}

func isAlways(answer string) bool {
	return strings.EqualFold(answer, "a") || strings.EqualFold(answer, "always")
}

// hostQuestion asks about hosts.
func (s *session) hostQuestion(hosts []string) question {
	names := make([]string, len(hosts))
	for i, host := range hosts {
		names[i] = describeHost(host)
	}
	which, always := "Allow that?", ""
	if len(hosts) > 1 {
		which = "Allow them all?"
	}
	if s.agent.opts.homeFile != "" {
		always = "[a]lways, "
	}
	return question{
		head:   "A command wants to reach",
		text:   strings.Join(names, ", "),
		prompt: which + " [y]es, for this command, for this [s]ession, " + always + "[n]o, or say why not: ",
	}
}

// describeHost shows a host. Names in other scripts are shown as they travel,
// since letters of one script look like those of another.
func describeHost(host string) string {
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		return host + " (punycode: another script)"
	}
	return host
}

// keepHosts allows hosts for good, in the user's own configuration. Where that
// cannot be written they are allowed for the session.
func (s *session) keepHosts(hosts []string) {
	path := s.agent.opts.homeFile
	if path == "" {
		s.printer.say("! there is no configuration file to keep that in; it holds for this session")
		return
	}
	if err := tomlfile.AddToList(path, "container", "allowed_hosts", hosts...); err != nil {
		s.printer.say("! not kept, so it holds for this session: %v", err)
		return
	}
	s.printer.say("(kept in ~/%s)", filepath.Base(path))
}
