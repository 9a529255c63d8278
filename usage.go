package pygent

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/x/pygent/internal/cut"
)

// UsageReport says what an agent and its tasks have used so far, in all runs.
type UsageReport struct {
	Own    Usage            `json:"own"`              // of the agent itself
	Tasks  Usage            `json:"tasks,omitzero"`   // of the tasks that it delegated, and of theirs
	Models map[string]Usage `json:"models,omitempty"` // all of that by the model that answered, as its server names it
	// Cost is what the tokens cost of the models that have a price, in the
	// currency of [WithPrices].
	Cost float64 `json:"cost,omitempty"`
	// Unpriced are the models without a price, sorted. Their tokens are not in
	// Cost.
	Unpriced []string `json:"unpriced,omitempty"`
}

// Total is what the agent and its tasks have used together.
func (u UsageReport) Total() Usage { return u.Own.Add(u.Tasks) }

// Price is what the tokens of a model cost, for a million of them, in any
// currency.
type Price struct {
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
	Cached     float64 `json:"cached,omitempty"` // of those tokens of prompts that the provider had cached; 0 means as Prompt
}

func newPrice(prompt, completion, cached float64) Price { return Price{prompt, completion, cached} }

// of returns what tokens cost.
func (p Price) of(u Usage) float64 {
	cached := min(u.CachedTokens, u.PromptTokens)
	return (float64(u.PromptTokens-cached)*p.Prompt + float64(cached)*cmp.Or(p.Cached, p.Prompt) + float64(u.CompletionTokens)*p.Completion) / 1e6
}

// WithPrices gives the prices of models, for the cost that [Agent.Usage] reports.
// A model is named as its server names it in the answer, or by that name without
// the date at its end: "gpt-4.1-mini" stands for "gpt-4.1-mini-2025-04-14" too.
// Where answers name no model, it is the name that is asked for.
func WithPrices(prices map[string]Price) Option {
	prices = maps.Clone(prices)
	return option(func(o *options) { o.prices = prices })
}

// priceOptions returns the option of a configuration's prices, if it has any.
func priceOptions(prices map[string]Price) []Option {
	if len(prices) == 0 {
		return nil
	}
	return []Option{WithPrices(prices)}
}

// maxPrice bounds a price, so that no cost becomes too large for JSON.
const maxPrice = 1e9

// checkPrices refuses prices that are none.
func checkPrices(prices map[string]Price) error {
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		p := prices[model]
		for _, amount := range []float64{p.Prompt, p.Completion, p.Cached} {
			if !(amount >= 0 && amount <= maxPrice) { // NaN is neither
				return fmt.Errorf("option WithPrices: %s: %v is no price", model, amount)
			}
		}
	}
	return nil
}

// dated is the date, or the number of the version, at the end of a model's name.
var dated = regexp.MustCompile(`[-@:]\d{3,}(-\d\d)*$`)

// priceOf finds the price of a model.
func priceOf(prices map[string]Price, model string) (Price, bool) {
	if p, ok := prices[model]; ok {
		return p, true
	}
	p, ok := prices[dated.ReplaceAllString(model, "")]
	return p, ok
}

// Usage reports the tokens that the agent has used, and those of the tasks that
// it delegated, with theirs, including those that were removed. It counts
// answers that came in full: what a failed call used is not known.
func (a *Agent) Usage() UsageReport {
	u := a.meter.report()
	for _, model := range slices.Sorted(maps.Keys(u.Models)) {
		if price, ok := priceOf(a.opts.prices, model); ok {
			u.Cost += price.of(u.Models[model])
		} else if u.Models[model] != (Usage{}) {
			u.Unpriced = append(u.Unpriced, model)
		}
	}
	return u
}

// meter counts the tokens of an agent and its tasks.
type meter struct {
	above *meter // of the agent that delegated the task; nil for none

	mu   sync.Mutex // guards used; no other lock is acquired while it is held
	used UsageReport
}

// The bounds of what a server can have counted under names of its own.
const (
	maxMeteredModels = 100
	maxModelName     = 200 // bytes
)

// add counts the tokens of an answer, for the agents above as well.
func (m *meter) add(model string, u Usage) {
	model = cut.Head(model, maxModelName)
	m.count(model, u, Usage{})
	for up := m.above; up != nil; up = up.above {
		up.count(model, Usage{}, u)
	}
}

func (m *meter) count(model string, own, tasks Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Own, m.used.Tasks = m.used.Own.Add(own), m.used.Tasks.Add(tasks)
	if _, known := m.used.Models[model]; !known && len(m.used.Models) >= maxMeteredModels {
		model = ""
	}
	if m.used.Models == nil {
		m.used.Models = map[string]Usage{}
	}
	m.used.Models[model] = m.used.Models[model].Add(own).Add(tasks)
}

func (m *meter) report() UsageReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used
	u.Models = maps.Clone(u.Models)
	return u
}
