package edit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/x/pygent/internal/edit"
)

func TestCanonicallyEqualTextIsFound(t *testing.T) {
	const divided = "e\u0301"
	for _, tt := range []struct{ text, old, new, want string }{
		{"caf" + divided + "\n", "café", "thé", "th" + divided + "\n"},
		{"café\n", "caf" + divided, "th" + divided, "thé\n"},
		{"caf" + divided + " ñ\nx\n", "x\n", "y\n", "caf" + divided + " ñ\ny\n"},
		{"한국\nx", norm.NFD.String("한국"), "x", "x\nx"},
		{"a" + divided + "\r\nb\r\n", "aé", "b\nc", "b\r\nc\r\nb\r\n"},
	} {
		got, err := edit.Apply(tt.text, []edit.Edit{{Old: tt.old, New: tt.new}})
		require.NoError(t, err, "%q", tt.text)
		require.Equal(t, tt.want, got.Text)
	}
	_, err := edit.Apply("caf"+divided+"\n", []edit.Edit{{Old: "cafe", New: "x"}})
	require.NoError(t, err, "which is there as it is written")
	_, err = edit.Apply("e\u0323\u0301", []edit.Edit{{Old: "é", New: "x"}})
	require.Error(t, err, "a part of a character is not found")
	got, err := edit.Apply("é "+divided, []edit.Edit{{Old: "é", New: "x"}})
	require.NoError(t, err)
	require.Equal(t, "x "+divided, got.Text)
}

func FuzzCanonical(f *testing.F) {
	f.Add("a ", "cafe\u0301", " b", "x")
	f.Add("\u0323", "한\u1112", "\u0301", "é")
	f.Fuzz(func(t *testing.T, before, old, after, new string) {
		text := before + "|" + norm.NFD.String(old) + "|" + after
		got, err := edit.Apply(text, []edit.Edit{{Old: norm.NFC.String(old), New: new}})
		if err != nil || strings.ContainsAny(text+new, "\r\n\t ") {
			return
		}
		require.True(t, strings.HasPrefix(got.Text, before+"|") || strings.HasSuffix(got.Text, "|"+after), "%q %q", text, got.Text)
	})
}
