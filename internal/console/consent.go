package console

import (
	"context"
	"sync"

	"github.com/x/pygent/internal/hostask"
)

// Consent has somebody decide what may be done, and remembers what they always
// allow. It is safe for concurrent use.
type Consent struct {
	console *Console
	always  sync.Map // the Scope of requests that were always allowed
}

// NewConsent returns a consent that is asked for on a console.
func NewConsent(c *Console) *Consent { return &Consent{console: c} }

// Request asks whether something may be done.
type Request struct {
	Head  string // what is asked, in a few words of ours
	Title string // what the text is; may be empty
	Text  string // what would be done

	// Always says in words what "always" allows, and Scope is the same for all
	// requests that this allows. Without a Scope nothing is allowed for longer.
	Always, Scope string
}

// Decision is what somebody decided. No decision is no.
type Decision struct {
	Allow   bool
	Session bool   // for as long as the session goes on
	Always  bool   // for good; Session is set too
	Reason  string // why not, for who wanted it; may be empty
}

// The words that may be answered beside [No].
const (
	yes     = "yes"
	session = "session"
	always  = "always"
)

// Allow asks about something, unless that is always allowed.
func (c *Consent) Allow(ctx context.Context, r Request) (Decision, error) {
	if _, allowed := c.always.Load(r.Scope); allowed {
		return Decision{Allow: true}, nil
	}
	words, offer := []string{yes}, ""
	if r.Scope != "" {
		words, offer = append(words, always), "[a]lways "+r.Always+", "
	}
	d, err := c.decide(ctx, Question{
		Head: r.Head, Title: r.Title, Text: r.Text,
		Prompt: "[y]es, " + offer + "or say why not: ",
	}, words)
	if d.Always {
		c.always.Store(r.Scope, true)
	}
	return d, err
}

// AllowHosts asks about hosts that a command wants to reach, about all of them
// together. canKeep offers to allow them for good, which the caller then has to do.
func (c *Consent) AllowHosts(ctx context.Context, hosts []string, canKeep bool) (Decision, error) {
	q := Question{Head: "A command wants to reach"}
	q.Text, q.Prompt = hostask.Words(hosts, canKeep)
	return c.decide(ctx, q, []string{yes, session, always})
}

func (c *Consent) decide(ctx context.Context, q Question, words []string) (Decision, error) {
	choice, said, err := c.console.Choose(ctx, q, words...)
	d := Decision{
		Allow:   err == nil && choice != No,
		Session: choice == session || choice == always,
		Always:  choice == always,
	}
	if said != "" {
		d.Reason = "the user says: " + said
	}
	return d, err
}
