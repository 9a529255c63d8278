package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/safecall"
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
// all or none of them, with effect at the next model call. An invalid tool, a
// name that the agent or another source has already, and more tools than a
// request takes (128, with all others of the agent) are an error. A source may
// call set before it returns and at any time later, from any goroutine, for
// example when a server announces other tools. Each change is an
// [EventSettings]. Once the agent has closed the source or given it up, set
// returns an error that matches [ErrSourceClosed].
//
// A source whose server ended can start another one in rt by itself. If it would
// rather be opened anew, it calls set without tools, so that the model is offered
// none that fail, and returns a [ToolServer], which the agent asks.
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

// ToolServer is what a [ToolSource] may return, to be asked before each run
// whether it still works. Where Alive returns false, the agent closes it and opens
// the source again. Alive must not wait for anything.
type ToolServer interface {
	io.Closer
	Alive() bool
}

// ErrSourceClosed is returned to a [ToolSource] that sets its tools too late: its
// agent has closed it, or has not waited for it to open.
var ErrSourceClosed = errors.New("the agent has closed this source")

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
	r.keepDisabled(slices.Concat(o.disabled, o.forbidden))
	return r, nil
}

// closeSourceWithin bounds how long Close waits for the sources of tools.
const closeSourceWithin = 10 * time.Second

// toolSources are the sources of an agent's tools.
type toolSources struct {
	given    []namedSource
	tools    *Registry // gets theirs
	runtime  Runtime   // in which they are opened
	calls    *callbacks
	isClosed func() bool // reports whether the agent is

	mu   sync.Mutex // guards open
	open map[string]*openSource
}

// openSource is a source that is being opened or open.
type openSource struct {
	name string
	of   *toolSources

	mu     sync.Mutex // guards the fields below; held while the tools change
	over   bool       // closed, or given up
	gave   bool       // tools were set
	closer io.Closer
}

