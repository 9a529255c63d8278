package pygent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// priced returns a reply of a model that costs a tenth of a dollar.
func priced(r pygenttest.Reply) pygenttest.Reply { return r.WithUsage(hundred).WithModel("m") }

// pricedAgent returns an agent whose model has a price.
func pricedAgent(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return newAgent(t, model, append(opts, pygent.WithPrices(dollars), pygent.WithModelName("m"))...)
}

func TestTokensOfEachKindHaveTheirPrice(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 1000, CachedTokens: 300, CacheWriteTokens: 200, CompletionTokens: 100, ReasoningTokens: 40}
	for name, tt := range map[string]struct {
		price pygent.Price
		want  float64
	}{
		"all":                {pygent.Price{Prompt: 1, Cached: 10, CacheWrite: 100, Completion: 1000, Reasoning: 10_000}, 500 + 3000 + 20_000 + 60_000 + 400_000},
		"prompts and answer": {pygent.Price{Prompt: 1, Completion: 1000}, 1000 + 100_000},
		"free":               {pygent.Price{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop.WithUsage(usage)),
				pygent.WithModelName("m"), pygent.WithPrices(map[string]pygent.Price{"m": tt.price}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.InDelta(t, tt.want/1e6, result.Cost, 1e-12)
			require.Equal(t, result.Cost, result.Usage.Cost)
			require.Equal(t, result.Cost, agent.Usage().Cost)
			require.Empty(t, agent.Usage().Unpriced)
		})
	}
}

func TestTheCostIsToldOfStepsAndRuns(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(priced(callBash("true")), priced(stop))
	var steps []pygent.Event
	var end pygent.Event
	history := chat.NewHistory()
	agent := pricedAgent(t, model, pygent.WithHistory(history), pygent.OnEvent(func(e pygent.Event) {
		switch e.Type {
		case pygent.EventMessage:
			steps = append(steps, e)
		case pygent.EventRunEnd:
			end = e
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, steps, 2)
	for _, e := range steps {
		require.InDelta(t, 0.1, e.Usage.Cost, 1e-9)
		require.Equal(t, "m", e.Model)
	}
	require.InDelta(t, 0.2, end.Usage.Cost, 1e-9)
	require.InDelta(t, 0.2, end.Result.Cost, 1e-9)
	require.Empty(t, end.Result.Models, "there was only one")
	entries := history.Entries()
	require.InDelta(t, 0.2, entries[len(entries)-1].Turn.Usage.Cost, 1e-9)
	data, err := json.Marshal(end)
	require.NoError(t, err)
	var decoded struct {
		Result struct{ Cost float64 }
	}
	require.NoError(t, json.Unmarshal(data, &decoded))
	require.InDelta(t, 0.2, decoded.Result.Cost, 1e-9)
}

func TestARunOfSeveralModelsTellsOfEach(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(priced(callBash("true")), priced(callBash("false")), stop.WithUsage(hundred).WithModel("other"))
	result, err := pricedAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, result.Usage, result.Models["m"].Add(result.Models["other"]))
	require.InDelta(t, 0.2, result.Models["m"].Cost, 1e-9)
	require.Zero(t, result.Models["other"].Cost)
}

func TestTheProvidersWordIsTheCostOfAModelWithoutAPrice(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		callBash("true").WithUsage(hundred).WithModel("other").WithCost(0.25),
		priced(callBash("false")).WithCost(99),
		callBash("echo").WithUsage(hundred).WithModel("free").WithCost(0),
		callBash("echo x").WithUsage(hundred).WithModel("hostile").WithCost(math.Inf(1)),
		stop.WithUsage(hundred).WithModel("silent"))
	agent := pricedAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.InDelta(t, 0.35, result.Cost, 1e-9)
	require.InDelta(t, 0.25, agent.Usage().Models["other"].Cost, 1e-9)
	require.Equal(t, []string{"hostile", "silent"}, agent.Usage().Unpriced)
}

func TestTheCostThatAServerReportsIsRead(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 10, CachedTokens: 4, CacheWriteTokens: 3, CompletionTokens: 5}
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		t.Run(string(api), func(t *testing.T) {
			s := pygenttest.NewServer(t, stop.WithUsage(usage).WithCost(0.125))
			agent := newAgentOn(t, nowhere{}, testkit.NewModel(t, openai.BaseURL(s.URL()), openai.API(api)))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			usage.Cost = 0.125
			require.Equal(t, usage, result.Usage)
		})
	}
}

