package pygent_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/pygenttest"
)

// completing is a command whose arguments are completed by a function.
func completing(name string, complete func(ctx context.Context, words []string) []string) pygent.Command {
	return pygent.Command{
		Name: name, Summary: "about " + name,
		Run:      func(context.Context, *pygent.Agent, string, io.Writer) error { return nil },
		Complete: func(ctx context.Context, _ *pygent.Agent, words []string) []string { return complete(ctx, words) },
	}
}

func TestCompleteCommand(t *testing.T) {
	t.Parallel()
	fixed := func(words ...string) func(context.Context, []string) []string {
		return func(context.Context, []string) []string { return words }
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = "x"
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(
		completing("zz-fixed", fixed("on", "off", "a b", `it's "x"`, "src/", "my dir/")),
		completing("zz-words", func(_ context.Context, words []string) []string {
			if len(words) == 2 && words[0] == "a b" {
				return []string{"second"}
			}
			return nil
		}),
		completing("zz-many", fixed(many...)),
		completing("zz-panics", func(context.Context, []string) []string { panic("oops") }),
		printing("zz-without"),
	))
	lines := func(line string) []string {
		list, err := agent.CompleteCommand(t.Context(), line)
		require.NoError(t, err, line)
		var lines []string
		for _, c := range list {
			lines = append(lines, c.Line)
		}
		return lines
	}
	for line, want := range map[string][]string{
		"/zz":                 {"/zz-fixed ", "/zz-many ", "/zz-panics ", "/zz-without ", "/zz-words "},
		" /zz-wi":             {"/zz-without "},
		"/ex":                 {"/exit"},
		"/hel":                {"/help "},
		"/nope":               nil,
		"/nope x":             nil,
		"/zz-without x":       nil,
		"/zz-fixed ":          {"/zz-fixed on ", "/zz-fixed off ", `/zz-fixed "a b" `, `/zz-fixed "it's \"x\"" `, "/zz-fixed src/", `/zz-fixed "my dir/`},
		"/zz-fixed  o":        {"/zz-fixed  on ", "/zz-fixed  off "},
		`/zz-fixed "a `:       {`/zz-fixed "a b" `},
		`/zz-fixed a\ `:       {`/zz-fixed "a b" `},
		"/zz-fixed x":         nil,
		`/zz-words "a b" `:    {`/zz-words "a b" second `},
		`/zz-words 'a b' sec`: {`/zz-words 'a b' second `},
		"/zz-words a ":        nil,
		"/help zz-wi":         {"/help zz-without "},
		"/help /zz-wi":        {"/help /zz-without "},
		"/help exit ":         nil,
	} {
		require.Equal(t, want, lines(line), line)
	}
	require.Len(t, lines("/zz-many "), 1000)
	list, err := agent.CompleteCommand(t.Context(), "/zz-fi")
	require.NoError(t, err)
	require.Equal(t, []pygent.Completion{{Line: "/zz-fixed ", Word: "zz-fixed", Summary: "about zz-fixed"}}, list)
	list, err = agent.CompleteCommand(t.Context(), "/zz-fixed s")
	require.NoError(t, err)
	require.Equal(t, []pygent.Completion{{Line: "/zz-fixed src/", Word: "src/"}}, list)

	_, err = agent.CompleteCommand(t.Context(), "/zz-panics ")
	require.EqualError(t, err, "complete /zz-panics: panic: oops")
	_, err = agent.CompleteCommand(t.Context(), "hello")
	require.EqualError(t, err, `a command begins with "/"`)
	var none context.Context
	_, err = agent.CompleteCommand(none, "/")
	require.ErrorContains(t, err, "context")
	require.NoError(t, agent.Close())
	_, err = agent.CompleteCommand(t.Context(), "/")
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestACompletionThatTakesLongIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		defer close(goOn)
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithCommands(
			completing("slow", func(ctx context.Context, _ []string) []string { <-ctx.Done(); return nil }),
			completing("deaf", func(context.Context, []string) []string { <-goOn; return nil })))
		began := time.Now()
		_, err := agent.CompleteCommand(t.Context(), "/slow ")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
		_, err = agent.CompleteCommand(t.Context(), "/deaf ")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second+safecall.Grace, time.Since(began))
	})
}
