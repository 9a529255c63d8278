// Package hostask has somebody decide about the hosts that commands want to
// reach. Commands make connections, often many at once to one host, and retry
// them; whoever decides is asked once, about several hosts together where they
// are wanted together, and no oftener than a person bears.
package hostask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Bounds of what somebody is asked. Names are chosen by commands, which may be
// hostile.
const (
	// MaxTogether is how many hosts one question is about.
	MaxTogether = 8
	// MaxHosts is how many hosts are asked about while commands run, until all
	// of them have ended.
	MaxHosts = 24
	// maxRefused is how many hosts are remembered as refused. Past it, nobody
	// is asked any more.
	maxRefused = 256

	// collectTime is how long a question waits for further hosts.
	collectTime = 150 * time.Millisecond
	// answerTime is how long an answer is waited for.
	answerTime = 5 * time.Minute
	// MaxTime is how long answers are waited for in all while commands run, until
	// all of them have ended. Time limits stand still meanwhile.
	MaxTime = 10 * time.Minute
)

// Answer is what somebody decided. The zero Answer refuses.
type Answer struct {
	Allow  bool
	Keep   bool   // for as long as the broker lives; without, until the commands that run have ended
	Reason string // of a refusal
}

// AskFunc asks about hosts, named as [Name] does. It is called by one goroutine
// at a time and must honour ctx, which ends when nobody wants to know any more.
type AskFunc func(ctx context.Context, hosts []string) (Answer, error)

// Broker takes what commands want to the one who decides, and remembers the
// answers. Make one with [New], and Close it. It is safe for concurrent use.
//
// A goroutine asks. It exists while hosts are waited for, and Close waits for
// it.
type Broker struct {
	ask  AskFunc
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex // guards what follows, and the fields of every want
	closed   bool
	working  bool             // the goroutine exists
	commands int              // that run
	asked    int              // hosts, since no command ran
	waited   time.Duration    // for answers, likewise
	since    time.Time        // the open question was asked
	wanted   map[string]*want // not decided yet
	queue    []*want          // those that no question is about yet, the oldest first
	open     []*want          // those that the open question is about
	withdraw context.CancelFunc
	kept     map[string]bool // allowed for good
	once     map[string]bool // allowed until no command runs
	refused  map[string]string
}

// want is a host that is waited for.
type want struct {
	host    string
	waiters int
	done    chan struct{} // closed once it is decided
	allowed bool          // ok to read when done is closed, as reason is
	reason  string
}

// New returns a broker that asks ask.
func New(ask AskFunc) *Broker {
	b := &Broker{
		ask:    ask,
		wanted: map[string]*want{}, kept: map[string]bool{}, once: map[string]bool{}, refused: map[string]string{},
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// Name names a host as questions do: with its port, unless that is one of the
// web's.
func Name(host string, port int) string {
	switch {
	case port != 80 && port != 443:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case net.ParseIP(host).To4() == nil && net.ParseIP(host) != nil:
		return "[" + host + "]"
	}
	return host
}

// Close refuses what is waited for, and waits until nobody is asked any more.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.wg.Wait()
}

// Command says that a command runs until end is called. A question that is open
// then is withdrawn unless a connection still waits for it.
func (b *Broker) Command() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.commands--; b.commands == 0 {
			clear(b.once)
			b.asked, b.waited, b.since = 0, 0, time.Now() // an open question counts from now
			b.dropUnwanted()
		}
	}
}

// Kept returns the hosts that were allowed for good, sorted.
func (b *Broker) Kept() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	hosts := make([]string, 0, len(b.kept))
	for host := range b.kept {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return hosts
}

// Refused reports whether a host was refused.
func (b *Broker) Refused(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, refused := b.refused[host]
	return refused
}

// Permit reports whether a host may be reached, asking if need be, and why not.
func (b *Broker) Permit(ctx context.Context, host string, port int) (allowed bool, reason string) {
	w, allowed, reason := b.join(Name(host, port))
	if w == nil {
		return allowed, reason
	}
	defer b.leave(w)
	select {
	case <-w.done:
		return w.allowed, w.reason
	case <-ctx.Done():
		return false, "the command gave the connection up before there was an answer"
	}
}