func TestNumbersThatCannotBeAreNotCounted(t *testing.T) {
	t.Parallel()
	hostile := pygent.Usage{PromptTokens: math.MaxInt64, CompletionTokens: math.MinInt64, CachedTokens: -1, ReasoningTokens: 1 << 60, Cost: math.NaN()}
	agent := pricedAgent(t, pygenttest.NewScriptedModel(priced(callBash("true")), stop.WithUsage(hostile).WithModel("m")))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, hundred.Total(), result.Usage.Total())
	require.InDelta(t, 0.1, result.Cost, 1e-9)
	_, err = json.Marshal(result)
	require.NoError(t, err)
}

func TestRunEndsWhenItsMoneyIsSpent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits []pygent.RunOption
		steps  int
		reason string
	}{
		"money":               {[]pygent.RunOption{pygent.MaxCost(0.3)}, 3, "the cost is 0.300; the limit is 0.300 (MaxCost)"},
		"the last crosses it": {[]pygent.RunOption{pygent.MaxCost(0.25)}, 3, "the cost is 0.300; the limit is 0.250 (MaxCost)"},
		"a tiny limit":        {[]pygent.RunOption{pygent.MaxCost(1e-12)}, 1, "the cost is 0.100; the limit is 0.000000001 (MaxCost)"},
		"tokens before it":    {[]pygent.RunOption{pygent.MaxCost(9), pygent.MaxTokens(200)}, 2, "200 of 200 tokens are used (MaxTokens)"},
		"it before tokens":    {[]pygent.RunOption{pygent.MaxCost(0.1), pygent.MaxTokens(9000)}, 1, "the cost is 0.100; the limit is 0.100 (MaxCost)"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			model := pygenttest.NewScriptedModel(pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
				n++
				return priced(callBash(fmt.Sprint("echo ", n)))
			})).RepeatLast()
			result, err := pricedAgent(t, model).RunUntilStop(t.Context(), "go", tt.limits...)
			require.NoError(t, err)
			require.Equal(t, pygent.StatusBudget, result.Status)
			require.Equal(t, tt.reason, result.Reason)
			require.Equal(t, tt.steps, result.Steps)
		})
	}
}

func TestWhatHasNoPriceCannotBeLimited(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	_, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(nowhere{}), pygent.WithModelName("x"), pygent.WithPrices(dollars), pygent.MaxCost(1))
	require.EqualError(t, err, "the cost cannot be limited, because the model x has no price: set one in [prices] in ~/.pygent.toml or with WithPrices, or remove the limit (--max-cost, limits.max_cost, PYGENT_MAX_COST)")
	_, err = pygent.New(pygent.WithModel(model), pygent.WithRuntime(nowhere{}), pygent.MaxCost(1))
	require.ErrorContains(t, err, "the model has no name")

	agent := pricedAgent(t, model, pygent.MaxCost(1))
	require.NoError(t, agent.SetModel(nil, "y"))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "the model y has no price")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.Empty(t, model.Requests(), "it was not asked")
}

func TestRunEndsAfterAnAnswerOfUnknownCost(t *testing.T) {
	t.Parallel()
	next := callBash("true")
	for name, tt := range map[string]struct {
		reply  pygenttest.Reply
		reason string // empty if the run goes on
	}{
		"another model":              {next.WithUsage(hundred).WithModel("other"), `the cost is limited (MaxCost), but the answer came from the model "other", which has no price (WithPrices)`},
		"another model that says it": {next.WithUsage(hundred).WithModel("other").WithCost(0.1), ""},
		"no usage":                   {next.WithModel("m"), "the cost is limited (MaxCost), but the server did not report the tokens of the answer"},
		"a negative prompt":          {next.WithUsage(pygent.Usage{PromptTokens: -90, CompletionTokens: 10}).WithModel("m"), "the cost is limited (MaxCost), but the server did not report the tokens of the answer"},
		"a negative answer":          {next.WithUsage(pygent.Usage{PromptTokens: 90, CompletionTokens: -1}).WithModel("m"), "the cost is limited (MaxCost), but the server did not report the tokens of the answer"},
		"far too much":               {next.WithUsage(pygent.Usage{PromptTokens: 1e15, CompletionTokens: 10}).WithModel("m"), "the cost is limited (MaxCost), but the server did not report the tokens of the answer"},
		"too much":                   {next.WithUsage(pygent.Usage{PromptTokens: 1e11, CompletionTokens: 10}).WithModel("m"), "the cost is 100000000.01; the limit is 1.00 (MaxCost)"},
		"half of it, with a cost":    {next.WithUsage(pygent.Usage{PromptTokens: -90, CompletionTokens: 10}).WithModel("m").WithCost(0.1), ""},
		"the same with its date":     {next.WithUsage(hundred).WithModel("m-2025-01-01"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := pricedAgent(t, pygenttest.NewScriptedModel(tt.reply, priced(stop))).RunUntilStop(t.Context(), "go", pygent.MaxCost(1))
			require.NoError(t, err)
			if tt.reason == "" {
				require.Equal(t, pygent.StatusStopped, result.Status)
				return
			}
			require.Equal(t, pygent.StatusBudget, result.Status)
			require.Equal(t, tt.reason, result.Reason)
			require.Equal(t, 1, result.Steps)
		})
	}
}

