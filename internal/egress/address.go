package egress

import (
	"net"
	"net/netip"
	"slices"
)

// reach says who may reach an address.
type reach int

// Who may reach an address, from the strictest on; the zero value is the
// strictest.
const (
	never     reach = iota // nobody: it stands for another address, for many, or for none
	linkLocal              // only if a pattern has this address with its port; cloud providers serve credentials there
	private                // only if a pattern has the host with its port
	public
)

// privateRanges are the addresses of this machine and of its network.
var privateRanges = prefixes(
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "198.18.0.0/15",
	"::1/128", "fc00::/7",
)

var linkLocalRanges = prefixes("169.254.0.0/16", "fe80::/10")

// An address is public only if it is in givenOut, and neither in special nor in
// one of the ranges above. Of IPv6 only 2000::/3 has been assigned, so that NAT64
// (64:ff9b::/32) and future ranges are not public.
var (
	givenOut = prefixes("0.0.0.0/0", "2000::/3")
	special  = prefixes(
		"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"2001::/23", // Teredo and other protocols
		"2001:db8::/32", "2002::/16", "3fff::/20",
	)
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func within(addr netip.Addr, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// reachOf returns who may reach an address.
func reachOf(addr netip.Addr) reach {
	addr = addr.Unmap().WithZone("")
	switch {
	case within(addr, privateRanges):
		return private
	case within(addr, linkLocalRanges):
		return linkLocal
	case within(addr, givenOut) && !within(addr, special):
		return public
	default:
		return never
	}
}

// isOwn reports whether an address belongs to an interface of this machine. It
// may be in any range.
func isOwn(addr netip.Addr) (bool, error) {
	own, err := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == addr.Unmap()
	}), err
}

// reachFromHere is like reachOf, but treats this machine's own addresses as
// private. If these cannot be listed, no address is public.
func reachFromHere(addr netip.Addr) reach {
	reach := reachOf(addr)
	if reach == private || reach == linkLocal {
		return reach
	}
	own, err := isOwn(addr)
	switch {
	case own:
		return private
	case err != nil:
		return never
	default:
		return reach
	}
}

// privateAddress is part of the reason when a host is refused because of its
// address.
const privateAddress = "a private or special address"

// checkAddress returns why a target may not be reached at an address, or nil.
// exactly means that a pattern names the target with its port.
func checkAddress(t Target, addr netip.Addr, exactly bool) error {
	reach := reachFromHere(addr)
	switch {
	case reach == public, reach == private && exactly:
		return nil
	case reach == linkLocal && exactly && t.addr == addr.Unmap():
		return nil
	case t.addr.IsValid():
		return refusedAddress(t)
	case reach == private:
		return refusal{leads(addr), allowPort}
	default:
		return refusal{leads(addr), noRemedy}
	}
}

// refusedAddress is why a target is refused that is an address, or means this
// machine.
func refusedAddress(t Target) refusal {
	if t.addr.IsValid() && reachFromHere(t.addr) == never {
		return refusal{"it is a special address, which is never reached", noRemedy}
	}
	return refusal{"it is " + privateAddress + ", which has to be allowed with its port", allowPort}
}

func leads(addr netip.Addr) string {
	return "its name leads to " + addr.Unmap().WithZone("").String() + ", " + privateAddress
}

// refusal is the error for a target that must not be reached.
type refusal struct {
	reason string
	remedy remedy
}

// remedy says what would let commands reach a target.
type remedy int

const (
	allowHost remedy = iota // a pattern of its host
	allowPort               // a pattern of its host and port
	noRemedy                // no pattern
)

// Error returns the reason.
func (r refusal) Error() string { return r.reason }

// use describes the refused attempt to reach a target.
func (r refusal) use(t Target) Use {
	u := Use{Host: t.Host, Port: t.Port, Reason: r.reason}
	pattern := Pattern{host: t.Host, port: t.Port}
	switch {
	case r.remedy == noRemedy:
		return u
	case r.remedy == allowHost && (t.Port == portHTTP || t.Port == portHTTPS):
		pattern.port = 0
	}
	u.Allow = pattern.String()
	return u
}
