// Package approval is about who is asked what an agent may do.
//
// An [Approver] knows who decides about an agent's calls while front ends come and go: the
// program that made the agent, or else the person at the newest front end. One that leaves
// takes along what it brought and nothing else, in whatever order they leave, so no command
// runs unasked because somebody else has closed a page.
//
// A [Broker] asks a user, or whoever decides in their place, about the hosts that commands
// want to reach. Commands often make many connections to one host at the same time, and
// retry them. It asks about each host only once, combines hosts that are wanted at the same
// time into one question, and limits how often it asks.
package approval

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

// Limits of the questions. Commands choose the names, and may be hostile.
const (
	// MaxTogether is the largest number of hosts in one question.
	MaxTogether = 8
	// MaxHosts is how many hosts are asked about. The count starts again when
	// no command runs any more.
	MaxHosts = 24
	// maxRefused is how many refused hosts are remembered. Once it is reached,
	// no more questions are asked.
	maxRefused = 256

	// collectTime is how long a question waits for further hosts.
	collectTime = 150 * time.Millisecond
	// answerTime is how long to wait for an answer.
	answerTime = 5 * time.Minute
	// MaxTime is how long answers are waited for in total. The time limits of
	// commands are paused meanwhile. The count starts again when no command
	// runs any more.
	MaxTime = 10 * time.Minute
)

// Answer is a decision about hosts. The zero Answer refuses.
type Answer struct {
	Allow  bool
	Keep   bool   // valid as long as the broker lives; else until the running commands have ended
	Reason string // why it was refused
}

// AskFunc asks about hosts, each in the form of [Name]. Only one call runs at a
// time. It must return when ctx ends, which happens when the answer is no
// longer needed.
type AskFunc func(ctx context.Context, hosts []string) (Answer, error)

// Broker passes requests of commands for hosts on to an AskFunc, and remembers
// the answers. Make one with [New], and Close it at the end. It is safe for
// concurrent use.
//
// The questions are asked by one goroutine. It exists only while requests are
// waiting, and Close waits for it.
type Broker struct {
	ask  AskFunc
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the fields below, and the fields of every want
	closed   bool
	working  bool             // the goroutine exists
	commands int              // number of running commands
	asked    int              // number of hosts asked about since no command ran
	waited   time.Duration    // time spent waiting for answers since no command ran
	since    time.Time        // when the open question was asked
	wanted   map[string]*want // hosts that are not decided yet
	queue    []*want          // those that are in no question yet, the oldest first
	open     []*want          // those in the open question
	withdraw context.CancelFunc
	kept     map[string]bool // allowed for good
	once     map[string]bool // allowed until no command runs
	refused  map[string]string
}

// want is a host that connections are waiting for.
type want struct {
	host    string
	waiters int
	done    chan struct{} // closed once it is decided
	allowed bool          // valid once done is closed, like reason
	reason  string
}

// New returns a broker that uses ask for its questions.
func New(ask AskFunc) *Broker {
	b := &Broker{
		ask:    ask,
		wanted: map[string]*want{}, kept: map[string]bool{}, once: map[string]bool{}, refused: map[string]string{},
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// Name returns the name of a host as it is used in questions: with its port,
// unless the port is 80 or 443.
func Name(host string, port int) string {
	switch {
	case port != 80 && port != 443:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case net.ParseIP(host).To4() == nil && net.ParseIP(host) != nil:
		return "[" + host + "]"
	}
	return host
}

// Close refuses all hosts that are waiting, and waits until no question is
// open.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.wg.Wait()
}

// Command tells the broker that a command runs, until end is called. When it
// ends, the open question is withdrawn, unless a connection still waits for the
// answer.
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

// Kept returns the hosts that are allowed permanently, sorted.
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

// Permit reports whether a host may be reached, and if not, why. It asks if
// need be, and waits for the answer.
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

// join returns the decision about a host if there is one, else the want to wait
// for.
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

// leave records that one connection no longer waits.
func (b *Broker) leave(w *want) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.waiters--
	b.dropUnwanted()
}

// dropUnwanted withdraws the open question if nobody wants any of its hosts.
// While a command runs it is kept even if the command has given up: programs
// try again. The caller holds mu.
func (b *Broker) dropUnwanted() {
	if b.withdraw != nil && !slices.ContainsFunc(b.open, b.isWanted) {
		b.withdraw()
	}
}

func (b *Broker) isWanted(w *want) bool { return b.commands > 0 || w.waiters > 0 }

// work asks until no host is waiting.
func (b *Broker) work() {
	for {
		b.collect()
		ctx, hosts := b.take()
		if hosts == nil {
			return
		}
		answer, err := Answer{}, errUnanswered
		if ctx.Err() == nil { // else the broker was closed in the meantime
			answer, err = b.ask(ctx, hosts)
		}
		if ctx.Err() != nil {
			answer, err = Answer{}, errUnanswered
		}
		b.settle(answer, err)
	}
}

// errUnanswered is the reason to refuse a host that nobody has decided about.
var errUnanswered = errors.New("there was no answer")

// errTooLong is the reason why no more questions are asked while the commands
// run.
var errTooLong = fmt.Errorf("questions about hosts have held up commands for %d minutes, and no more are asked before these have ended", MaxTime/time.Minute)

// collect waits a moment for further hosts, so that they are in the same
// question.
func (b *Broker) collect() {
	timer := time.NewTimer(collectTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.life.Done():
	}
}

// take makes a question of the hosts that are waiting. It returns no hosts if
// none is; the goroutine then ends.
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

// settle applies an answer to the hosts of the open question.
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

// decide records a decision and wakes those who wait for the host. The caller
// holds mu.
func (b *Broker) decide(w *want, allowed bool, reason string) {
	if w.allowed = allowed; !allowed {
		w.reason = reason
	}
	delete(b.wanted, w.host)
	close(w.done)
}
