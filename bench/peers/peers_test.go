package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test's own program be the server.
func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		exit(serve())
	}
	os.Exit(m.Run())
}

// The whole measurement takes a minute; this one measures the same of less.
func TestThePeersAreMeasured(t *testing.T) {
	b := bench{rounds: 2, steps: 3, chunks: 20, histories: []int{4, 9}, peers: peers}
	require.NoError(t, b.run(t.Context()))
	require.Len(t, b.tables, 3)
	for _, table := range b.tables {
		for i, row := range table.rows {
			require.Len(t, row, 2, peers[i].name)
			for _, s := range row {
				require.Positive(t, s.time)
				require.Positive(t, s.objects)
			}
		}
	}
	figures := b.figures()
	require.Len(t, figures, 3*(len(peers)-1), "the agent against each other peer")
	for _, f := range figures {
		require.Positive(t, f.Value, f.Name)
	}
	var w strings.Builder
	b.print(&w)
	for _, p := range peers {
		require.Equal(t, 3+min(1, strings.Count(p.name, "net/http")), strings.Count(w.String(), p.name+" ")+strings.Count(w.String(), p.name+"."), "%s", w.String())
	}
}

func TestTheStrictServerRefuses(t *testing.T) {
	url, stop, err := startServer(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	orphan := []turn{{role: "user", text: "go"}, {role: "tool", id: "x", text: "a result without its call"}}
	for _, p := range peers[:3] { // pygent answers for its histories itself
		s, err := p.open(t.Context(), url+strictServer, orphan)
		require.NoError(t, err)
		_, err = s.say(t.Context(), askSteps+"1", func(string) {})
		require.ErrorContains(t, err, "400", p.name)
		require.NoError(t, s.close())
	}
}
