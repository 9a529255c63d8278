package pygent

import "slices"

// DefaultNetworkLimit is how many bytes the commands of a runtime may exchange
// with hosts that [WithAllowedHosts] names.
const DefaultNetworkLimit = 16 << 30

// HostUse tells of a host that commands wanted to reach.
type HostUse struct {
	Host    string `json:"host"` // lower case, in ASCII; an address without brackets
	Port    int    `json:"port"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why it was refused
}

// WithAllowedHosts lets commands in a container without a network reach hosts by
// HTTP and HTTPS, and no others: "example.org" on the ports 80 (HTTP) and 443
// (HTTPS), "*.example.net" every name below example.net but not itself,
// "example.org:8443" that port alone. A private address, of this machine or its
// network, is reached only when it is named with its port, as in
// "10.0.0.5:8080"; link-local addresses only by themselves, not by a name. Calls
// add up.
//
// Commands see a proxy on 127.0.0.1, of which their environment tells
// (http_proxy, https_proxy and the like). The hosts are dialled from this
// machine, also when the engine is remote. What is not allowed is not even looked
// up. TLS passes untouched, so what is behind an allowed name is that server's
// choice. A proxy that the environment of this process names (HTTPS_PROXY) is
// used; addresses cannot be checked then, since it looks the names up.
//
// It is an error together with another network than "none", and has no effect on
// the local runtime, whose commands have the network of this machine; a
// [RuntimeLimited] event tells so.
func WithAllowedHosts(patterns ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.allowedHosts = append(o.allowedHosts, slices.Clone(patterns)...) }
}

// WithNetworkLimit limits how many bytes, both ways together, commands may
// exchange with allowed hosts while the runtime lives. The default, 0, is
// [DefaultNetworkLimit]; a negative number is no limit.
func WithNetworkLimit(bytes int64) RuntimeOption {
	return func(o *runtimeOptions) { o.networkLimit = bytes }
}
