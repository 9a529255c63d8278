package pygent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/x/pygent/internal/guard"
)

// modelLister is a model whose server tells the names of its models.
type modelLister interface {
	ListModels(ctx context.Context) ([]string, error)
}

// listedModels is what the server of a model has listed.
type listedModels struct {
	of    Model // as it was given
	names []string
}

// ListModels asks the server for the names of its models, in its order.
func (m *OpenAIModel) ListModels(ctx context.Context) ([]string, error) {
	names, err := m.client.Models(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the server's models: %w", err)
	}
	return names, nil
}

// ModelNames returns the names that [Agent.SetModel] may be given as far as they are
// known, sorted: the model's own default, those that are set and were used, those with
// a price, and those that
// the model's server lists, if the model can tell: a method
// ListModels(context.Context) ([]string, error), as [OpenAIModel] has. The server is
// asked until it has answered once. Its list is left out, and listed is false, when
// it does not answer before ctx ends.
func (a *Agent) ModelNames(ctx context.Context) (names []string, listed bool) {
	model := a.currentModel()
	theirs := a.listedModels(ctx)
	names = slices.Concat([]string{model.name, agentModel{given: model.given}.asked()}, theirs)
	names = slices.AppendSeq(names, maps.Keys(a.Usage().Models))
	names = slices.AppendSeq(names, maps.Keys(a.opts.prices))
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), len(theirs) > 0
}

// listedModels returns what the server of the agent's model lists; nothing if that is
// not known.
func (a *Agent) listedModels(ctx context.Context) []string {
	a.mu.Lock()
	given, known, closed := a.model.given, a.listed, a.closed
	a.mu.Unlock()
	lister, ok := given.(modelLister)
	if !ok || closed || ctx == nil {
		return nil
	}
	if known.of == given {
		return known.names
	}
	names, err := guard.Outlive(ctx, func() ([]string, error) {
		defer a.enter(&a.calling, "the model's ListModels")()
		return lister.ListModels(ctx)
	})
	a.logPanic("the model's ListModels", err)
	if err != nil || len(names) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = listedModels{given, names}
	return names
}
