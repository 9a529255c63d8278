package console

import (
	"context"

	"github.com/x/pygent/internal/approval"
)

// Consent asks the user what may be done. It is safe for concurrent use.
type Consent struct{ console *Console }

// NewConsent returns a Consent that asks on a console.
func NewConsent(c *Console) *Consent { return &Consent{console: c} }

// Request asks whether something may be done.
type Request struct {
	Head  string // what is asked, in a few words of the program
	Title string // what Text is; may be empty
	Text  string // what would be done

	// Always describes what the answer "always" allows. If it is empty, that
	// answer is not offered.
	Always string
}

// Decision is what the user decided. The zero Decision allows nothing.
type Decision struct {
	Allow   bool
	Session bool   // for the rest of the session
	Always  bool   // for good; Session is set too
	Reason  string // why not, for the model; may be empty
}

// The possible answers besides [No].
const (
	yes     = "yes"
	session = "session"
	always  = "always"
)

// Allow asks the user about a request.
func (c *Consent) Allow(ctx context.Context, r Request) (Decision, error) {
	words, offer := []string{yes}, ""
	if r.Always != "" {
		words, offer = append(words, always), "[a]lways allow "+r.Always+", "
	}
	return c.decide(ctx, Question{
		Head: r.Head, Title: r.Title, Text: r.Text,
		Prompt: "[y]es, " + offer + "or say why not: ",
	}, words)
}

// AllowHosts asks whether a command may reach some hosts, all of them together.
// canKeep offers to allow them for good, which the caller then has to do.
func (c *Consent) AllowHosts(ctx context.Context, hosts []string, canKeep bool) (Decision, error) {
	q := Question{Head: "A command wants to reach"}
	q.Text, q.Prompt = approval.Words(hosts, canKeep)
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
