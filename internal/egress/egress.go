// Package egress lets the commands of a container that has no network reach the
// hosts that a user named, and no others. A [Proxy] runs on the host and speaks
// HTTP with programs inside, over connections that somebody else accepts there:
// requests with an absolute URL, and CONNECT for everything that is encrypted,
// which passes through untouched.
//
// What a request asks for is brought into one spelling first ([Target]) and
// compared with the patterns; only then is a name looked up. The addresses that
// come of it are checked where they are dialled: those of this machine and its
// network are reached only when a pattern names them with their port.
//
// Programs inside are hostile: headers, connections, bytes and time are bounded,
// and so is what is told of the hosts that they ask for.
package egress

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Config says what a proxy allows.
type Config struct {
	// Allow are patterns as [ParsePattern] takes them.
	Allow []string
	// Ask is asked, by any number of goroutines, about a target that no pattern
	// allows, on the ports 80 for HTTP and 443 for tunnels. Nil refuses. The reason
	// is that of a refusal. A private address is refused even so.
	Ask func(ctx context.Context, host string, port int) (ok bool, reason string)
	// Tell hears of each host once while commands run. It must not wait. May be nil.
	Tell func(Use)
	// Limit is how many bytes may go through, both ways together; none when
	// negative.
	Limit int64
	// Connect connects to "host:port" with a dialer that checks addresses. Default
	// that of the dialer.
	Connect func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error)
	// Upstream returns the proxy through which this machine reaches a URL, or nil.
	// Default that of the environment.
	Upstream func(*url.URL) (*url.URL, error)
}

// Limits of what programs inside send.
const (
	maxConns   = 64
	maxHeader  = 64 << 10
	headerTime = 30 * time.Second
	waitTime   = 2 * time.Minute // between two requests on one connection
)

// Proxy is the way out of one runtime, whatever becomes of its containers.
type Proxy struct {
	config  Config
	rules   rules
	meter   meter
	ledger  ledger
	direct  *http.Transport // checks addresses
	chained *http.Transport // through the proxy of this machine
	forward *httputil.ReverseProxy
}

// New returns a proxy.
func New(config Config) (*Proxy, error) {
	if config.Upstream == nil {
		config.Upstream = httpproxy.FromEnvironment().ProxyFunc()
	}
	if config.Connect == nil {
		config.Connect = func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", address)
		}
	}
	rules, err := parseRules(config.Allow)
	if err != nil {
		return nil, err
	}
	p := &Proxy{config: config, rules: rules, meter: meter{limit: config.Limit}, ledger: ledger{tell: config.Tell}}
	p.direct, p.chained = newTransport(), newTransport()
	p.direct.DialContext = p.dialChecked
	p.chained.DialContext = p.dialName
	p.chained.Proxy = chainedProxy
	p.forward = &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     roundTripper(p.roundTrip),
		FlushInterval: -1, // what comes is passed on at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { answerError(w, err) },
	}
	return p, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		DisableCompression:     true,
		MaxIdleConnsPerHost:    8,
		MaxIdleConns:           maxConns,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Watch begins to remember what is refused, and what is allowed but cannot be
// reached. The function that it returns ends that, and returns the targets, some
// of them when there were many.
func (p *Proxy) Watch() (end func() (refused, missed []Use)) { return p.ledger.begin() }

// Allowed returns the patterns in their one spelling.
func (p *Proxy) Allowed() []string {
	var all []string
	for _, pattern := range p.rules {
		all = append(all, pattern.String())
	}
	return all
}

// Close gives back what is kept for further requests. Serve has ended.
func (p *Proxy) Close() {
	p.direct.CloseIdleConnections()
	p.chained.CloseIdleConnections()
}

// inside are the names of a machine for itself.
const inside = "localhost,127.0.0.1,::1"

// Environment are the variables that lead programs to the proxy at a port inside.
// Both cases are in use: curl does not read HTTP_PROXY, and others only that.
func Environment(port int) []string {
	address := (&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}).String()
	return []string{
		"http_proxy=" + address, "https_proxy=" + address, "no_proxy=" + inside,
		"HTTP_PROXY=" + address, "HTTPS_PROXY=" + address, "NO_PROXY=" + inside,
		"NODE_USE_ENV_PROXY=1", // node reads the others only then
	}
}

// GitRewrites are settings of git, as names and values, that have it reach the
// named hosts by HTTPS where a repository is named as for ssh, which has no way
// out.
func (p *Proxy) GitRewrites() [][2]string {
	settings := [][2]string{{"url.https://.insteadOf", "ssh://git@"}}
	for _, pattern := range p.rules {
		if !pattern.below && pattern.port == 0 && !pattern.addr.IsValid() {
			settings = append(settings, [2]string{"url.https://" + pattern.host + "/.insteadOf", "git@" + pattern.host + ":"})
		}
	}
	return settings
}
