//go:build linux

package escape

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// request is a script that sends bytes to the proxy inside the container, as they
// are, and prints the answer.
const request = `perl -MIO::Socket::INET -e '
	my ($proxy) = $ENV{http_proxy} =~ m{//([^/]+)}; my $s = IO::Socket::INET->new(PeerAddr => $proxy, Timeout => 5) or die "no proxy: $!";
	$s->autoflush; local $/; print $s <STDIN>; $SIG{ALRM} = sub { exit }; alarm 1; print while sysread $s, $_, 4096' <<'END'
%s
END
`

// TestAllowedHostsAreNoWayToOthers allows one server on this machine. It asks the
// proxy in a container for another one, which has a secret, in all the ways that
// have fooled other programs.
func TestAllowedHostsAreNoWayToOthers(t *testing.T) {
	everywhere(t, containers(), func(t *testing.T, v *victim, p place) {
		serve := func(says string) string {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, says) }))
			t.Cleanup(server.Close)
			_, port, err := net.SplitHostPort(server.Listener.Addr().String())
			require.NoError(t, err)
			return port
		}
		allowed, secret := "127.0.0.1:"+serve("hello"), serve(v.word)
		r := p.new(t, pygent.WithAllowedHosts(allowed))
		ask := func(lines ...string) string {
			return bash(t, r, fmt.Sprintf(request, strings.Join(lines, "\r\n")+"\r\n\r\n"))
		}
		require.Contains(t, ask("GET http://"+allowed+"/ HTTP/1.1", "Host: "+allowed, "Connection: close"), "hello")

		get := func(url, host string) []string {
			return []string{"GET " + url + " HTTP/1.1", "Host: " + host, "Connection: close"}
		}
		other := "127.0.0.1:" + secret
		attacks := map[string][]string{
			"another port":          get("http://"+other+"/", other),
			"a host that lies":      get("http://"+other+"/", allowed),
			"a host that is others": get("/", other),
			"a user that is a host": get("http://"+allowed+"@"+other+"/", allowed),
			"a fragment":            get("http://"+other+"#@"+allowed+"/", allowed),
			"a backslash":           get(`http://`+allowed+`\@`+other+`/`, allowed),
			"a tunnel":              {"CONNECT " + other + " HTTP/1.1", "Host: " + allowed, "", "GET / HTTP/1.1", "Host: x"},
			"a tunnel through lies": {"CONNECT " + other + " HTTP/1.1", "Host: " + other},
			"two requests":          append(append([]string{"GET http://" + allowed + "/ HTTP/1.1", "Host: " + allowed, "Content-Length: 0", ""}, get("http://"+other+"/", other)...), ""),
			"a smuggled request":    {"POST http://" + allowed + "/ HTTP/1.1", "Host: " + allowed, "Content-Length: 4", "Transfer-Encoding: chunked", "", "0", "", "GET http://" + other + "/ HTTP/1.1", "Host: " + other},
			"an upgrade":            append(get("http://"+other+"/", other), "Upgrade: websocket", "Connection: Upgrade"),
		}
		for _, host := range []string{"0177.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0", "[::]", "127.0.0.1.", "127.0.0.1%00." + allowed, "①②⑦.0.0.1"} {
			attacks[host] = get("http://"+host+":"+secret+"/", host)
			attacks["a tunnel to "+host] = []string{"CONNECT " + host + ":" + secret + " HTTP/1.1", "Host: " + host, "", "GET / HTTP/1.1", "Host: x"}
		}
		for name, lines := range attacks {
			t.Run(name, func(t *testing.T) { v.silent(t, name, ask(lines...)) })
		}
		held(t, v, r, `for a in 127.0.0.1/`+secret+` 172.17.0.1/`+secret+`; do timeout 5 bash -c ": >/dev/tcp/$a" && echo ESCAPED; done`)
	})
}
