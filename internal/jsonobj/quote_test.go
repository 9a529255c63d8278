package jsonobj_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

// requireQuotedAlike requires that a text is written as encoding/json writes it.
func requireQuotedAlike(t *testing.T, text string) {
	t.Helper()
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(text))
	var w jsonobj.Writer
	w.Text("a", text)
	got, err := w.Done()
	require.NoError(t, err)
	require.Equal(t, `{"a":`+string(bytes.TrimSuffix(want.Bytes(), []byte("\n")))+"}", string(got))
}

var texts = []string{"", "plain", "a \"b\" \\ c", "line\nline\r\n\ttab", "\n", "\x00", "\b\f\x1f\x7f", "<é&\u2028>", "first \" then \xff", "\"\x01"}

func TestTextsAreQuotedAsTheStandardLibraryDoes(t *testing.T) {
	for _, text := range texts {
		requireQuotedAlike(t, text)
	}
	for c := range 256 {
		requireQuotedAlike(t, "a"+string([]byte{byte(c)})+"b")
	}
}

func FuzzQuote(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { requireQuotedAlike(t, text) })
}
