package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/approval"
)

// maxHosts is how many refused hosts are named at the end of a run.
const maxHosts = 20

// hostLog remembers the hosts that commands of a run were refused.
type hostLog struct {
	names []string // of the hosts
	allow []string // what --allow-host takes for those that it can allow
	other []string // those that it cannot allow, each with the reason
	more  bool     // whether there were others
}

// note remembers a host if it was refused.
func (l *hostLog) note(use pygent.HostUse) {
	name := approval.Name(use.Host, use.Port)
	switch {
	case use.Allowed, slices.Contains(l.names, name):
		return
	case len(l.names) == maxHosts:
		l.more = true
		return
	}
	l.names = append(l.names, name)
	if use.Allow == "" {
		l.other = append(l.other, fmt.Sprintf("%s (%s)", name, use.Reason))
	} else {
		l.allow = append(l.allow, use.Allow)
	}
}

// String returns which hosts were refused and how to allow them, or "" if none
// were.
func (l *hostLog) String() string {
	var parts []string
	if len(l.allow) > 0 {
		parts = append(parts, fmt.Sprintf("%s; to allow this, use --allow-host %s", strings.Join(l.allow, ", "), strings.Join(l.allow, ",")))
	}
	if len(l.other) > 0 {
		parts = append(parts, strings.Join(l.other, ", "))
	}
	if l.more {
		parts = append(parts, "others")
	}
	if len(parts) == 0 {
		return ""
	}
	return "commands could not reach " + strings.Join(parts, "; and ")
}
