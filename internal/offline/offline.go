// Package offline recognises, in what a command printed, that it failed for want
// of a network. It knows the words of resolvers, package managers and other
// common programs.
package offline

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const (
	// MaxHosts is how many hosts Hosts returns.
	MaxHosts = 5
	// maxRead is how much of the end of an output is looked at, in bytes: what
	// made a command fail stands there.
	maxRead = 64 << 10
	// maxName is the longest name of a host.
	maxName = 253
)

// name is what a host is called, with quotes of many kinds around it.
const name = "[\"'`‘“]?([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"

// phrases are what programs say, with the host where they name it.
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

// Hosts returns the hosts that an output says could not be reached, in their
// order, and reports whether it speaks of a missing network at all.
func Hosts(output string) (hosts []string, offline bool) {
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
			if host := strings.ToLower(match[1]); isRemote(host) && !slices.Contains(hosts, host) && len(hosts) < MaxHosts {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts, offline
}

// isRemote reports whether a word is the name of a host elsewhere. A word
// without a dot is as likely one of the sentence.
func isRemote(host string) bool {
	address, err := netip.ParseAddr(host)
	if err == nil {
		return !address.IsLoopback()
	}
	return len(host) <= maxName && strings.Contains(host, ".") && !strings.Contains(host, "..")
}
