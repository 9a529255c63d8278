package egress

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatternsHaveOneSpelling(t *testing.T) {
	cases := map[string]string{
		"example.org":               "example.org",
		" Example.ORG. ":            "example.org",
		"*.Example.net":             "*.example.net",
		"example.org:8443":          "example.org:8443",
		"*.example.net:8080":        "*.example.net:8080",
		"bücher.example":            "xn--bcher-kva.example",
		"*.BÜCHER.example":          "*.xn--bcher-kva.example",
		"8.8.8.8":                   "8.8.8.8",
		"10.0.0.5:8080":             "10.0.0.5:8080",
		"localhost:5000":            "localhost:5000",
		"[::1]:5000":                "[::1]:5000",
		"[::ffff:10.0.0.5]:80":      "10.0.0.5:80",
		"2606:4700::1111":           "2606:4700::1111",
		"[2606:4700:0::1111]":       "2606:4700::1111",
		"169.254.169.254:80":        "169.254.169.254:80",
		"under_score.example.org:1": "under_score.example.org:1",
	}
	for text, want := range cases {
		p, err := ParsePattern(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p.String(), text)
		again, err := ParsePattern(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
}

func TestPatternsThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "not the name",
		"*":                       "not the name",
		"*.":                      "not the name",
		"a.*.org":                 "not the name",
		"*example.org":            "not the name",
		"https://example.org":     "not the name",
		"user@example.org":        "not the name",
		"example.org/path":        "not the name",
		"example..org":            "not the name",
		"-a.org":                  "not the name",
		"example.org..":           "not the name",
		"exa mple.org":            "not the name",
		"0177.0.0.1:80":           "not the name",
		"0x7f.1:80":               "not the name",
		"0x7f000001:80":           "not the name",
		"2130706433:80":           "not the name",
		"127.1:80":                "not the name",
		"[example.org]":           "not the name",
		"[fe80::1%eth0]:80":       "not the name",
		strings.Repeat("a", 64):   "not the name",
		strings.Repeat("a.", 200): "not the name",
		"example.org:":            "is no port",
		"example.org:0":           "is no port",
		"example.org:http":        "is no port",
		"example.org:080":         "is no port",
		"example.org:65536":       "is no port",
		"example.org:+80":         "is no port",
		"10.0.0.5":                "named with its port",
		"127.0.0.1":               "named with its port",
		"::1":                     "named with its port",
		"localhost":               "named with its port",
		"a.localhost":             "named with its port",
		"169.254.169.254":         "named with its port",
		"64:ff9b::8.8.8.8":        "named with its port",
		"*.10.0.0.5":              "nothing is below",
	} {
		_, err := ParsePattern(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestPatternsAllow(t *testing.T) {
	cases := []struct {
		pattern, host string
		port          int
		want          bool
	}{
		{"example.org", "example.org", 443, true},
		{"example.org", "EXAMPLE.org.", 80, true},
		{"example.org", "example.org", 8443, false},
		{"example.org", "www.example.org", 443, false},
		{"example.org", "notexample.org", 443, false},
		{"example.org", "example.org.evil.net", 443, false},
		{"*.example.org", "www.example.org", 443, true},
		{"*.example.org", "a.b.example.org", 80, true},
		{"*.example.org", "example.org", 443, false},
		{"*.example.org", "notexample.org", 443, false},
		{"*.example.org", ".example.org", 443, false},
		{"example.org:8443", "example.org", 8443, true},
		{"example.org:8443", "example.org", 443, false},
		{"10.0.0.5:80", "::ffff:10.0.0.5", 80, true},
		{"10.0.0.5:80", "10.0.0.05", 80, false},
		{"bücher.example", "xn--bcher-kva.example", 443, true},
	}
	for _, tc := range cases {
		p, err := ParsePattern(tc.pattern)
		require.NoError(t, err)
		require.Equal(t, tc.want, p.Allows(tc.host, tc.port), "%s, %s:%d", tc.pattern, tc.host, tc.port)
	}
}

func TestAddressesAreOfTheirKind(t *testing.T) {
	cases := map[reach][]string{
		public:    {"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"},
		private:   {"10.0.0.1", "127.0.0.1", "127.255.0.9", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.0.1", "198.18.0.1", "198.19.255.255", "::1", "fd00::1", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"},
		linkLocal: {"169.254.169.254", "fe80::1", "::ffff:169.254.169.254"},
		never: {
			"0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.51.100.1", "203.0.113.1",
			"::", "ff02::1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "100::1", "fec0::1", "::7f00:1", "3fff::1", "5f00::1",
		},
	}
	for want, addresses := range cases {
		for _, a := range addresses {
			require.Equal(t, want, reachOf(netip.MustParseAddr(a)), a)
		}
	}
}

func TestAddressesAreChecked(t *testing.T) {
	check := func(target, addr string, exactly bool) error {
		parsed, err := parseTarget(target, 0)
		require.NoError(t, err)
		return checkAddress(parsed, netip.MustParseAddr(addr), exactly)
	}
	require.NoError(t, check("a.test:443", "8.8.8.8", false))
	require.ErrorContains(t, check("a.test:443", "10.0.0.1", false), "its name leads to 10.0.0.1")
	require.NoError(t, check("a.test:8443", "10.0.0.1", true))
	require.Error(t, check("a.test:80", "169.254.169.254", true), "a name must not lead to the secrets of a cloud")
	require.NoError(t, check("169.254.169.254:80", "169.254.169.254", true))
	require.Error(t, check("a.test:80", "64:ff9b::a00:1", true))
	require.Error(t, check("240.0.0.1:80", "240.0.0.1", true), "it is nobody's, whatever is allowed")
	require.Error(t, check("a.test:80", "::ffff:127.0.0.1", false))
}

// Only the name of one host with its port reaches a private address, and no wildcard.
func TestWildcardsNameNoHostExactly(t *testing.T) {
	r, err := parseRules([]string{"*.corp.test:8443", "corp.test", "a.corp.test:8443", "b.corp.test"})
	require.NoError(t, err)
	for host, want := range map[string]bool{"a.corp.test": true, "b.corp.test": false, "c.corp.test": false, "corp.test": false} {
		require.Equal(t, want, r.exactly(Target{Host: host, Port: 8443}), host)
		require.False(t, r.exactly(Target{Host: host, Port: 443}), host)
	}
}

// An address of this machine is private, whatever range it is in.
func TestOwnAddressesArePrivate(t *testing.T) {
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	require.NotEmpty(t, own)
	for _, a := range own {
		addr := netip.MustParsePrefix(a.String()).Addr()
		require.Contains(t, []reach{private, linkLocal}, reachFromHere(addr), addr)
	}
	require.Equal(t, public, reachFromHere(netip.MustParseAddr("8.8.8.8")))
}

// FuzzTargets checks that everything a program asks for is either refused or
// has exactly one spelling.
func FuzzTargets(f *testing.F) {
	for _, s := range []string{"example.org:80", "[::1]:80", "0177.0.0.1:1", "a.b.:443", "[::ffff:1.2.3.4]:8", "*.a:1", "xn--a:2", "a:b:c", "[a]:1", ":80", "%61:1"} {
		f.Add(s)
	}
	all, err := parseRules([]string{"*.example.org", "example.net:8080", "10.0.0.5:80"})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		target, err := parseTarget(s, 0)
		if err != nil {
			return
		}
		again, err := parseTarget(target.String(), 0)
		require.NoError(t, err)
		require.Equal(t, target, again)
		_, isAddress := netip.ParseAddr(target.Host)
		require.Equal(t, isAddress == nil, target.addr.IsValid())
		if allowed, _ := all.allow(target); allowed {
			require.True(t, strings.HasSuffix(target.Host, ".example.org") || target.String() == "example.net:8080" || target.String() == "10.0.0.5:80")
		}
		if p, err := ParsePattern(target.String()); err == nil {
			require.True(t, p.Allows(target.Host, target.Port))
		}
	})
}

// FuzzPatterns checks that the normalised form of a pattern has the same
// meaning.
func FuzzPatterns(f *testing.F) {
	for _, s := range []string{"example.org", "*.example.net:80", "[::1]:5", "bücher.example", "10.0.0.5:8080", "ß.de", "a。b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePattern(s)
		if err != nil {
			return
		}
		again, err := ParsePattern(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.True(t, isASCII(p.String()))
	})
}
