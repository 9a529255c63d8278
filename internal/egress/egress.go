// Package egress lets the commands of a container without a network reach the
// hosts that a user has allowed, and no others. A [Proxy] runs on the host and
// speaks HTTP with programs inside, over connections that its caller accepts
// there. It takes requests with an absolute URL. For everything that is
// encrypted it takes CONNECT, and passes the bytes on unchanged.
//
// The target of a request is first normalised ([Target]) and compared with the
// patterns. Its name is looked up only after that. The resulting addresses are
// checked when they are dialled: addresses of this machine and its network are
// reached only if a pattern names them with their port.
//
// Programs inside are treated as hostile. Headers, connections, bytes and time
// are limited, and so is the number of hosts that are reported.
//
// [UnreachableHosts] finds out, from the output of a command, whether the command failed
// because it had no network. It knows the error messages of resolvers, package managers and
// other common programs.
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
)

// Config says what a proxy allows.
type Config struct {
	// Allow has patterns in the form that [ParsePattern] accepts.
	Allow []string
	// Ask is asked about a target that no pattern allows, on port 80 for HTTP
	// and 443 for tunnels. It may be called by several goroutines at once.
	// reason says why it refuses. Nil refuses every such target. A private
	// address is refused even if Ask allows its host.
	Ask func(ctx context.Context, host string, port int) (ok bool, reason string)
	// Tell is called once for each host while commands run. It must not block.
	// It may be nil.
	Tell func(Use)
	// Limit is the largest number of bytes that may pass through, in both
	// directions together. A negative value means no limit.
	Limit int64
	// Connect connects to "host:port" with a dialer that checks addresses. The
	// default is the dialer's own DialContext.
	Connect func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error)
	// Upstream returns the proxy through which this machine reaches a URL, or
	// nil for none. The default uses the proxy variables of the environment, as
	// this process had them when it first asked for anything.
	Upstream func(*url.URL) (*url.URL, error)
}

// Limits for what programs inside send.
const (
	maxConns   = 64
	maxHeader  = 64 << 10
	headerTime = 30 * time.Second
	waitTime   = 2 * time.Minute // between two requests on one connection
)

// Proxy is the only way out of one runtime. It outlives the runtime's
// containers.
type Proxy struct {
	config  Config
	rules   rules
	meter   meter
	ledger  ledger
	direct  *http.Transport // checks addresses
	chained *http.Transport // goes through the upstream proxy of this machine
	forward *httputil.ReverseProxy
}

// New returns a proxy. It fails if a pattern is not valid.
func New(config Config) (*Proxy, error) {
	if config.Upstream == nil {
		config.Upstream = func(to *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: to}) }
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
		FlushInterval: -1, // pass on data at once
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

// Watch starts to record the targets that are refused, and those that are
// allowed but cannot be reached. The returned function ends the recording and
// returns the targets. If there are many, only some are recorded.
func (p *Proxy) Watch() (end func() (refused, missed []Use)) { return p.ledger.begin() }

// Allowed returns the patterns in normalised form.
func (p *Proxy) Allowed() []string {
	var all []string
	for _, pattern := range p.rules {
		all = append(all, pattern.String())
	}
	return all
}

// Close closes idle connections. Call it when Serve has returned.
func (p *Proxy) Close() {
	p.direct.CloseIdleConnections()
	p.chained.CloseIdleConnections()
}

// inside has the names by which a machine refers to itself.
const inside = "localhost,127.0.0.1,::1"

// Environment returns the variables that make programs use the proxy at a port
// inside. The variables are set in lower and in upper case, because curl
// ignores HTTP_PROXY while other programs read nothing else.
func Environment(port int) []string {
	address := (&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}).String()
	return []string{
		"http_proxy=" + address, "https_proxy=" + address, "no_proxy=" + inside,
		"HTTP_PROXY=" + address, "HTTPS_PROXY=" + address, "NO_PROXY=" + inside,
		"NODE_USE_ENV_PROXY=1", // without it, node ignores the other variables
	}
}

// GitRewrites returns settings of git, as pairs of name and value. With them
// git uses HTTPS for the allowed hosts even if a repository has an ssh address,
// because ssh cannot use the proxy.
func (p *Proxy) GitRewrites() [][2]string {
	settings := [][2]string{{"url.https://.insteadOf", "ssh://git@"}}
	for _, pattern := range p.rules {
		if !pattern.below && pattern.port == 0 && !pattern.addr.IsValid() {
			settings = append(settings, [2]string{"url.https://" + pattern.host + "/.insteadOf", "git@" + pattern.host + ":"})
		}
	}
	return settings
}
