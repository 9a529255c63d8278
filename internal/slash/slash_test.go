package slash

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	run := func(_ context.Context, on, args string, out io.Writer) error {
		_, err := io.WriteString(out, on+" "+args+"\n")
		return err
	}
	s := New(Command[string]{Name: "exit", Summary: "leave", Run: run})
	require.ErrorContains(t, s.Add(Command[string]{Name: "exit", Run: run}), "built in")
	require.ErrorContains(t, s.Add(Command[string]{Name: "help", Run: run}), "built in")
	require.NoError(t, s.Add(Command[string]{Name: "say", Summary: "old", Run: run}))
	require.NoError(t, s.Add(Command[string]{Name: "say", Summary: "repeat", Help: "More.", Run: run}))

	for line, want := range map[string]string{
		"/say":           "it \n",
		"/say  a  b ":    "it a  b\n",
		"/say\ta":        "it a\n",
		"/help say":      "/say: repeat\nMore.\n",
		"/help /exit":    "/exit: leave\n",
		"/help":          "/exit       leave\n/help       list the commands, or tell more of one: /help NAME\n/say        repeat\n",
		"/nope x":        "no command /nope; /help lists the commands",
		"/":              "no command /; /help lists the commands",
		"/help nope":     "no command /nope; /help lists the commands",
		"/help /say now": "no command /say now; /help lists the commands",
	} {
		var out strings.Builder
		c, args, err := s.Find(line)
		if err == nil {
			err = c.Run(t.Context(), "it", args, &out)
		}
		if err != nil {
			out.WriteString(err.Error())
		}
		require.Equal(t, want, out.String(), line)
	}
}
