package pygent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/safecall"
)

// Persona is who an agent is: the name it goes by, and a sentence that says
// what it is like. Both come first in the system prompt.
type Persona struct {
	Name        string `json:"name" toml:"name"`
	Description string `json:"description" toml:"description"`
}

// The persona of an agent that is given none.
const (
	defaultPersonaName        = "Pygent"
	defaultPersonaDescription = "a careful, capable coding assistant"
)

// DefaultPersona returns the persona of an agent that is given none: the one
// that PYGENT_PERSONA_NAME and PYGENT_PERSONA describe, or Pygent, a careful,
// capable coding assistant, for what they leave out.
func DefaultPersona() Persona {
	c, _ := environment() // without its settings if one of them is wrong
	return c.Persona.orDefault()
}

// orDefault fills empty fields with the built-in persona. A nil persona is all
// default.
func (p *Persona) orDefault() Persona {
	if p == nil {
		return DefaultPersona()
	}
	return Persona{
		Name:        cmp.Or(p.Name, defaultPersonaName),
		Description: cmp.Or(p.Description, defaultPersonaDescription),
	}
}

// RefreshSystemMessage rebuilds the system message from the persona, the runtime, the tools,
// and what extensions add, which look anew. The first run does so by itself. When the tools
// change, the prompt is written again from what was known then; [DefaultPrompt] changes only
// if a tool that it explains comes or goes. While a run goes on, the message is rebuilt before
// its next model call.
func (a *Agent) RefreshSystemMessage() {
	a.system.again.Store(true)
	a.system.stale.Store(true)
	if a.slot.IsTaken() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), systemRefreshTimeout)
	defer cancel()
	if _, err := a.refreshSystem(ctx); err != nil {
		a.log.Warn("system message not refreshed", "error", err)
	}
}

// systemRefreshTimeout bounds how long RefreshSystemMessage waits for the
// runtime's description.
const systemRefreshTimeout = 5 * time.Second

// systemState is what the system message and the tools' specs were made from.
type systemState struct {
	stale   atomic.Bool // rebuild even if the tools are the same
	built   bool
	version int64 // of the registry
	specs   []chat.ToolSpec
	from    systemMessage // read again only when stale: other tools alone do not change what is known of the workspace
	again   atomic.Bool   // look anew
	known   PromptInfo    // what a message could be written from now, as far as news tells
}

// systemMessage is the text of the system message, what it was written from, and the
// tools of the same moment.
type systemMessage struct {
	text    string
	info    PromptInfo
	specs   []chat.ToolSpec
	version int64 // of the registry
}

// refreshSystem rebuilds the system message and the tools' specs when they are
// out of date, and returns the specs. The message is the same from step to step,
// so that providers can cache it.
func (a *Agent) refreshSystem(ctx context.Context) (_ []chat.ToolSpec, err error) {
	if err := a.refresh.LockContext(ctx); err != nil {
		return nil, err
	}
	defer a.refresh.Unlock()
	s := &a.system
	stale := s.stale.Swap(false) || !s.built
	if !stale && s.version == a.tools.currentVersion() {
		return s.specs, nil
	}
	defer func() {
		if err != nil {
			s.stale.Store(true)
		}
	}()
	message, err := safecall.Outlive(ctx, func() (systemMessage, error) {
		defer a.enter(&a.calling, "the system message")()
		return a.writeSystem(ctx, s.from, stale)
	})
	a.logPanic("system message", err)
	if err != nil {
		return nil, fmt.Errorf("system message: %w", err)
	}
	if err := a.history.SetSystemContext(ctx, message.text); err != nil {
		return nil, err
	}
	s.specs, s.version, s.built, s.from, s.known = message.specs, message.version, true, message, message.info
	return s.specs, nil
}

// writeSystem writes the system message, and finds the tools that go with it. It
// reads again what the message is written from if that may have changed.
func (a *Agent) writeSystem(ctx context.Context, from systemMessage, stale bool) (m systemMessage, err error) {
	if stale {
		if from.info, err = a.promptInfo(ctx); err != nil {
			return from, err
		}
	}
	if from.specs, from.version = a.tools.specs(a.runtime); len(from.specs) > maxTools {
		return from, fmt.Errorf("%d tools are active, and providers take at most %d: disable some", len(from.specs), maxTools)
	}
	from.info.Tools = slices.Clone(from.specs)
	from.text = a.prompt(from.info)
	return from, nil
}

// promptInfo collects what the system message is written from, except the tools.
func (a *Agent) promptInfo(ctx context.Context) (info PromptInfo, err error) {
	info = PromptInfo{
		Persona:        a.Persona(),
		BashTimeout:    BashToolTimeout,
		MaxBashTimeout: MaxBashTimeout,
		MaxSteps:       a.usualSteps(),
		Task:           a.opts.taskInfo,
		Day:            time.Now().Format(time.DateOnly), // not the time: providers cache a conversation by its first bytes
	}
	if d, described := RuntimeAs[Describer](a.runtime); described {
		info.Runtime = d.Describe(ctx)
		info.Runtime.AsksHosts = a.deciders.canAskHosts() && a.UseDocker() && !info.Runtime.Network
	}
	again := a.system.again.Swap(false)
	for _, x := range a.extensions {
		if x.Prompt == nil {
			continue
		}
		if err = x.Prompt(ctx, &info, again); err != nil {
			a.system.again.Store(again)
			return info, err
		}
	}
	return info, nil
}

// news is what extensions found since the system message was written, which stays as it is.
// Each is told once, and only if a message that is written now would tell it too.
func (a *Agent) news(ctx context.Context) (text string) {
	if a.refresh.LockContext(ctx) != nil {
		return ""
	}
	defer a.refresh.Unlock()
	for _, x := range a.extensions {
		if x.News == nil || !a.system.built {
			continue
		}
		_ = x.call(func() error {
			before := a.system.known
			found := x.News(&a.system.known)
			if found != "" && a.prompt(before) != a.prompt(a.system.known) { // else the prompt is by somebody who leaves this out
				text = joined(text, found)
			}
			return nil
		})
	}
	return text
}

// usualSteps is how many steps a run of the agent has unless its caller says
// otherwise, or 0 for any number.
func (a *Agent) usualSteps() int {
	o, err := newRunOptions(a.opts.run, nil)
	if err != nil {
		return 0
	}
	return finiteSteps(o.MaxSteps)
}

// finiteSteps is a limit of steps, or 0 for none.
func finiteSteps(limit int) int {
	if limit == math.MaxInt {
		return 0
	}
	return limit
}

// describe returns a description of the agent's runtime, which is incomplete if
// the runtime cannot describe itself.
func (a *Agent) describe(ctx context.Context) RuntimeInfo {
	unknown := RuntimeInfo{Kind: kindCustom}
	d, ok := RuntimeAs[Describer](a.runtime)
	if !ok {
		return unknown
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	info, err := safecall.Outlive(ctx, func() (RuntimeInfo, error) {
		defer a.enter(&a.calling, "the runtime's Describe")()
		return d.Describe(ctx), nil
	})
	a.logPanic("description of the runtime", err)
	if err != nil {
		return unknown
	}
	return info
}

// describeTimeout bounds how long a banner waits for the description of a
// runtime.
const describeTimeout = 3 * time.Second
