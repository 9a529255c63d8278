// Package doctor checks what a session needs: the Docker Engine, its image and network, the
// model and its key, the sandbox of this machine, the disk, and what ended processes have
// left. [Examine] reports a [Finding] for each of these checks, with what to do about it.
//
// The checks run at once, and each has ended after [Limit], whatever it waits for. A check
// changes nothing that stays: it starts one container of an image that the engine has, and
// makes temporary files, and removes both. Only the check of the model costs something.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/escape"
)

// Limit is how long the checks may take in all.
const Limit = 9 * time.Second

// grace is how long a check may take to report that its time is over.
const grace = 500 * time.Millisecond

// State says how serious a finding is.
type State string

// The states of a finding.
const (
	OK      State = "ok"
	Warning State = "warning" // a session starts, and something may be missing in it
	Problem State = "problem" // a session fails
)

// Finding is the outcome of one check.
type Finding struct {
	Check string `json:"check"`        // "engine", "image", "network", "key", "model", "protection", "disk" or "leftovers"
	State State  `json:"state"`        // how serious it is
	Found string `json:"found"`        // what there is
	Do    string `json:"do,omitempty"` // what to do, in a sentence; empty if nothing is left to do

	// Abilities are what the model was seen to do. Only the check "model" has them, and
	// only if the model has answered.
	Abilities *Abilities `json:"abilities,omitempty"`
}

// String is the finding in one line.
func (f Finding) String() string {
	text := f.Found
	if f.Do != "" {
		text += ". " + f.Do
	}
	return fmt.Sprintf("%-7s  %-11s %s", f.State, f.Check+":", escape.Readable(strings.Join(strings.Fields(text), " ")))
}

// checks are the names of all checks, in the order of their reports.
var checks = []string{"engine", "image", "network", "key", "model", "protection", "disk", "leftovers"}

// exam is one examination.
type exam struct {
	cfg      pygent.Config
	askModel bool
	found    map[string]chan Finding // by check, each with room for its finding

	counted chan struct{}  // closed when the leftovers were counted, to which no check may add before
	looked  chan struct{}  // closed when the engine was looked for; then what follows is set
	engine  *docker.Engine // nil for none
}

// Examine makes all checks of a configuration and reports their findings in a fixed order,
// each as soon as it and those before it are known. If askModel is false, no request is
// sent that costs tokens. It returns the error of ctx if that ends before.
func Examine(ctx context.Context, cfg pygent.Config, askModel bool, report func(Finding)) error {
	limited, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	e := &exam{cfg: cfg, askModel: askModel, found: map[string]chan Finding{}, looked: make(chan struct{}), counted: make(chan struct{})}
	for _, check := range checks {
		e.found[check] = make(chan Finding, 1)
	}
	var running sync.WaitGroup
	over := make(chan struct{}) // closed when every check has cleaned up
	for _, check := range []func(context.Context){
		e.checkEngine, e.checkImage, e.checkNetwork, e.checkModel, e.checkProtection, e.checkDisk, e.checkLeftovers,
	} {
		running.Go(func() { check(limited) })
	}
	go func() {
		defer close(over)
		running.Wait()
		if e.engine != nil {
			e.engine.Close()
		}
	}()
	for _, check := range checks {
		f := e.await(limited, check)
		if ctx.Err() != nil {
			break
		}
		f.Found, f.Do = e.withoutSecrets(f.Found), e.withoutSecrets(f.Do)
		report(f)
	}
	select {
	case <-over:
	case <-limited.Done():
		select { // a check that ignores its context is not waited for
		case <-over:
		case <-time.After(grace):
		}
	}
	return context.Cause(ctx)
}

// await returns the finding of a check, or that it has not ended in time.
func (e *exam) await(ctx context.Context, check string) Finding {
	select {
	case f := <-e.found[check]:
		return f
	case <-ctx.Done():
	}
	select {
	case f := <-e.found[check]:
		return f
	case <-time.After(grace):
		return Finding{Check: check, State: Warning, Found: fmt.Sprintf("no result within %s", Limit), Do: "Run pygent doctor again when the machine is less busy."}
	}
}

// report delivers the finding of a check.
func (e *exam) report(check string, state State, found, do string) {
	e.found[check] <- Finding{Check: check, State: state, Found: found, Do: do}
}

// isLocal reports whether commands run on this machine. It waits until the engine was
// looked for.
func (e *exam) isLocal() bool {
	<-e.looked
	return e.cfg.Container.Docker == pygent.DockerNever || e.cfg.Container.Docker == pygent.DockerAuto && e.engine == nil
}

// bare returns the configuration without what a runtime copies or makes in the user's
// directories.
func (e *exam) bare() pygent.Config {
	cfg := e.cfg
	cfg.Workspace, cfg.InitialFiles, cfg.Repositories = "", nil, nil
	return cfg
}

// withoutSecrets leaves the keys of the configuration out of a text, which may quote a
// server that repeats them.
func (e *exam) withoutSecrets(text string) string {
	secrets := []pygent.Secret{e.cfg.OpenAI.APIKey}
	for _, value := range e.cfg.OpenAI.Headers {
		secrets = append(secrets, value)
	}
	for _, secret := range secrets {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, string(secret), "[redacted]")
		}
	}
	return text
}

// shortestSecret is the length of the shortest key that is left out of texts: that of
// servers without keys is often a word such as "x".
const shortestSecret = 4