// reporter is a model that says that its answers tell their cost.
type reporter struct{ pygent.Model }

func (reporter) ReportsCost() bool { return true }

func TestModelsThatReportTheirCostNeedNoPrice(t *testing.T) {
	t.Parallel()
	model := reporter{pygenttest.NewScriptedModel(callBash("true").WithCost(0.1), callBash("false").WithCost(0.2), stop.WithCost(0.4))}
	agent := newAgent(t, model, pygent.MaxCost(0.3))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "the cost is 0.300; the limit is 0.300 (MaxCost)", result.Reason)
	for url, want := range map[string]bool{
		"https://openrouter.ai/api/v1": true, "https://eu.openrouter.ai/api/v1": true, "https://notopenrouter.ai/v1": false, "https://api.openai.com/v1": false,
	} {
		require.Equal(t, want, testkit.NewModel(t, openai.BaseURL(url), openai.Key("k")).ReportsCost(), url)
	}
}

func TestTasksShareTheMoneyOfTheRun(t *testing.T) {
	t.Parallel()
	n := 0
	spends := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		n++
		return priced(callBash(fmt.Sprint("echo ", n)))
	})
	model := pygenttest.NewScriptedModel(follow(
		always(priced(delegate("Spend"))),
		func(id string) pygenttest.Reply { return priced(wait(id)) },
		always(priced(stop)))).RepeatLast().
		On("Spend", spends).RepeatLast()
	agent := pricedAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxCost(1.2))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
	task := byPrompt(t, agent)["Spend"]
	require.Equal(t, "error: the cost is 0.300; the limit is 0.300 (MaxCost)", task.String(), "a quarter")
	require.InDelta(t, 0.3, task.Usage.Cost, 1e-9)
	require.InDelta(t, 0.3, result.TaskUsage.Cost, 1e-9)
	require.InDelta(t, 0.6, result.Cost, 1e-9)
	require.InDelta(t, 0.6, agent.Usage().Cost, 1e-9)
}

func TestTasksWithoutALimitNeedNoPrice(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), wait, always(stop))).RepeatLast().On("Work", stop)
	agent := newAgent(t, model, pygent.TaskDefaults(pygent.Limits{MaxCost: pygent.NoLimit, MaxTokens: pygent.NoLimit}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	task := byPrompt(t, agent)["Work"]
	require.Equal(t, pygent.TaskFinished, task.State, task.Reason)
}

func TestTaskOfAModelWithoutAPriceDoesNotStart(t *testing.T) {
	t.Parallel()
	var asked int
	expensive := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		asked++
		return &pygent.ChatResponse{Message: chat.AssistantMessage("")}, nil
	})
	model := pygenttest.NewScriptedModel(follow(
		always(priced(delegate("Spend"))),
		func(id string) pygenttest.Reply { return priced(wait(id)) },
		always(priced(stop)))).RepeatLast()
	agent := pricedAgent(t, model, pygent.TaskAgents(pygent.WithModel(expensive), pygent.WithModelName("x")))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxCost(1))
	require.NoError(t, err)
	require.Contains(t, byPrompt(t, agent)["Spend"].Reason, "the model x has no price")
	require.Zero(t, asked)
}

