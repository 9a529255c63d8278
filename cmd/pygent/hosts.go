package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/hostask"
)

// maxHosts is how many refused hosts are named at the end of a run.
const maxHosts = 20

// hostLog remembers the hosts that commands of a run were refused.
type hostLog struct {
	names []string // in the form of --allow-host
	more  bool     // whether there were others
}

// note remembers a host if it was refused.
func (l *hostLog) note(use pygent.HostUse) {
	name := hostask.Name(use.Host, use.Port)
	switch {
	case use.Allowed, slices.Contains(l.names, name):
	case len(l.names) == maxHosts:
		l.more = true
	default:
		l.names = append(l.names, name)
	}
}

// String returns which hosts were refused and how to allow them, or "" if none
// were.
func (l *hostLog) String() string {
	if len(l.names) == 0 {
		return ""
	}
	more := ""
	if l.more {
		more = " and others"
	}
	return fmt.Sprintf("commands were refused %s%s; --allow-host %s allows that", strings.Join(l.names, ", "), more, strings.Join(l.names, ","))
}
