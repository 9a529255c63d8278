package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/guard"
)

// ToolSource gives an agent tools that are not known when it is made: those of a
// server, say, that runs in the agent's runtime.
//
// It is opened once for each agent, with the agent's own runtime: at the
// beginning of the agent's first run, or of the next one if that failed. Its
// error ends the run. ctx is for opening only. Closing the agent closes what the
// source returned, before the runtime, and waits for it at most ten seconds; nil
// means that there is nothing to close. The agent's tasks inherit the sources,
// and open them for themselves. What runs in the runtime of a task ends when the
// task rests, so its sources are closed then, and opened again by its next run.
//
// set gives the agent the source's tools in place of those that it gave before,
// all or none of them, with effect at the next model call. An invalid tool, and a
// name that the agent or another source has already, is an error. A source may
// call set before it returns and at any time later, from any goroutine, for
// example when a server announces other tools. Once the source is closed, set
// returns [ErrAgentClosed].
type ToolSource func(ctx context.Context, rt Runtime, set func(tools ...Tool) error) (io.Closer, error)

// WithToolSource adds a source of tools to the agent. The name is for errors;
// each source needs another one.
func WithToolSource(name string, s ToolSource) Option {
	return option(func(o *options) {
		if s != nil {
			o.sources = append(o.sources, namedSource{name, s})
		}
	})
}

type namedSource struct {
	name string
	open ToolSource
}

// tooling returns the agent's own registry.
func (o *options) tooling() (*Registry, error) {
	from := o.registry
	if from == nil {
		from = defaultRegistry()
	}
	r := from.clone()
	for _, t := range o.tools {
		if err := r.Add(t); err != nil {
			return nil, err
		}
	}
	for i, s := range o.sources {
		if s.name == "" || slices.ContainsFunc(o.sources[:i], func(other namedSource) bool { return other.name == s.name }) {
			return nil, fmt.Errorf("option WithToolSource: want another name than %q for source %d", s.name, i+1)
		}
	}
	if len(o.sources) == 0 { // else the names may be of tools that come later
		if err := errors.Join(r.known("disabled", o.disabled), r.known("to be approved", o.ownApprovalFor())); err != nil {
			return nil, err
		}
	}
	r.keepDisabled(o.disabled)
	return r, nil
}

// closeSourceWithin bounds how long Close waits for the sources of tools.
const closeSourceWithin = 10 * time.Second

// toolSources are the open sources of an agent.
type toolSources struct {
	mu   sync.Mutex // guards open
	open map[string]*openSource
}

// openSource is a source that is being opened or open.
type openSource struct {
	name  string
	tools *Registry

	mu     sync.Mutex // guards the fields below; held while the tools change
	over   bool       // closed, or given up
	closer io.Closer
}

// openSources opens the sources that are not open yet, at the same time.
func (a *Agent) openSources(ctx context.Context) error {
	if len(a.opts.sources) == 0 {
		return nil
	}
	var all sync.WaitGroup
	failed := make([]error, len(a.opts.sources))
	for i, s := range a.opts.sources {
		a.sources.mu.Lock()
		isOpen := a.sources.open[s.name] != nil
		a.sources.mu.Unlock()
		if !isOpen {
			all.Go(func() { failed[i] = a.openSource(ctx, s) })
		}
	}
	all.Wait()
	return errors.Join(failed...)
}

func (a *Agent) openSource(ctx context.Context, s namedSource) error {
	o := &openSource{name: s.name, tools: a.tools}
	_, err := guard.Outlive(ctx, func() (struct{}, error) {
		defer a.enter(&a.calling, "the tool source "+s.name)()
		closer, err := s.open(ctx, a.runtime, o.set)
		return struct{}{}, errors.Join(err, o.opened(closer))
	})
	a.logPanic("tool source "+s.name, err)
	if err != nil {
		closed := guard.Within(closeSourceWithin, o.close) // what it returned beside the error
		a.logPanic("tool source "+s.name, closed)
		return fmt.Errorf("tool source %s: %w", s.name, errors.Join(err, closed))
	}
	a.sources.mu.Lock()
	defer a.sources.mu.Unlock()
	if a.sources.open == nil {
		a.sources.open = map[string]*openSource{}
	}
	a.sources.open[s.name] = o
	return nil
}

// opened takes what the source returned, and closes it at once if nobody waits
// for the source any more.
func (o *openSource) opened(closer io.Closer) error {
	o.mu.Lock()
	over := o.over
	if !over {
		o.closer = closer
	}
	o.mu.Unlock()
	if over && closer != nil {
		return closer.Close()
	}
	return nil
}

// set is the function that a source gets.
func (o *openSource) set(tools ...Tool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return fmt.Errorf("tool source %s: %w", o.name, ErrAgentClosed)
	}
	return o.tools.setSource(o.name, tools)
}

// close takes the source's tools away and closes it.
func (o *openSource) close() error {
	o.mu.Lock()
	closer := o.closer
	o.over, o.closer = true, nil
	err := o.tools.setSource(o.name, nil)
	o.mu.Unlock()
	if closer != nil {
		err = closer.Close()
	}
	return err
}

// closeSources closes the agent's sources, at the same time.
func (a *Agent) closeSources() error {
	a.sources.mu.Lock()
	open := a.sources.open
	a.sources.open = nil
	a.sources.mu.Unlock()
	var all sync.WaitGroup
	failed := make(chan error, len(open))
	for _, o := range open {
		all.Go(func() {
			err := guard.Within(closeSourceWithin, func() error {
				defer a.enter(&a.calling, "the tool source "+o.name)()
				return o.close()
			})
			a.logPanic("tool source "+o.name, err)
			if err != nil && !errors.Is(err, guard.ErrLeftBehind) { // leftBehind reports that
				failed <- fmt.Errorf("close the tool source %s: %w", o.name, err)
			}
		})
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
