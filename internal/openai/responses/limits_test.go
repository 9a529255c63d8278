package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/responses"
)

// times returns a list of n copies of an element.
func times(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// Each case reaches one limit and no other. It says which event, counted from 0,
// is the first to be refused.
func TestEachLimitHolds(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	piece := func(kind string) func(int) string {
		return func(int) string {
			return `{"type":"response.` + kind + `.delta","output_index":0,"delta":"` + text + `"}`
		}
	}
	item := func(kind, item string) func(int) string {
		return func(i int) string {
			return fmt.Sprintf(`{"type":"response.output_item.%s","output_index":%d,"item":%s}`, kind, i, item)
		}
	}
	ending := func(output func(i int) string) func(int) string {
		return func(i int) string {
			return `{"type":"response.completed","response":{"status":"completed","output":[` + output(i) + `]}}`
		}
	}
	const tooMuchText, tooManyItems = "the answer is too large: more than 16 MiB", "more than 1024 items"
	const tooLargeItems = "its items have more than 16 MiB or 100000 values"
	cases := []struct {
		name  string
		event func(i int) string
		first int
		want  string
	}{
		{"text", piece("output_text"), 16, tooMuchText},
		{"refusal", piece("refusal"), 16, tooMuchText},
		{"arguments", piece("function_call_arguments"), 16, tooMuchText},
		{"reasoning", piece("reasoning_text"), 16, tooMuchText},
		{"summaries of reasoning", piece("reasoning_summary_text"), 16, tooMuchText},
		{"announced items", item("added", `{"type":"x"}`), 1024, tooManyItems},
		{"complete items", item("done", `{"type":"x"}`), 1024, tooManyItems},
		{"bytes of items", item("done", `{"type":"x","x":"`+text+`"}`), 15, tooLargeItems},
		{"values of items", item("added", `{"type":"x","x":[`+times(9_000, "0")+`]}`), 11, tooLargeItems},
		{"items at the end", ending(func(i int) string { return times(1024+i, "{}") }), 1, tooManyItems},
		{"bytes at the end", ending(func(i int) string { return `"` + strings.Repeat("x", 16<<20-4+i*4) + `"` }), 1, tooLargeItems},
		{"values at the end", ending(func(i int) string { return `[` + times(99_990+i*100, "0") + `]` }), 1, tooLargeItems},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var a responses.Assembler
			for i := range c.first {
				_, err := a.Add([]byte(c.event(i)))
				require.NoError(t, err, i)
			}
			_, err := a.Add([]byte(c.event(c.first)))
			require.ErrorIs(t, err, chatstream.ErrTooLarge)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestFieldsOfAnAnnouncedItemAreBounded(t *testing.T) {
	for n, tooMany := range map[int]bool{255: false, 257: true} {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"x%d":0`, i)
		}
		var a responses.Assembler
		for _, event := range []string{
			`{"type":"response.output_item.added","output_index":0,"item":{` + strings.Join(fields, ",") + `}}`,
			completed,
		} {
			_, err := a.Add([]byte(event))
			require.NoError(t, err)
		}
		_, err := a.Finish()
		require.Equal(t, tooMany, err != nil)
		if tooMany {
			require.ErrorContains(t, err, "more than 256 fields in an item")
		}
	}
}
