package egress

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// reach is how far an address is from this machine.
type reach int

// Who may name an address. The zero value is the strictest.
const (
	never     reach = iota // nobody: it leads to another one, to many, or nowhere
	linkLocal              // only by itself with its port: where clouds tell their secrets
	private                // only with its port
	public
)

// The ranges that are private in the sense of being of this machine or its
// network.
var privateRanges = prefixes(
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "198.18.0.0/15",
	"::1/128", "fc00::/7",
)

var linkLocalRanges = prefixes("169.254.0.0/16", "fe80::/10")

// The ranges of which only what is left is public. Of IPv6 only 2000::/3 is given
// out, so that NAT64 (64:ff9b::/32) and what is yet to be invented are none.
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

// reachOf says how far an address is.
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

// isOwn reports whether an address is one of this machine's interfaces, of
// whatever range.
func isOwn(addr netip.Addr) (bool, error) {
	own, err := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == addr.Unmap()
	}), err
}

// reachFromHere is reachOf for this machine: an address of its own is private.
// Where its addresses cannot be listed none is public.
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

// privateAddress is in the reason of every refusal for the sake of an address.
const privateAddress = "a private or special address"

// NeedsPort reports whether the host was refused for its address, so that it would
// have to be allowed with its port.
func (u Use) NeedsPort() bool { return strings.Contains(u.Reason, privateAddress) }

// checkAddress returns why a target may not be reached at an address, or nil.
// exactly tells that the target is named with its port.
func checkAddress(t Target, addr netip.Addr, exactly bool) error {
	reach := reachFromHere(addr)
	switch {
	case reach == public, reach == private && exactly:
		return nil
	case reach == linkLocal && exactly && t.addr == addr.Unmap():
		return nil
	case t.addr.IsValid():
		return refusal("it is " + privateAddress + ", which has to be allowed with its port")
	default:
		return refusal("its name leads to " + addr.Unmap().WithZone("").String() + ", " + privateAddress)
	}
}

// refusal is the error of a target that must not be reached, as its reason.
type refusal string

// Error returns the reason.
func (r refusal) Error() string { return string(r) }
