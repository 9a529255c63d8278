package progress_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/progress"
)

func TestBytesAreCounted(t *testing.T) {
	var told [][2]int64
	ctx := progress.With(t.Context(), func(done, total int64) { told = append(told, [2]int64{done, total}) })
	read := func(text string) {
		t.Helper()
		got, err := io.ReadAll(progress.Reader(ctx, io.LimitReader(strings.NewReader(text), 100)))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	read("before") // how much there is is not known yet
	require.Empty(t, told)
	progress.Expect(ctx, 20)
	require.Equal(t, [][2]int64{{6, 20}}, told)
	read("four")
	progress.Reach(ctx, 12)
	progress.Reach(ctx, 11)
	read("more than was expected")
	require.Equal(t, [2]int64{20, 20}, told[len(told)-1])
	for i, one := range told[1:] {
		require.GreaterOrEqual(t, one[0], told[i][0])
	}
	require.Contains(t, told, [2]int64{12, 20})
}

func TestNobodyWaits(t *testing.T) {
	r := strings.NewReader("x")
	require.Same(t, r, progress.Reader(t.Context(), r))
	progress.Expect(t.Context(), 1)
	progress.Reach(t.Context(), 1)
}
