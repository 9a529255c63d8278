package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/x/pygent/internal/budget"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/settings"
)

// plausible returns the usage without counts that cannot be true, and without a
// cost.
func plausible(u Usage) Usage {
	const implausible = 1e12 // so that no sum overflows
	for _, n := range []*int64{&u.PromptTokens, &u.CompletionTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.ReasoningTokens} {
		if *n < 0 || *n >= implausible {
			*n = 0
		}
	}
	u.Cost = 0
	return u
}

// spending is a [Usage] in an account.
type spending Usage

// Add returns the sum of both.
func (s spending) Add(t spending) spending { return spending(Usage(s).Add(Usage(t))) }

// Sums is what limits apply to.
func (s spending) Sums() budget.Sums {
	return budget.Sums{budget.Tokens: Usage(s).Total(), budget.Cost: budget.CostOf(s.Cost)}
}

// spending returns the limits of an account; 0 stands for none.
func (l Limits) spending() budget.Sums {
	sums := budget.Sums{budget.Tokens: max(l.MaxTokens, 0)}
	if l.MaxCost > 0 {
		sums[budget.Cost] = max(1, budget.CostOf(l.MaxCost))
	}
	return sums
}

// asking is what a task with these limits asks for in the account above it, which
// gives what is left to a task without a limit of its own.
func (l Limits) asking() budget.Sums {
	ask := l.spending()
	if l.MaxTokens == NoLimit {
		ask[budget.Tokens] = budget.All
	}
	if l.MaxCost == NoLimit {
		ask[budget.Cost] = budget.All
	}
	return ask
}

// UsageReport says what an agent and its tasks have used so far, in all runs.
type UsageReport struct {
	Own    Usage            `json:"own"`              // of the agent itself
	Tasks  Usage            `json:"tasks,omitzero"`   // of the tasks that it delegated, and of theirs
	Models map[string]Usage `json:"models,omitempty"` // all of that by the model that answered, as its server names it
	// Cost is what all that cost, as far as it is known.
	Cost float64 `json:"cost,omitempty"`
	// Unpriced are the models with answers whose cost is not known, sorted: they
	// have no price, and their provider does not say it.
	Unpriced []string `json:"unpriced,omitempty"`
}

// Total is what the agent and its tasks have used together.
func (u UsageReport) Total() Usage { return u.Own.Add(u.Tasks) }

// Price is what the tokens of a model cost, for a million of them, in any
// currency.
type Price struct {
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
	Cached     float64 `json:"cached,omitempty"`      // of those tokens of prompts that the provider had cached; 0 means as Prompt
	CacheWrite float64 `json:"cache_write,omitempty"` // of those that it wrote to its cache; 0 means as Prompt
	Reasoning  float64 `json:"reasoning,omitempty"`   // of those tokens of completions that are reasoning; 0 means as Completion
}

func newPrice(p settings.Price) Price { return Price(p) }

// of returns what tokens cost.
func (p Price) of(u Usage) float64 {
	cached := min(u.CachedTokens, u.PromptTokens)
	written := min(u.CacheWriteTokens, u.PromptTokens-cached)
	reasoning := min(u.ReasoningTokens, u.CompletionTokens)
	cost := float64(u.PromptTokens-cached-written)*p.Prompt +
		float64(cached)*cmp.Or(p.Cached, p.Prompt) +
		float64(written)*cmp.Or(p.CacheWrite, p.Prompt) +
		float64(u.CompletionTokens-reasoning)*p.Completion +
		float64(reasoning)*cmp.Or(p.Reasoning, p.Completion)
	return cost / 1e6
}

// WithPrices gives the prices of models, for the cost in [Usage] and for
// [MaxCost]. A model is named as its server names it in the answer, or by that
// name without the date at its end: "gpt-4.1-mini" stands for
// "gpt-4.1-mini-2025-04-14" too. Where answers name no model, it is the name that
// is asked for. So it is where the name that the server gives has no price, if the one
// asked for ends in "-latest" or is that of a deployment of Azure. The cost of a model
// without a price is what its provider says that an answer costs, if it says it:
// OpenRouter does, in US dollars.
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

// maxPrice bounds a price, and the cost of an answer, so that no cost becomes too
// large for JSON.
const maxPrice = 1e9

// isAmount reports whether an amount of money can be true.
func isAmount(amount float64) bool { return amount >= 0 && amount <= maxPrice } // NaN is neither

// checkPrices refuses prices that are none.
func checkPrices(prices map[string]Price) error {
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		p := prices[model]
		for _, amount := range []float64{p.Prompt, p.Completion, p.Cached, p.CacheWrite, p.Reasoning} {
			if !isAmount(amount) {
				return fmt.Errorf("option WithPrices: %s: %v is no price", model, amount)
			}
		}
	}
	return nil
}

