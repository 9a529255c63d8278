package figure_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/bench/figure"
)

func TestFiguresAreJudgedByTheirGoals(t *testing.T) {
	for name, tt := range map[string]struct {
		figure  figure.Figure
		verdict string
		goal    string
	}{
		"at the most":           {figure.Figure{Value: 2, Reach: 2, Show: figure.Times}, figure.Reached, "≤ 2.00×"},
		"above the most":        {figure.Figure{Value: 2.01, Reach: 2, Show: figure.Times}, figure.Missed, "≤ 2.00×"},
		"at the least":          {figure.Figure{Value: 25, Reach: 25, AtLeast: true, Show: figure.Faster}, figure.Reached, "≥ 25.0× faster"},
		"below the least":       {figure.Figure{Value: 24, Reach: 25, AtLeast: true, Show: figure.Faster}, figure.Missed, "≥ 25.0× faster"},
		"zero of what must not": {figure.Figure{Value: 0, Reach: 0, Show: figure.Count}, figure.Reached, "≤ 0"},
		"no goal":               {figure.Figure{Value: 1, Reach: math.NaN(), Show: figure.Count}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			row, measured := tt.figure.Row()
			require.True(t, measured)
			require.Equal(t, tt.verdict, row.Verdict)
			require.Equal(t, tt.goal, row.Goal)
		})
	}
}

func TestFiguresTravelAsJSON(t *testing.T) {
	figures := []figure.Figure{
		{Name: "a start", Value: figure.Millis(1500 * time.Microsecond), Reach: 2, Show: figure.ShowMillis},
		{Name: "not measured", Value: figure.Millis(0), Reach: 2, Show: figure.ShowMillis},
		{Name: "memory", Value: 3 << 20, Reach: 1 << 20, Show: figure.ShowBytes},
	}
	rows := figure.Rows(figures)
	require.Equal(t, []figure.Row{
		{Name: "a start", Measured: "1.50 ms", Goal: "≤ 2.00 ms", Verdict: figure.Reached},
		{Name: "memory", Measured: "3.0 MiB", Goal: "≤ 1.0 MiB", Verdict: figure.Missed},
	}, rows)
	var w strings.Builder
	require.NoError(t, figure.Encode(&w, rows))
	again, err := figure.Decode(strings.NewReader(w.String()))
	require.NoError(t, err)
	require.Equal(t, rows, again)
	w.Reset()
	require.NoError(t, figure.Print(&w, rows))
	require.Contains(t, w.String(), "memory   3.0 MiB   ≤ 1.0 MiB  NOT REACHED")
	_, err = figure.Decode(strings.NewReader("{"))
	require.ErrorContains(t, err, "read figures: ")
}
