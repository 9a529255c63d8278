package egress

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const (
	// MaxUnreachable is the largest number of hosts that Hosts returns.
	MaxUnreachable = 5
	// maxRead is how many bytes at the end of an output are searched. The
	// reason why a command failed is usually there.
	maxRead = 64 << 10
	// maxName is the longest name of a host.
	maxName = 253
)

// name matches a host name, with an opening quote of any kind before it.
const name = "[\"'`‘“]?([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"

// phrases match error messages. Where the message has the host, a group
// captures it.
var phrases = compile(
	`could not resolve (?:host|hostname|proxy):? `+name, // curl, git, cargo, ssh
	`could not resolve '([a-z0-9-]+\.[a-z0-9.-]+)'`,     // apt
	`unable to resolve host address `+name,              // wget
	`bad address `+name,                                 // busybox
	`temporary failure resolving `+name,                 // apt
	`getaddrinfo (?:EAI_AGAIN|ENOTFOUND) `+name,         // node
	`dial tcp: lookup `+name,                            // Go
	`UnknownHostException: `+name,                       // Java
	`host='`+name+`', port=\d+\): Max retries exceeded`, // Python's urllib3
	`failed to lookup address information`,              // Rust
	`temporary failure in name resolution`,              // glibc
	`name or service not known`,
	`no address associated with hostname`,
	`name does not resolve`, // musl
	`\bEAI_AGAIN\b`,
	`network is unreachable`,
	`\bENETUNREACH\b`,
)

func compile(patterns ...string) []*regexp.Regexp {
	list := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		list[i] = regexp.MustCompile(`(?i)` + p)
	}
	return list
}

// UnreachableHosts returns the hosts that could not be reached according to an output, in
// order of appearance. offline reports whether the output mentions a missing
// network at all.
func UnreachableHosts(output string) (hosts []string, offline bool) {
	output = output[max(0, len(output)-maxRead):]
	for line := range strings.Lines(output) {
		for _, phrase := range phrases {
			match := phrase.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			offline = true
			if len(match) < 2 {
				continue
			}
			if host := strings.ToLower(match[1]); isRemote(host) && !slices.Contains(hosts, host) && len(hosts) < MaxUnreachable {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts, offline
}

// isRemote reports whether a word is the name of another host. A word without a
// dot may as well be an ordinary word of the message.
func isRemote(host string) bool {
	address, err := netip.ParseAddr(host)
	if err == nil {
		return !address.IsLoopback()
	}
	return len(host) <= maxName && strings.Contains(host, ".") && !strings.Contains(host, "..")
}
