package egress

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	tests := map[string]struct {
		output string
		hosts  []string
	}{
		"curl":       {"curl: (6) Could not resolve host: example.org\n", []string{"example.org"}},
		"wget":       {"Resolving example.org (example.org)... failed: Temporary failure in name resolution.\nwget: unable to resolve host address ‘example.org’", []string{"example.org"}},
		"busybox":    {"wget: bad address 'example.org'", []string{"example.org"}},
		"git":        {"Cloning into 'x'...\nfatal: unable to access 'https://github.com/x/y/': Could not resolve host: github.com", []string{"github.com"}},
		"ssh":        {"ssh: Could not resolve hostname github.com: Temporary failure in name resolution\r\nfatal: Could not read from remote repository.", []string{"github.com"}},
		"pip":        {"ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/x/ (Caused by NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution'))", []string{"pypi.org"}},
		"pip, old":   {"WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('Failed to establish a new connection: [Errno -2] Name or service not known')': /simple/x/", nil},
		"npm":        {"npm ERR! code EAI_AGAIN\nnpm ERR! request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org", []string{"registry.npmjs.org"}},
		"node":       {"Error: getaddrinfo ENOTFOUND api.example.com", []string{"api.example.com"}},
		"go":         {"go: x@v1: Get \"https://proxy.golang.org/x/@v/v1.info\": dial tcp: lookup proxy.golang.org on [::1]:53: read udp: connection refused", []string{"proxy.golang.org"}},
		"apt":        {"Err:1 http://deb.debian.org/debian bookworm InRelease\n  Temporary failure resolving 'deb.debian.org'\nE: Could not resolve 'security.debian.org'", []string{"deb.debian.org", "security.debian.org"}},
		"python":     {"urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", nil},
		"java":       {"Caused by: java.net.UnknownHostException: repo.maven.apache.org", []string{"repo.maven.apache.org"}},
		"an address": {"connect: Network is unreachable", nil},
		"repeated":   {strings.Repeat("curl: (6) Could not resolve host: example.org\n", 3), []string{"example.org"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hosts, offline := UnreachableHosts(tt.output)
			require.True(t, offline)
			require.Equal(t, tt.hosts, hosts)
		})
	}
}

func TestOtherFailuresAreNotForWantOfANetwork(t *testing.T) {
	for _, output := range []string{
		"", "exit status 1", "curl: (22) The requested URL returned error: 404",
		"npm ERR! 404 Not Found", "error: could not resolve all dependencies", "cannot resolve symbol example.org",
		"dial tcp 127.0.0.1:5432: connect: connection refused",
	} {
		hosts, offline := UnreachableHosts(output)
		require.Empty(t, hosts, output)
		require.False(t, offline, output)
	}
}

func TestHostsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "Could not resolve host: %d.example.org\n", i)
	}
	hosts, offline := UnreachableHosts(b.String())
	require.True(t, offline)
	require.Len(t, hosts, MaxUnreachable)

	hosts, _ = UnreachableHosts("Could not resolve host: " + strings.Repeat("a.", 1<<20) + "org")
	require.Empty(t, hosts)
	hosts, _ = UnreachableHosts("Could not resolve host: localhost\nCould not resolve host: 127.0.0.1\nbad address 'a..b'")
	require.Empty(t, hosts)
}
