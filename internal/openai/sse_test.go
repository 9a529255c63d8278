package openai_test

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai"
)

func read(t *testing.T, text io.Reader, max int) ([]string, error) {
	t.Helper()
	r := openai.NewEventReader(text, max)
	var events []string
	for {
		data, err := r.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
}

func TestEventsAreRead(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	cases := map[string][]string{
		"data: a\n\ndata:b\n\n":                      {"a\n", "b\n"},
		"data: a\r\n\r\nevent: e\r\ndata: b\r\n\r\n": {"a\n", "b\n"},
		"data: a\ndata: b\n\n":                       {"a\nb\n"},
		": comment\n\nid: 1\n\ndata: a\n: more\n\n":  {"a\n"},
		"data: a\n\ndata: b":                         {"a\n", "b"},
		"data: " + long + "\n\n" + "data: a\n\n":     {long + "\n", "a\n"},
		": " + long + "\nevent: " + long + "\n\n":    nil,
		"dat: a\ndatax: b\n\n":                       nil,
		"data:\n\ndata: a\n\n":                       {"\n", "a\n"},
		"\n\n\r\n":                                   nil,
		"data: a\r\rdata: b\rdata: c\r\r":            {"a\n", "b\nc\n"},
		"data: a\r\n\rdata: b\n\r":                   {"a\n", "b\n"},
		"":                                           nil,
	}
	for text, want := range cases {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			got, err := read(t, r, 1<<20)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	_, err := read(t, strings.NewReader("data: "+strings.Repeat("x", 2000)+"\n\n"), 1000)
	require.ErrorIs(t, err, openai.ErrEventTooLarge)
	_, err = read(t, strings.NewReader(strings.Repeat("data: x\n", 2000)), 1000)
	require.ErrorIs(t, err, openai.ErrEventTooLarge)
	got, err := read(t, strings.NewReader(strings.Repeat("data: x\n\n", 2000)), 1000)
	require.NoError(t, err)
	require.Len(t, got, 2000)
}

func TestALineWithoutEndIsNotKept(t *testing.T) {
	const size = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, begin := range []string{":", "event: ", "data: "} {
		r := openai.NewEventReader(io.MultiReader(strings.NewReader(begin), io.LimitReader(endless{}, size)), 1<<20)
		_, err := r.Next()
		require.Error(t, err)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
