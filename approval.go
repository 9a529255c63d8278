package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/spelling"
)

// permit decides whether a call may run. Deny overrides allow, and no answer
// is no.
func (r *run) permit(ctx context.Context, tool Tool, call ToolCall, args json.RawMessage) error {
	o := &r.Agent.opts
	if call.Name == "bash" {
		if err := r.banned.Check(commandOf(args)); err != nil {
			return fmt.Errorf("denied: %w", err)
		}
	}
	call.Arguments = string(args) // which is what runs, whatever the model wrote
	approve, confirmBash := r.approval()
	steers := r.changesGit(call)
	if !steers && !o.needsApproval(tool, confirmBash) && !r.writesUnconfined(call, confirmBash) {
		return nil
	}
	switch {
	case approve == nil && steers:
		return errors.New("denied: git on the user's machine obeys what is below .git, so writing there needs approval, and nobody can give it here")
	case approve == nil:
		return errors.New("denied: this tool needs approval, and nobody can give it here")
	}
	decision, err := r.askFor(ctx, approve, call)
	r.logPanic("approval", err)
	switch {
	case err != nil:
		return fmt.Errorf("denied: the approval could not be asked for: %w", err)
	case !decision.Allow && decision.Reason != "":
		return fmt.Errorf("denied: %s", decision.Reason)
	case !decision.Allow:
		return errors.New("denied by the user")
	}
	return nil
}

// askFor has somebody decide about a call. The time limit of the step stands
// still meanwhile.
func (r *run) askFor(ctx context.Context, approve ApprovalFunc, call ToolCall) (Decision, error) {
	defer r.asking.Close()()
	return callForeign(ctx, r, "the approval", func() (Decision, error) { return approve(ctx, call) })
}

// needsApproval reports whether calls of a tool need approval: what says so by
// name, of the tool or of bash, goes before the general rule.
func (o *options) needsApproval(tool Tool, confirmBash *bool) bool {
	switch {
	case tool.NeedsApproval, slices.Contains(o.approvalFor, tool.Name), slices.Contains(o.approvalFor, "*"):
		return true
	case tool.Name == "bash" && confirmBash != nil:
		return *confirmBash
	}
	return o.approveAll && len(o.approvalFor) == 0 && !tool.ReadOnly
}

// writesUnconfined reports whether a call writes a file of this machine while
// commands need approval: one is as good as the other to whoever means harm.
func (a *Agent) writesUnconfined(call ToolCall, confirmBash *bool) bool {
	_, writes := changeIn(call)
	return writes && confirmBash != nil && *confirmBash && !a.runtime.UseDocker()
}

// changesGit reports whether a call writes what git obeys on this machine.
func (a *Agent) changesGit(call ToolCall) bool {
	change, writes := changeIn(call)
	return writes && !a.runtime.UseDocker() && a.steersGit(change.path)
}

// ownApprovalFor returns the names of tools that the agent itself was given. The
// agent that it works for may have removed a tool since it was created.
func (o *options) ownApprovalFor() []string {
	return slices.DeleteFunc(slices.Clone(o.approvalFor), func(name string) bool {
		return name == "*" || slices.Contains(o.inheritedFor, name)
	})
}

// known returns an error for the first name that is neither a tool's nor that
// of a built-in tool that was taken out. what says what the names are for.
func (r *Registry) known(what string, names []string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range names {
		_, registered := r.tools[name]
		_, builtin := builtinTools()[name]
		if registered || builtin || r.disabled[name] {
			continue
		}
		all := slices.Sorted(maps.Keys(r.tools))
		if like := spelling.Nearest(name, all); like != "" {
			return fmt.Errorf("tools %s: %w %q, did you mean %s?", what, ErrUnknownTool, name, like)
		}
		return fmt.Errorf("tools %s: %w %q; the tools are: %s", what, ErrUnknownTool, name, strings.Join(all, ", "))
	}
	return nil
}

// commandOf returns the command of a bash call's arguments.
func commandOf(args json.RawMessage) string {
	var in bashInput
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	return in.Cmd
}
