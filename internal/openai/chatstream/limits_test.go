package chatstream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

// fieldsOf returns n fields with different names.
func fieldsOf(prefix string, n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%s%d":0`, prefix, i)
	}
	return strings.Join(fields, ",")
}

// times returns n copies of element, separated by commas.
func times(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// Each case reaches one limit and no other. It says which chunk is the first to
// be refused.
func TestEachLimitHolds(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	cases := []struct {
		name     string
		chunk    func(i int) string // the chunk with this number, from 0
		from, to int                // the range of the first refused chunk's number
		want     string
	}{
		{"text", func(int) string { return delta(`{"content":"` + text + `"}`) }, 15, 15, "more than 16 MiB are to be kept"},
		{"arguments", func(int) string {
			return calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"` + text + `"}}`)
		}, 15, 15, "more than 16 MiB are to be kept"},
		{"choices", func(i int) string { return `{"choices":[` + times(i+1, "{}") + `]}` }, 128, 128, "more than 128 choices"},
		{"fields of one piece", func(i int) string { return delta(`{` + times(i+1, `"a":0`) + `}`) }, 256, 256, "more than 256 fields in one object"},
		{"fields of all pieces", func(i int) string { return delta(fmt.Sprintf(`{"a%d":0}`, i)) }, 256, 256, "more than 256 fields in one object"},
		{"fields of many calls", func(i int) string {
			return calls(fmt.Sprintf(`{"index":%d,%s}`, i, fieldsOf("a", 250)))
		}, 150, 200, "more than 16 MiB are to be kept"},
		{"calls", func(i int) string { return calls(fmt.Sprintf(`{"index":%d,"function":{"name":"f"}}`, i)) }, 256, 256, "more than 256 tool calls"},
		{"a name", func(i int) string {
			return calls(`{"index":0,"function":{"name":"` + strings.Repeat("x", i+1) + `"}}`)
		}, 1024, 1024, "more than 1024 bytes in a tool's name"},
		{"an id", func(i int) string {
			return calls(`{"index":0,"id":"` + strings.Repeat("x", i+1) + `"}`)
		}, 1024, 1024, "more than 1024 bytes in a tool call's id"},
		{"small elements", func(int) string { return delta(`{"a":[` + times(10, "0") + `]}`) }, 5500, 6600, "more than 16 MiB are to be kept"},
		{"small parts", func(int) string { return delta(`{"content":[` + times(10, "{}") + `]}`) }, 5500, 6600, "more than 16 MiB are to be kept"},
		{"small values", func(int) string { return delta(`{"a":{"b":[` + times(10_000, "0") + `]}}`) }, 20, 30, "more than 16 MiB are to be kept"},
		{"nesting", func(i int) string {
			return `{"a":` + strings.Repeat("[", i) + "0" + strings.Repeat("]", i) + "}"
		}, 100, 100, "nested too deeply: more than 100 levels"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var a chatstream.Assembler
			for i := range c.to + 1 {
				_, err := a.Add([]byte(c.chunk(i)))
				if err == nil {
					continue
				}
				require.ErrorIs(t, err, chatstream.ErrTooLarge)
				require.ErrorContains(t, err, c.want)
				require.GreaterOrEqual(t, i, c.from)
				return
			}
			t.Fatal("no limit")
		})
	}
}

func TestLittlePiecesAreNoMoreThanTheirBytes(t *testing.T) {
	var a chatstream.Assembler
	for range 50_000 {
		_, err := a.Add([]byte(delta(`{"content":"a","x":{"b":[0,1,2,3,4]}}`)))
		require.NoError(t, err)
	}
}

func TestLongNamesAreCutOff(t *testing.T) {
	long := strings.Repeat("é", 1000)
	answer := assemble(t, fmt.Sprintf(`{"id":"%[1]s","model":"%[1]s","choices":[{"finish_reason":"%[1]s","delta":{"content":"a"}}]}`, long))
	for _, name := range []string{answer.ID, answer.Model, answer.FinishReason} {
		require.Equal(t, long[:1024], name)
	}
	var a chatstream.Assembler
	_, err := a.Add([]byte(`{"error":"` + strings.Repeat("x", 300<<10) + `"}`))
	var server *chatstream.ServerError
	require.ErrorAs(t, err, &server)
	require.Len(t, server.Body, 256<<10)
}

// A piece that continues an element far back becomes a new element. Otherwise a
// server could have all elements compared with each other.
func TestElementsFarBackAreNotContinued(t *testing.T) {
	element := func(i int) string { return delta(fmt.Sprintf(`{"a":[{"index":%d,"b":"x"}]}`, i)) }
	var chunks []string
	for i := range 5000 {
		chunks = append(chunks, element(i))
	}
	answer := assemble(t, append(chunks, element(4000), element(0), finishStop)...)
	a := string(answer.Extra["a"])
	require.Contains(t, a, `{"b":"xx","index":4000}`)
	require.Equal(t, 2, strings.Count(a, `{"index":0,"b":"x"}`))
}
