package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestWithPricesTheCostIsTold(t *testing.T) {
	t.Parallel()
	prices := inFile(t, "prices.toml", "[prices.'gpt-4.1-mini']\nprompt = 1000\ncompletion = 1000\n")
	got := finish(t, command(t, program(t).Env(), "run", "--no-docker", "--config", prices, "Add the numbers."))
	require.Equal(t, 0, got.code, got.stderr)
	require.Regexp(t, `(?m)^· \d+ tokens, cost \d+\.\d{4}`, got.stderr)
	require.NotContains(t, got.stdout, "cost")
	cmd := command(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")).Env(), "--no-docker", "--config", prices)
	cmd.Stdin = strings.NewReader("Hi.\n")
	got = finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, " tokens, cost ")
	got = finish(t, command(t, program(t).Env(), "run", "--no-docker", "Add the numbers."))
	require.NotContains(t, got.stderr, "cost")
	got = finish(t, command(t, program(t).Env(), "run", "--no-docker", "--config", inFile(t, "bad.toml", "[prices.m]\nprompt = 'x'\ncompletion = 1\n"), "Go."))
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr, `bad.toml:2:1: prices.m.prompt: want the price of a million tokens, such as 0.4, not "x"`)
}

func TestTheCostThatAServerReportsIsTold(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", nil).WithCost(0.25))
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "Go."))
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, " tokens, cost 0.2500\n")
	server = pygenttest.NewServer(t, pygenttest.Call("stop", nil).WithCost(0.25))
	got = finish(t, command(t, server.Env(), "run", "--no-docker", "--json", "Go."))
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	var end pygent.Event
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	require.Equal(t, pygent.EventRunEnd, end.Type)
	require.Equal(t, 0.25, end.Result.Cost)
}

func TestACostLimitEndsTheRun(t *testing.T) {
	t.Parallel()
	prices := inFile(t, "prices.toml", "[prices.'gpt-4.1-mini']\nprompt = 1000\ncompletion = 1000\n")
	got := finish(t, command(t, program(t).Env(), "run", "--no-docker", "--config", prices, "--max-cost", "0.01", "Add the numbers."))
	require.Equal(t, 4, got.code, got.stderr)
	require.Regexp(t, `the cost is \d+\.\d+; the limit is 0\.0100`, got.stderr)
	for _, args := range [][]string{{"--max-cost", "0.01"}, {"--max-cost", "0"}, {"--max-cost", "much"}} {
		server := pygenttest.NewServer(t)
		got = finish(t, command(t, server.Env(), append([]string{"run", "--no-docker", "Go."}, args...)...))
		require.Equal(t, 2, got.code, got.stderr)
		require.Regexp(t, "(?i)max.cost", got.stderr)
		require.Empty(t, server.Requests())
	}
}
