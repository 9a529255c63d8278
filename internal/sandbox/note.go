package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/egress"
)

// note explains a command that failed for want of the network, and how the user
// can allow it. It is empty when the command lacked nothing. missed are hosts that
// are allowed but could not be reached.
func (n *Network) note(res Result, missed []egress.Use) string {
	if n == nil || res.ExitCode == 0 && !res.TimedOut {
		return ""
	}
	if len(res.Refused) > 0 || len(missed) > 0 {
		return joinNotes(n.refusedNote(res.Refused), missedNote(missed))
	}
	hosts, wanted := egress.UnreachableHosts(res.Output)
	switch {
	case !wanted:
		return ""
	case len(hosts) == 0:
		return "commands have no network; the user can allow hosts"
	case slices.ContainsFunc(hosts, n.allowsHost):
		return "commands have no network but the proxy that http_proxy and https_proxy name, and this program does not seem to use it"
	}
	return fmt.Sprintf("commands have no network, so %s cannot be reached; %s", strings.Join(hosts, ", "), remedyForHosts(hosts))
}

// allowsHost reports whether commands may reach a host on one of the web's ports.
func (n *Network) allowsHost(host string) bool {
	return slices.Contains(n.kept(), host) || slices.ContainsFunc(n.allowed, func(s string) bool {
		pattern, err := egress.ParsePattern(s)
		return err == nil && (pattern.Allows(host, 80) || pattern.Allows(host, 443))
	})
}

// refusedNote names hosts that were refused, and why. What the user refused is
// not offered again.
func (n *Network) refusedNote(refused []egress.Use) string {
	var notes, open, since []string
	for _, use := range refused {
		name := approval.Name(use.Host, use.Port)
		if slices.Contains(n.kept(), name) {
			since = append(since, name)
			continue
		}
		notes = append(notes, fmt.Sprintf("%s (%s)", name, use.Reason))
		if use.Allow != "" && !n.hosts.refuses(name) {
			open = append(open, use.Allow)
		}
	}
	var note string
	if len(notes) > 0 {
		note = "the network refused " + strings.Join(notes, ", ")
	}
	if len(open) > 0 {
		note = joinNotes(note, remedyForHosts(open))
	}
	if len(since) > 0 {
		note = joinNotes(note, fmt.Sprintf("the user has allowed %s meanwhile: run the command again", strings.Join(since, ", ")))
	}
	return note
}

// missedNote names hosts that are allowed, but could not be reached.
func missedNote(missed []egress.Use) string {
	if len(missed) == 0 {
		return ""
	}
	notes := make([]string, len(missed))
	for i, use := range missed {
		notes[i] = fmt.Sprintf("%s (%s)", approval.Name(use.Host, use.Port), use.Reason)
	}
	return "these hosts are allowed, but cannot be reached from the user's machine: " + strings.Join(notes, ", ")
}

// remedyForHosts says how the user allows hosts.
func remedyForHosts(hosts []string) string {
	return "the user can allow " + strings.Join(hosts, ", ")
}

// joinNotes joins what is worth knowing, leaving out what is empty.
func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}
