package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Pattern is a host, or all hosts below a domain, that commands may reach.
type Pattern struct {
	host  string // a name, or an address
	below bool   // the pattern means the hosts below host, and not host itself
	port  int    // 0 means HTTP on port 80 and HTTPS on port 443
	addr  netip.Addr
}

// ParsePattern parses "example.org", "*.example.org" or an address, each with
// or without a port. Names may have letters of any script. A private address
// must have a port.
func ParsePattern(s string) (Pattern, error) {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("allowed host %.300q: %w; write it as example.org, *.example.org or example.org:8443", s, err)
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
	var p Pattern
	rest := strings.TrimSpace(s)
	if strings.Contains(rest, "/") || strings.Contains(rest, "@") {
		return p, fmt.Errorf("%w alone", errHost)
	}
	rest, p.below = strings.CutPrefix(rest, "*.")
	host, port, err := splitPort(rest)
	if err != nil {
		return p, err
	}
	p.port = port
	if !isASCII(host) {
		if host, err = lookedUp(host); err != nil {
			return p, err
		}
	}
	p.host, p.addr, err = parseHost(host)
	switch {
	case err != nil:
		return p, err
	case p.below && p.addr.IsValid():
		return p, errors.New("nothing is below an address")
	case p.port == 0 && (isLocalName(p.host) || p.addr.IsValid() && reachOf(p.addr) != public):
		return p, errors.New("a private address has to be named with its port")
	}
	return p, nil
}

// lookedUp returns a name with letters of any script in the form in which it is looked
// up. Of the standard library, only an HTTP client knows that, which names it when it
// connects. The module golang.org/x/text would be fetched for nothing else, and is 7 MB.
func lookedUp(name string) (string, error) {
	var address string
	client := http.Transport{DialContext: func(_ context.Context, _, to string) (net.Conn, error) {
		address = to
		return nil, errHost
	}}
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: name}, Header: http.Header{}}
	if _, err := client.RoundTrip(request); address == "" { // it fails in any case
		return "", fmt.Errorf("%w: %w", errHost, err)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isASCII(host) {
		return "", fmt.Errorf("%w: its letters are none of a name", errHost)
	}
	return host, nil
}

// splitPort separates the port from a pattern. The port is 0 if there is none.
// The brackets of an IPv6 address are removed.
func splitPort(s string) (host string, port int, err error) {
	host = s
	if colon := strings.LastIndexByte(s, ':'); colon > strings.LastIndexByte(s, ']') && !isIPv6(s) {
		var number string
		if host, number, err = net.SplitHostPort(s); err != nil {
			return "", 0, errHost
		}
		if port, err = parsePort(number); err != nil {
			return "", 0, err
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !isIPv6(host) {
			return "", 0, errHost
		}
	}
	return host, port, nil
}

func isIPv6(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6()
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0
}

// isLocalName reports whether a name means the local machine everywhere.
func isLocalName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// IsInside reports whether the pattern's host is one that programs with the
// variables of [Environment] connect to directly, without the proxy, because it
// is their own machine.
func (p Pattern) IsInside() bool {
	return !p.below && slices.Contains(strings.Split(inside, ","), p.host)
}

// Allows reports whether the pattern allows a host on a port.
func (p Pattern) Allows(host string, port int) bool {
	name, addr, err := parseHost(host)
	return err == nil && p.matches(Target{Host: name, Port: port, addr: addr})
}

func (p Pattern) matches(t Target) bool {
	if p.port != t.Port && (p.port != 0 || t.Port != portHTTP && t.Port != portHTTPS) {
		return false
	}
	return p.names(t)
}

// names reports whether the pattern matches the target's host, whatever the
// port.
func (p Pattern) names(t Target) bool {
	if p.below {
		return !t.addr.IsValid() && strings.HasSuffix(t.Host, "."+p.host)
	}
	return p.host == t.Host
}

// String returns the normalised form of the pattern.
func (p Pattern) String() string {
	s := p.host
	if p.below {
		s = "*." + s
	}
	if p.port != 0 {
		return net.JoinHostPort(s, strconv.Itoa(p.port))
	}
	return s
}

// rules are the patterns of a proxy. They never change.
type rules []Pattern

func parseRules(patterns []string) (rules, error) {
	var r rules
	for _, s := range patterns {
		p, err := ParsePattern(s)
		if err != nil {
			return nil, err
		}
		r = append(r, p)
	}
	return r, nil
}

// allow reports whether a target may be reached, and whether its host is in any
// pattern at all, perhaps with other ports.
func (r rules) allow(t Target) (allowed, named bool) {
	for _, p := range r {
		named = named || p.names(t)
		if p.matches(t) {
			return true, true
		}
	}
	return false, named
}

// exactly reports whether a pattern names exactly this host, with its port.
// Only such a target may have a private address.
func (r rules) exactly(t Target) bool {
	for _, p := range r {
		if p.port == t.Port && !p.below && p.host == t.Host {
			return true
		}
	}
	return false
}

// portNamed reports whether a pattern that allows the target has an explicit
// port.
func (r rules) portNamed(t Target) bool {
	for _, p := range r {
		if p.port == t.Port && p.names(t) {
			return true
		}
	}
	return false
}