// dated is the date, or the number of the version, at the end of a model's name.
var dated = regexp.MustCompile(`[-@:](\d{3,}(-\d\d)*|(0\d|1[0-2])-([0-3]\d|\d{4}))$`)

// priceOf finds the price of a model. A price is never taken for that of a model
// whose name only begins like its own: gpt-4.1 and gpt-4.1-mini differ much.
func priceOf(prices map[string]Price, model string) (Price, bool) {
	if p, ok := prices[model]; ok {
		return p, true
	}
	p, ok := prices[dated.ReplaceAllString(model, "")]
	return p, ok
}

// pricing is what the answers of an agent's model cost.
type pricing struct {
	prices map[string]Price // of models, by name
	model  *modelChoice
}

// priceOf finds the price of an answer. That of the name that was asked for counts
// where it names what answers: a deployment, or the latest version of a model.
func (l pricing) priceOf(answered string) (Price, bool) {
	if len(l.prices) == 0 {
		return Price{}, false
	}
	p, ok := priceOf(l.prices, answered)
	if asked := l.model.current().asked(); !ok && (l.model.isDeployment() || dated.ReplaceAllString(answered, "-latest") == asked) {
		return priceOf(l.prices, asked)
	}
	return p, ok
}

// checkCost refuses a run whose cost is limited if that of the model is not known.
func (r *run) checkCost() error {
	if r.budget.Limit()[budget.Cost] == 0 {
		return nil
	}
	return r.agent.pricing.check()
}

// check returns an error if the cost of the model is not known.
func (l pricing) check() error {
	model := l.model.current()
	asked := model.asked()
	if _, priced := priceOf(l.prices, asked); priced {
		return nil
	}
	if m, ok := model.given.(interface{ ReportsCost() bool }); ok {
		// A panic is no word for it.
		if reports, _ := safecall.Catch(func() (bool, error) { return m.ReportsCost(), nil }); reports {
			return nil
		}
	}
	if asked == "" {
		return errors.New("the cost cannot be limited, because the model has no name and therefore no price: set its name (--model, PYGENT_MODEL, WithModelName) and its price ([prices] in ~/.pygent.toml, WithPrices)")
	}
	return fmt.Errorf("the cost cannot be limited, because the model %s has no price: set one in [prices] in ~/.pygent.toml or with WithPrices, or remove the limit (--max-cost, limits.max_cost, PYGENT_MAX_COST)", asked)
}

// checkFor is check for the limit that holds for all runs of an agent.
func (l pricing) checkFor(runs []RunOption) error {
	if o, err := newRunOptions(runs, nil); err != nil || o.MaxCost == 0 {
		return err
	}
	return l.check()
}

// spend counts what an answer has used, and sets what it costs.
func (r *run) spend(resp *ChatResponse) {
	u := plausible(resp.Usage)
	price, known := r.agent.pricing.priceOf(resp.Model)
	switch {
	case known:
		u.Cost = price.of(u)
	case resp.Cost != nil && isAmount(*resp.Cost):
		u.Cost, known = *resp.Cost, true
	}
	resp.Usage = u
	r.agent.meter.add(resp.Model, u, known)
	r.used.count(resp.Model, u, Usage{}, known)
	r.result.Usage = r.result.Usage.Add(u)
	r.budget.Spend(spending(r.result.Usage))
	switch {
	case r.budget.Limit()[budget.Cost] == 0:
	case !known:
		r.unknown = fmt.Sprintf("the cost is limited (MaxCost), but the answer came from the model %q, which has no price (WithPrices)", cut.Head(resp.Model, maxModelName))
	case resp.Cost != nil || price == (Price{}):
	case u.PromptTokens == 0 && (u.CompletionTokens == 0 || resp.Message.Role != ""), u.CompletionTokens == 0 && !isEmpty(resp.Message):
		// Also if it said numbers that cannot be true. An error has no message, and counts as said.
		r.unknown = "the cost is limited (MaxCost), but the server did not report the tokens of the answer"
	}
}

// budgetSpent says why the run may spend no more, or returns "" if it may.
func (r *run) budgetSpent() string {
	if r.unknown == "" && r.budget.Spent() {
		return r.budget.SpentInWords()
	}
	return r.unknown
}

// errBroke is the cause that ends an answer which has spent all that was left.
var errBroke = errors.New("the answer was cut off, because it used up the budget")

// bytesOfToken is how many bytes the tokens of an answer have at most, on average.
const bytesOfToken = 8