func TestAResultNamesTheModelsWithoutAPrice(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		priced(delegate("Spend")), priced(callBash("true")).WithModel("silent"), priced(stop), priced(stop), priced(stop)).
		On("Spend", stop.WithUsage(hundred).WithModel("of the task"))
	agent := pricedAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	byPrompt(t, agent) // waits for the task
	require.Contains(t, result.Unpriced, "silent")
	require.Equal(t, []string{"of the task", "silent"}, agent.Usage().Unpriced)
	result, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	require.Empty(t, result.Unpriced, "only those of the run")

	result, err = newAgent(t, pygenttest.NewScriptedModel(stop.WithUsage(hundred))).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Empty(t, result.Unpriced, "nobody asks for the cost")
}

func TestNamesThatHaveAPrice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		price, asked, answered, host string
		known                        bool
	}{
		{"m", "m", "m", "", true},
		{"m", "m", "m-2025-04-14", "", true},
		{"m-preview", "m-preview", "m-preview-05-06", "", true},
		{"command-r", "command-r", "command-r-08-2024", "", true},
		{"m-latest", "m-latest", "m-20241022", "", true},
		{"m", "m", "m-mini", "", false},
		{"m", "m", "m-32-64", "", false},
		{"m", "m", "other", "", false},
		{"prod", "prod", "gpt-4.1-2025-04-14", "", false},
		{"prod", "prod", "gpt-4.1-2025-04-14", "x.openai.azure.com", true},
	} {
		t.Run(tt.answered+tt.host, func(t *testing.T) {
			server := pygenttest.NewServer(t, stop.WithUsage(hundred).WithModel(tt.answered))
			there, err := url.Parse(server.URL())
			require.NoError(t, err)
			client := &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
				r.URL.Scheme, r.URL.Host = there.Scheme, there.Host
				return http.DefaultTransport.RoundTrip(r)
			})}
			model := testkit.NewModel(t, openai.BaseURL("https://"+cmp.Or(tt.host, "example.com")+"/v1"), openai.Key("k"), openai.HTTPClient(client))
			agent := newAgent(t, model, pygent.WithPrices(map[string]pygent.Price{tt.price: dollars["m"]}), pygent.WithModelName(tt.asked))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.known, result.Cost > 0)
			require.Equal(t, tt.known, len(result.Unpriced) == 0)
		})
	}
}

// Sums of money are right to more digits than anybody is shown, however many calls
// there were.
func TestMoneyDoesNotDrift(t *testing.T) {
	t.Parallel()
	for _, price := range []float64{0.1, 0.000_037, 123.456_789} {
		var sum pygent.Usage
		exact := new(big.Rat)
		for i := range 10_000 {
			cost := price * float64(i%13+1) / 7
			sum = sum.Add(pygent.Usage{Cost: cost})
			exact.Add(exact, new(big.Rat).SetFloat64(cost))
		}
		want, _ := exact.Float64()
		require.InEpsilon(t, want, sum.Cost, 1e-10)
	}
}

// talker streams words that never repeat until its context ends.
type talker struct {
	pygent.ModelFunc
	piece func(n int) pygent.Delta
}

func (m talker) ChatStream(ctx context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	for n := 0; ctx.Err() == nil; n++ {
		emit(m.piece(n))
	}
	return nil, ctx.Err()
}

func TestAnAnswerThatSpendsTheBudgetIsCutOff(t *testing.T) {
	t.Parallel()
	text := func(n int) pygent.Delta { return pygent.Delta{Text: fmt.Sprintf("word %d ", n)} }
	for name, tt := range map[string]struct {
		piece func(n int) pygent.Delta
		limit pygent.RunOption
		words string
	}{
		"text":     {text, pygent.MaxTokens(1000), "of 1000"},
		"thoughts": {func(n int) pygent.Delta { return pygent.Delta{Reasoning: text(n).Text} }, pygent.MaxTokens(1000), "of 1000"},
		"calls": {func(n int) pygent.Delta {
			return pygent.Delta{Call: &chat.CallDelta{Index: n % 2, Tool: "bash", Bytes: n/2 + 1}}
		}, pygent.MaxTokens(1000), "of 1000"},
		"money": {text, pygent.MaxCost(0.01), "the limit is 0.0100 (MaxCost)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newAgentOn(t, nowhere{}, talker{piece: tt.piece}, pygent.WithModelName("m"), pygent.WithPrices(dollars))
			result, err := agent.RunUntilStop(t.Context(), "Talk.", tt.limit)
			require.NoError(t, err)
			require.Equal(t, pygent.StatusBudget, result.Status)
			require.Contains(t, result.Reason, tt.words)
			require.Equal(t, 1, result.Steps)
			require.Positive(t, result.Usage.CompletionTokens, "what arrived was used")
			require.Less(t, result.Usage.CompletionTokens, int64(1100))
		})
	}
}

