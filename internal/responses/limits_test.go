package responses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/chatstream"
)

// The assemblers begin where an endless answer would be after a while.
func TestEndlessAnswersAreTooLarge(t *testing.T) {
	for _, event := range []string{
		`{"type":"response.output_text.delta","output_index":0,"delta":"x"}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"x"}`,
	} {
		a := Assembler{text: maxText - 1}
		_, err := a.Add([]byte(event))
		require.NoError(t, err)
		_, err = a.Add([]byte(event))
		require.ErrorIs(t, err, chatstream.ErrTooLarge)
	}
	item := `{"type":"message","content":[]}`
	for _, kind := range []string{"added", "done"} {
		event := []byte(`{"type":"response.output_item.` + kind + `","output_index":0,"item":` + item + `}`)
		a := Assembler{whole: maxWhole - len(item)}
		_, err := a.Add(event)
		require.NoError(t, err)
		_, err = a.Add(event)
		require.ErrorIs(t, err, chatstream.ErrTooLarge)
	}
}
