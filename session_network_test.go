package pygent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostDecisions(t *testing.T) {
	yes, session := HostDecision{Allow: true}, HostDecision{Allow: true, Session: true}
	tests := []struct {
		answers []string
		want    HostDecision
		clear   bool
	}{
		{[]string{"y", "Y", "yes", "YES"}, yes, true},
		{[]string{"s", "session", "a", "A", "always"}, session, true},
		{[]string{"", "n", "No"}, HostDecision{}, true},
		{[]string{"use the cache"}, HostDecision{Reason: "the user says: use the cache"}, true},
		{[]string{"ye", "yy", "all", "never", "ok"}, HostDecision{}, false},
	}
	for _, tt := range tests {
		for _, answer := range tt.answers {
			d, clear := hostDecision(answer)
			require.Equal(t, tt.clear, clear, answer)
			if clear {
				require.Equal(t, tt.want, d, answer)
			}
		}
	}
}

func TestHostQuestions(t *testing.T) {
	s := &session{agent: &Agent{}}
	q := s.hostQuestion([]string{"pypi.org"})
	require.Equal(t, question{
		head:   "A command wants to reach",
		text:   "pypi.org",
		prompt: "Allow that? [y]es, for this command, for this [s]ession, [n]o, or say why not: ",
	}, q, "always is not offered where nothing can be kept")

	s.agent.opts.homeFile = "/home/me/.pygent.toml"
	q = s.hostQuestion([]string{"pypi.org", "www.xn--pypi-4ve.org"})
	require.Equal(t, "pypi.org, www.xn--pypi-4ve.org (punycode: another script)", q.text)
	require.Equal(t, "Allow them all? [y]es, for this command, for this [s]ession, [a]lways, [n]o, or say why not: ", q.prompt)
}
