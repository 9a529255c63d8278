package jsonobj_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

func TestReadableJSONHasNoHalvesOfCharacters(t *testing.T) {
	for encoded, want := range map[string]string{
		`{"a":1}`:                     `{"a":1}`,
		`"\ud83d\ude00 \uD83D\uDE00"`: `"\ud83d\ude00 \uD83D\uDE00"`,
		`"a\ud83d"`:                   `"a\ufffd"`,
		`"\ude00\ud83d"`:              `"\ufffd\ufffd"`,
		`"\ud83d\ud83d\ude00"`:        `"\ufffd\ud83d\ude00"`,
		`"\ud83d\n\ude00"`:            `"\ufffd\n\ufffd"`,
		`"\\ud83d \\\ud83d \\"`:       `"\\ud83d \\\ufffd \\"`,
		`{"\ud83d":["\uDFFF","é"]}`:   `{"\ufffd":["\ufffd","é"]}`,
		"\"\xff\\ud83d\"":             `"` + "\ufffd" + `\ufffd"`,
	} {
		require.Equal(t, want, string(jsonobj.Readable([]byte(encoded))), encoded)
	}
}

// What the standard library reads of text stays the same: it takes halves for U+FFFD too.
func FuzzReadable(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00\ud83d","b":["\\ud83d",1]}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var want, got any
		if json.Unmarshal(encoded, &want) != nil {
			t.Skip()
		}
		made := jsonobj.Readable(bytes.Clone(encoded))
		require.NoError(t, json.Unmarshal(made, &got))
		if utf8.Valid(encoded) {
			require.Equal(t, want, got)
		}
		require.True(t, utf8.Valid(made))
		require.Equal(t, made, jsonobj.Readable(bytes.Clone(made)))
	})
}
