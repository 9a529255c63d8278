package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestASessionByLinesExitsAsItsTurnsDid(t *testing.T) {
	t.Parallel()
	bad, done := pygenttest.Status(400, "bad_request", "no"), pygenttest.Text("Done.")
	asks := pygenttest.Call("continue", map[string]any{"prompt": "Which?"})
	for name, tt := range map[string]struct {
		args    []string
		input   string
		replies []pygenttest.Reply
		code    int
	}{
		"well":                    {nil, "hello\n", []pygenttest.Reply{done}, 0},
		"with nothing said":       {nil, "", nil, 0},
		"a failure":               {nil, "hello\n", []pygenttest.Reply{bad}, 1},
		"a failure, then well":    {nil, "hello\nagain\n", []pygenttest.Reply{bad, done}, 1},
		"the first message":       {[]string{"say", "hello"}, "", []pygenttest.Reply{bad}, 1},
		"a limit":                 {[]string{"--max-steps", "1"}, "Fix it.\n", []pygenttest.Reply{bash("true"), done}, 4},
		"no progress":             {nil, "hello\n", []pygenttest.Reply{pygenttest.Text(""), pygenttest.Text("")}, 5},
		"the first of several":    {nil, "hello\nagain\n", []pygenttest.Reply{pygenttest.Text(""), pygenttest.Text(""), bad}, 5},
		"a question":              {nil, "hello\n", []pygenttest.Reply{asks}, 3},
		"a question, answered":    {nil, "hello\nthis one\n", []pygenttest.Reply{asks, done}, 0},
		"no such command":         {nil, "/nope\nhello\n", []pygenttest.Reply{done}, 1},
		"a line that is too long": {nil, strings.Repeat("x", 2<<20) + "\n", nil, 1},
		"a command line":          {nil, "!exit 3\n", nil, 1},
		"leaves":                  {nil, "hello\n/exit\nhello\n", []pygenttest.Reply{done}, 0},
		"a message without end":   {nil, "hello\n", []pygenttest.Reply{done.WithFinish(chat.FinishLength), done.WithFinish(chat.FinishLength)}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, pygenttest.NewServer(t, tt.replies...).Env(), append([]string{"--no-docker", "--no-session"}, tt.args...)...)
			cmd.Stdin = strings.NewReader(tt.input)
			got := finish(t, cmd)
			require.Equal(t, tt.code, got.code, got.stdout+got.stderr)
			require.NotContains(t, got.stderr, "the session:", "it was shown")
		})
	}
}
