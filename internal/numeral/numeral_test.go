package numeral_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/numeral"
)

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567",
		-1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, numeral.Grouped(n))
	}
}

func TestCount(t *testing.T) {
	require.Equal(t, "1 line", numeral.Count(1, "line"))
	require.Equal(t, "0 lines", numeral.Count(0, "line"))
	require.Equal(t, "2,000 lines", numeral.Count(int64(2000), "line"))
	require.Equal(t, "1 entry", numeral.Count(1, "entry"))
	require.Equal(t, "3 entries", numeral.Count(3, "entry"))
}

func TestSome(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	require.Equal(t, "a, b, c, d", numeral.Some(names, 4, false))
	require.Equal(t, "a, b, c and 1 other", numeral.Some(names, 3, false))
	require.Equal(t, "a, b and 2 others", numeral.Some(names, 2, false))
	require.Equal(t, "a and many others", numeral.Some(names, 1, true))
	require.Equal(t, "very many", numeral.Some(nil, 1, true))
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 340 * time.Millisecond: "340 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59.0 s",
		61 * time.Second: "1:01", time.Hour + 2*time.Minute + 3*time.Second: "1:02:03",
	} {
		require.Equal(t, want, numeral.Took(d))
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 2500: "2.5 kB", 1_234_567: "1.2 MB", 5_000_000_000: "5.0 GB"} {
		require.Equal(t, want, numeral.Bytes(n))
	}
}