// join returns what is known of a host, or else the want to wait for.
func (b *Broker) join(host string) (w *want, allowed bool, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reason, refused := b.refused[host]
	w = b.wanted[host]
	switch {
	case b.closed:
		return nil, false, "the runtime is closed"
	case b.kept[host], b.once[host]:
		return nil, true, ""
	case refused:
		return nil, false, reason
	case w != nil:
		w.waiters++
		return w, false, ""
	case b.asked >= MaxHosts, len(b.refused) >= maxRefused:
		return nil, false, "commands want more hosts than somebody can be asked about"
	case b.waited >= MaxTime:
		return nil, false, errTooLong.Error()
	}
	w = &want{host: host, waiters: 1, done: make(chan struct{})}
	b.asked++
	b.wanted[host] = w
	b.queue = append(b.queue, w)
	if !b.working {
		b.working = true
		b.wg.Go(b.work)
	}
	return w, false, ""
}

// leave notes that one connection waits no longer.
func (b *Broker) leave(w *want) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.waiters--
	b.dropUnwanted()
}

// dropUnwanted withdraws the open question if nobody wants any of its hosts.
// While a command runs it may come back to a host that it has given up: programs
// try again. The caller holds mu.
func (b *Broker) dropUnwanted() {
	if b.withdraw != nil && !slices.ContainsFunc(b.open, b.isWanted) {
		b.withdraw()
	}
}

func (b *Broker) isWanted(w *want) bool { return b.commands > 0 || w.waiters > 0 }

// work asks until no host is waited for.
func (b *Broker) work() {
	for {
		b.collect()
		ctx, hosts := b.take()
		if hosts == nil {
			return
		}
		answer, err := Answer{}, errUnanswered
		if ctx.Err() == nil { // else it was closed meanwhile
			answer, err = b.ask(ctx, hosts)
		}
		if ctx.Err() != nil {
			answer, err = Answer{}, errUnanswered
		}
		b.settle(answer, err)
	}
}

// errUnanswered is why a host is refused about which nobody decided.
var errUnanswered = errors.New("there was no answer")

// errTooLong is why nobody is asked any more while commands run.
var errTooLong = fmt.Errorf("questions about hosts have held up commands for %d minutes, and no more are asked before these have ended", MaxTime/time.Minute)

// collect waits a moment for hosts that are wanted together.
func (b *Broker) collect() {
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.life.Done():
	}
}

// take makes a question of the hosts that wait. Without any, the goroutine has
// nothing to do any more.
func (b *Broker) take() (ctx context.Context, hosts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && len(b.open) < MaxTogether {
		w := b.queue[0]
		b.queue = b.queue[1:]
		if b.waited >= MaxTime {
			b.decide(w, false, errTooLong.Error())
			continue
		}
		if !b.isWanted(w) {
			b.decide(w, false, errUnanswered.Error())
			continue
		}
		b.open = append(b.open, w)
		hosts = append(hosts, w.host)
	}
	if hosts == nil {
		b.working = false
		return nil, nil
	}
	b.since = time.Now()
	ctx, b.withdraw = context.WithTimeout(b.life, min(answerTime, MaxTime-b.waited))
	return ctx, hosts
}

// settle decides the hosts of the open question.
func (b *Broker) settle(answer Answer, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withdraw()
	b.waited += time.Since(b.since)
	reason := answer.Reason
	if reason == "" {
		reason = "the user does not allow it"
	}
	for _, w := range b.open {
		switch {
		case err != nil:
			reason = err.Error()
		case answer.Allow && answer.Keep:
			b.kept[w.host] = true
		case answer.Allow:
			b.once[w.host] = true
		default:
			b.refused[w.host] = reason
		}
		b.decide(w, err == nil && answer.Allow, reason)
	}
	b.open, b.withdraw = nil, nil
}

// decide has those who wait for a host go on. The caller holds mu.
func (b *Broker) decide(w *want, allowed bool, reason string) {
	if w.allowed = allowed; !allowed {
		w.reason = reason
	}
	delete(b.wanted, w.host)
	close(w.done)
}