func TestUsageCountsTheAgentAndItsTasks(t *testing.T) {
	t.Parallel()
	each := pygent.Usage{PromptTokens: 100, CompletionTokens: 10}
	reply := func(r pygenttest.Reply) pygenttest.Reply { return r.WithUsage(each) }
	// Each waits for its task: a request that ends with its run has no answer to count.
	awaits := func(prompt string) pygenttest.Reply {
		return follow(
			always(reply(delegate(prompt))),
			func(id string) pygenttest.Reply { return reply(wait(id)) },
			always(reply(stop)),
		)
	}
	model := pygenttest.NewScriptedModel(awaits("job one")).
		On("job one", awaits("job two")).
		On("job two", reply(stop)).RepeatLast()
	agent := newAgent(t, model, pygent.MaxTaskDepth(2), pygent.WithModelName("m"))
	require.Zero(t, agent.Usage())
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	for _, task := range tasks {
		waitTask(t, agent.Tasks(), task.ID)
		require.NoError(t, agent.Tasks().Remove(t.Context(), task.ID))
	}
	n := int64(len(model.Requests()))
	used := agent.Usage()
	require.Equal(t, result.Usage, used.Own)
	require.EqualValues(t, 110*n, used.Total().Total(), "tasks of tasks and removed ones count")
	require.Equal(t, used.Total(), used.Models["m"])
	require.Equal(t, []string{"m"}, used.Unpriced)
	require.Zero(t, used.Cost)
}

func TestCostOfUsage(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 1_000_000, CachedTokens: 500_000, CompletionTokens: 100_000}
	prices := map[string]pygent.Price{"gpt-4.1": {Prompt: 2, Cached: 0.5, Completion: 8}, "no-cache": {Prompt: 2, Completion: 8}}
	for answered, want := range map[string]float64{
		"gpt-4.1":                 1 + 0.25 + 0.8,
		"gpt-4.1-2025-04-14":      1 + 0.25 + 0.8,
		"gpt-4.1@20250414":        1 + 0.25 + 0.8,
		"no-cache":                2 + 0.8,
		"gpt-4.1-mini":            -1,
		"gpt-4.1-mini-2025-04-14": -1,
		"gpt-4":                   -1,
		"":                        1 + 0.25 + 0.8, // the name that was asked for
	} {
		t.Run(answered, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop.WithModel(answered).WithUsage(usage)), pygent.WithPrices(prices), pygent.WithModelName("gpt-4.1"))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			used := agent.Usage()
			if want < 0 {
				require.Equal(t, []string{answered}, used.Unpriced)
				want = 0
			}
			require.InDelta(t, want, used.Cost, 1e-9)
		})
	}
	for wrong, said := range map[float64]string{-1: "-1", math.NaN(): "NaN", math.Inf(1): "+Inf", 1e300: "1e+300"} {
		_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}),
			pygent.WithPrices(map[string]pygent.Price{"m": {Prompt: wrong}}))
		require.EqualError(t, err, "option WithPrices: m: "+said+" is no price")
	}
}

func TestAServerCannotFillTheMeter(t *testing.T) {
	t.Parallel()
	n := 0
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		n++
		call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "bash", Arguments: fmt.Sprintf(`{"cmd":"%d"}`, n)}
		return &pygent.ChatResponse{Model: fmt.Sprint(n, strings.Repeat("x", 1000)), Message: chat.AssistantMessage("", call), Usage: pygent.Usage{PromptTokens: 1}}, nil
	})
	agent := newAgentOn(t, nowhere{}, model)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(150), pygent.MaxToolCalls(pygent.NoLimit))
	require.NoError(t, err)
	used := agent.Usage()
	require.EqualValues(t, 151, used.Own.Total())
	require.LessOrEqual(t, len(used.Models), 101)
	for name := range used.Models {
		require.Less(t, len(name), 300)
	}
}

// transportFunc is a transport of a function.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