// withinBudget returns a context for a model call, which ends once the answer has surely
// spent what is left of the run's budget, and a function that counts what arrives of it.
// end counts that as used, if the answer was cut off: no server says so.
func (r *run) withinBudget(ctx context.Context, model string, delta func(Delta)) (_ context.Context, counted func(Delta), end func(error) error) {
	limit := r.budget.Limit()
	if limit == (budget.Sums{}) {
		return ctx, delta, func(err error) error { return err }
	}
	price, _ := r.agent.pricing.priceOf(model)
	ctx, cancel := context.WithCancelCause(ctx)
	bytes, calls := 0, map[int]int{}
	used := func() Usage { return Usage{CompletionTokens: int64(bytes / bytesOfToken)} }
	counted = func(d Delta) {
		bytes += len(d.Text) + len(d.Reasoning)
		if d.Call != nil {
			bytes += d.Call.Bytes - calls[d.Call.Index]
			calls[d.Call.Index] = d.Call.Bytes
		}
		u, left := used(), r.budget.Left()
		u.Cost = price.of(u)
		for i, n := range spending(u).Sums() {
			if limit[i] > 0 && n > left[i] {
				cancel(errBroke)
			}
		}
		delta(d)
	}
	return ctx, counted, func(err error) error {
		if err != nil && context.Cause(ctx) == errBroke {
			r.spend(&ChatResponse{Model: model, Usage: used()})
			err = errBroke
		}
		cancel(nil)
		return err
	}
}

// endIfSpent ends the run if it may spend no more, and reports whether it did.
func (r *run) endIfSpent() bool {
	spent := r.budgetSpent()
	if spent != "" {
		r.end(StatusBudget, spent)
	}
	return spent != ""
}

// addUp sets in the result what the run and its tasks have used.
func (r *run) addUp() {
	r.result.TaskUsage = Usage(r.budget.Below())
	r.result.Cost = r.result.Usage.Cost + r.result.TaskUsage.Cost
	if used := r.used.report(); len(used.Models) > 1 {
		r.result.Models = used.Models
	}
	if len(r.agent.pricing.prices) > 0 || r.result.Cost > 0 {
		unpriced := append(r.agent.meter.unpricedSince(r.unpriced), cmp.Or(r.opts.before, &Result{}).Unpriced...)
		slices.Sort(unpriced)
		r.result.Unpriced = slices.Compact(unpriced)
	}
}

// Usage reports the tokens that the agent has used, and those of the tasks that
// it delegated, with theirs, including those that were removed. It counts
// answers that came in full: what a failed call used is not known.
func (a *Agent) Usage() UsageReport { return a.meter.report() }

// meter counts the tokens of an agent and its tasks, or of a run.
type meter struct {
	above *meter // of the agent that delegated the task; nil for none

	mu       sync.Mutex // guards what follows; no other lock is acquired while it is held
	used     UsageReport
	unpriced map[string]int // by model, how many answers have a cost that is not known
}

// newMeter returns the meter of a run that was carried out elsewhere before.
func newMeter(before *Result) *meter {
	m := &meter{}
	m.used.Models = maps.Clone(before.Models)
	if len(m.used.Models) == 0 && before.Usage != (Usage{}) {
		m.used.Models = map[string]Usage{"": before.Usage} // of one model, whose name is not known
	}
	return m
}

// The bounds of what a server can have counted under names of its own.
const (
	maxMeteredModels = 100
	maxModelName     = 200 // bytes
)

// add counts the tokens of an answer, for the agents above as well. known is
// whether their cost is.
func (m *meter) add(model string, u Usage, known bool) {
	m.count(model, u, Usage{}, known)
	for up := m.above; up != nil; up = up.above {
		up.count(model, Usage{}, u, known)
	}
}

func (m *meter) count(model string, own, tasks Usage, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Own, m.used.Tasks = m.used.Own.Add(own), m.used.Tasks.Add(tasks)
	model = cut.Head(model, maxModelName)
	if _, counted := m.used.Models[model]; !counted && len(m.used.Models) >= maxMeteredModels {
		model = ""
	}
	if m.used.Models == nil {
		m.used.Models = map[string]Usage{}
	}
	used := own.Add(tasks)
	m.used.Models[model] = m.used.Models[model].Add(used)
	if !known && used != (Usage{}) {
		if m.unpriced == nil {
			m.unpriced = map[string]int{}
		}
		m.unpriced[model]++
	}
}

func (m *meter) report() UsageReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.used
	u.Models = maps.Clone(u.Models)
	u.Cost = u.Own.Cost + u.Tasks.Cost
	u.Unpriced = slices.Sorted(maps.Keys(m.unpriced))
	return u
}

// unknown returns how many answers have a cost that is not known, by model.
func (m *meter) unknown() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.unpriced)
}

// unpricedSince returns the models with more such answers than before, sorted.
func (m *meter) unpricedSince(before map[string]int) []string {
	now := m.unknown()
	maps.DeleteFunc(now, func(model string, n int) bool { return n <= before[model] })
	return slices.Sorted(maps.Keys(now))
}
