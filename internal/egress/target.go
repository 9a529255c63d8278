package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Ports that a pattern without a port allows: the first for HTTP, the second
// for tunnels.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// errHost means that a text is not a host.
var errHost = errors.New("not the name or address of a host")

// Target is the destination of a request. It is normalised: two spellings of
// the same host are equal.
type Target struct {
	Host string // a name in lower case without a trailing dot, or an address
	Port int
	addr netip.Addr // valid if Host is an address
}

// String returns the target as "host:port".
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }

// parseTarget parses "host:port". The port may be missing if there is a default
// port.
func parseTarget(s string, port int) (Target, error) {
	host, number := s, ""
	if bracket := strings.LastIndexByte(s, ']'); strings.LastIndexByte(s, ':') > bracket {
		var err error
		if host, number, err = net.SplitHostPort(s); err != nil {
			return Target{}, fmt.Errorf("%.300q: %w", s, errHost)
		}
		if port, err = parsePort(number); err != nil {
			return Target{}, fmt.Errorf("%.300q: %w", s, err)
		}
	} else if strings.HasPrefix(s, "[") && bracket == len(s)-1 {
		host = s[1:bracket]
	}
	if port == 0 {
		return Target{}, fmt.Errorf("%.300q has no port", s)
	}
	name, addr, err := parseHost(host)
	if err != nil {
		return Target{}, fmt.Errorf("%.300q: %w", s, err)
	}
	return Target{Host: name, Port: port, addr: addr}, nil
}

// parsePort parses a port. It accepts only digits: no sign, no space, no
// service name.
func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' {
		return 0, fmt.Errorf("%.20q is no port", s)
	}
	return int(n), nil
}

// parseHost returns the normalised form of a host. Programs differ in how they
// read old forms of IPv4 addresses (0177.0.0.1, 0x7f.1, 2130706433). So a name
// whose last label is a number must be an address in the usual form; else it is
// refused.
func parseHost(s string) (string, netip.Addr, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, fmt.Errorf("%w: zones are of one machine", errHost)
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if len(name) > 253 || !isName(name) {
		return "", netip.Addr{}, errHost
	}
	return name, netip.Addr{}, nil
}

// isName reports whether s is a valid DNS name in ASCII.
func isName(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != "" && !isHex(last)
}

// isHex reports whether a label is a hexadecimal number such as 0x7f.
func isHex(label string) bool {
	digits, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