// openAll opens the sources that are not open yet, or whose server ended, at the same
// time.
func (t *toolSources) openAll(ctx context.Context) error {
	if len(t.given) == 0 {
		return nil
	}
	var all sync.WaitGroup
	failed := make([]error, len(t.given))
	for i, s := range t.given {
		t.mu.Lock()
		before := t.open[s.name]
		t.mu.Unlock()
		all.Go(func() {
			if before == nil || t.hasEnded(ctx, before) {
				failed[i] = t.openOne(ctx, s)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// hasEnded reports whether the server of a source ended, and closes the source then.
func (t *toolSources) hasEnded(ctx context.Context, o *openSource) bool {
	o.mu.Lock()
	server, asks := o.closer.(ToolServer)
	o.mu.Unlock()
	if !asks {
		return false
	}
	alive, err := safecall.Outlive(ctx, func() (bool, error) {
		defer t.calls.enter(&t.calls.calling, "the tool source "+o.name)()
		return server.Alive(), nil
	})
	if alive || ctx.Err() != nil {
		return false
	}
	t.calls.logPanic("tool source "+o.name, err)
	if err := t.closeOne(o); err != nil { // as it may be for a server that ended
		t.calls.log.Debug("close a tool source whose server ended", "source", o.name, "error", err)
	}
	t.tools.tellChange()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, o.name)
	return true
}

func (t *toolSources) openOne(ctx context.Context, s namedSource) error {
	o := &openSource{name: s.name, of: t}
	_, err := safecall.Outlive(ctx, func() (struct{}, error) {
		defer t.calls.enter(&t.calls.calling, "the tool source "+s.name)()
		closer, err := s.open(ctx, t.runtime, o.set)
		return struct{}{}, errors.Join(err, o.opened(closer))
	})
	t.calls.logPanic("tool source "+s.name, err)
	if err != nil {
		closed := t.closeOne(o) // what it returned beside the error
		if o.hasGiven() {
			t.tools.tellChange()
		}
		return errors.Join(fmt.Errorf("tool source %s: %w", s.name, err), closed)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]*openSource{}
	}
	t.open[s.name] = o
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

func (o *openSource) hasGiven() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gave
}

// set is the function that a source gets.
func (o *openSource) set(tools ...Tool) error {
	if err := o.replace(tools); err != nil {
		return fmt.Errorf("tool source %s: %w", o.name, err)
	}
	o.of.tools.tellChange()
	return nil
}

func (o *openSource) replace(tools []Tool) error {
	useless := o.of.tools.useless(tools, o.of.runtime) // asks the tools, which may call set
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.over:
	case o.of.isClosed():
		return fmt.Errorf("%w: %w", ErrSourceClosed, ErrAgentClosed)
	default:
		return ErrSourceClosed
	}
	err := o.of.tools.setSource(o.name, tools, useless)
	o.gave = o.gave || err == nil
	return err
}

// close takes the source's tools away and closes it.
func (o *openSource) close() error {
	o.mu.Lock()
	closer := o.closer
	o.over, o.closer = true, nil
	err := o.of.tools.setSource(o.name, nil, nil)
	o.mu.Unlock()
	if closer != nil {
		err = closer.Close()
	}
	return err
}

// close closes the sources, at the same time.
func (t *toolSources) close() error {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	var all sync.WaitGroup
	failed := make(chan error, len(open))
	for _, o := range open {
		all.Go(func() { failed <- t.closeOne(o) })
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *toolSources) closeOne(o *openSource) error {
	err := safecall.Within(closeSourceWithin, func() error {
		defer t.calls.enter(&t.calls.calling, "the tool source "+o.name)()
		return o.close()
	})
	t.calls.logPanic("tool source "+o.name, err)
	if err == nil || errors.Is(err, safecall.ErrLeftBehind) { // leftBehind reports that
		return nil
	}
	return fmt.Errorf("close the tool source %s: %w", o.name, err)
}

// setSource replaces the tools of a source, all or none of them. What exceeds a
// request, not counting the useless tools, is an error.
func (r *Registry) setSource(source string, tools []Tool, useless map[string]bool) error {
	named := make(map[string]Tool, len(tools))
	for _, t := range tools {
		checked, err := t.checked()
		if err != nil {
			return err
		}
		if _, twice := named[t.Name]; twice {
			return fmt.Errorf("it has two tools %s", t.Name)
		}
		named[t.Name] = checked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.takes(source, named, useless); err != nil {
		return err
	}
	r.dropTools(func(name string) bool { return r.owners[name] == source })
	if r.owners == nil {
		r.owners = map[string]string{}
	}
	r.ownTools()
	for name, t := range named {
		r.tools[name], r.owners[name] = t, source
	}
	return nil
}

// useless returns the names of those tools, of the registry and of others, that
// the agent cannot use in a runtime. The tools are asked while no lock of the
// registry is held.
func (r *Registry) useless(others []Tool, rt Runtime) map[string]bool {
	useless := map[string]bool{}
	for _, t := range append(r.Tools(), others...) {
		_, err := r.on(t, rt)
		useless[t.Name] = err != nil
	}
	return useless
}

// takes returns why a source cannot have the tools: a name that is taken, or too
// many tools. The caller holds r.mu.
func (r *Registry) takes(source string, tools map[string]Tool, useless map[string]bool) error {
	n := 0
	for name := range r.tools {
		if _, wanted := tools[name]; wanted && r.owners[name] != source {
			other := "the agent"
			if owner := r.owners[name]; owner != "" {
				other = "the tool source " + owner
			}
			return fmt.Errorf("tool %s: %s has one of that name already", name, other)
		}
		if r.owners[name] != source && !useless[name] && !r.disabled[name] {
			n++
		}
	}
	for name := range tools {
		if !useless[name] && !r.disabled[name] {
			n++
		}
	}
	if len(tools) > 0 && n > maxTools {
		return fmt.Errorf("with its %s, the agent has %d, and providers take at most %d in a request", numeral.Count(len(tools), "tool"), n, maxTools)
	}
	return nil
}
