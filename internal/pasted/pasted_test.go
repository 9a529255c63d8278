package pasted_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pasted"
)

// reading is a function of the package, with what it makes of texts.
type reading struct {
	read func(string) (string, error)
	same map[string]string // what is read from what
	bad  map[string]string // what the error says
}

func TestPastedValuesAreRepairedOrRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]reading{
		"key": {pasted.Key, map[string]string{
			"sk-a":                          "sk-a",
			"sk-a\r":                        "sk-a",
			"sk-a\r\n":                      "sk-a",
			"\ufeffsk-a":                    "sk-a",
			" \tsk-a\u00a0":                 "sk-a",
			"\u200bsk-a\u200b\x00":          "sk-a",
			`"sk-a"`:                        "sk-a",
			`'sk-a'` + "\r":                 "sk-a",
			"“sk-a”":                        "sk-a",
			"` sk-a `":                      "sk-a",
			"Bearer sk-a":                   "sk-a",
			"bearer\tsk-a\r":                "sk-a",
			`"Bearer sk-a"`:                 "sk-a",
			"Authorization: Bearer sk-a":    "sk-a",
			`authorization:"Bearer "sk-a""`: "sk-a",
			"Bearersk-a":                    "Bearersk-a",
			"Bearer":                        "Bearer",
			"<sk-a>":                        "sk-a",
			"~!":                            "~!",
			`"`:                             `"`,
			"":                              "",
			" \r\n":                         "",
			`""`:                            "",
		}, map[string]string{
			"sk-a\nsk-b": "a line end (U+000A) as its character 5",
			"sk-a\rb":    "a carriage return (U+000D) as its character 5",
			"sk a":       "a blank (U+0020) as its character 3",
			"sk-…abc":    "'…' (U+2026) as its character 4",
			"s\u200bk":   "a zero-width space (U+200B) as its character 2",
			"s\u2066k":   "a character that is not seen (U+2066)",
			"ключ":       "'к' (U+043A) as its character 1",
			"sk-\xffa":   "a byte that is no UTF-8",
			"“sk-a\"":    "'“' (U+201C) as its character 1",
			"sk\x7fa":    "a character that is not seen (U+007F)",
			"Bearer a b": "a blank (U+0020)",
			"sk\ta":      "a tab (U+0009)",
			"a\x00b":     "a NUL (U+0000)",
		}},
		"URL": {pasted.URL, map[string]string{
			"http://h/v1":                                "http://h/v1",
			"http://h/v1\r":                              "http://h/v1",
			"\ufeff\"http://h/v1\"\r\n":                  "http://h/v1",
			"<http://h/v1>":                              "http://h/v1",
			"http://h/v1/chat/completions":               "http://h/v1",
			"http://h/v1/chat/completions/":              "http://h/v1",
			"http://h/v1/completions":                    "http://h/v1",
			"http://h/v1/responses\n":                    "http://h/v1",
			"http://h/chat/completions":                  "http://h",
			"https://h/d/chat/completions?api-version=1": "https://h/d?api-version=1",
			"https://h/d?to=/chat/completions":           "https://h/d?to=/chat/completions",
			"http://h/v1/chat":                           "http://h/v1/chat",
			"http://h/v1/":                               "http://h/v1/",
			"http:///chat/completions":                   "http:///chat/completions",
			"/chat/completions":                          "/chat/completions",
			"http://bücher.example/v1":                   "http://bücher.example/v1",
			"":                                           "",
		}, map[string]string{
			"http://h/v1\nhttp://h/v2": "a line end (U+000A) as its character 12",
			"http://h/v 1":             "a blank (U+0020) as its character 11",
			"http://h/\u200bv1":        "a zero-width space (U+200B)",
			"\"http://h/v1":            `'"' (U+0022) as its character 1`,
			"http://h/v1’":             "'’' (U+2019)",
		}},
		"word": {pasted.Word, map[string]string{
			"m\r": "m", `"m"`: "m", "\ufeffm ": "m", "my model": "my model", "modèle": "modèle", "": "", "a/b:c@d": "a/b:c@d",
		}, map[string]string{
			"a\nb": "a line end (U+000A) as its character 2", "a\u00adb": "a soft hyphen (U+00AD)", "a\u00a0b": "a no-break space (U+00A0)", "a\xffb": "no UTF-8",
		}},
		"header": {pasted.Header, map[string]string{
			"a b\r\n": "a b", `"a"`: `"a"`, " é ": "é", "a\tb": "a\tb",
		}, map[string]string{
			"a\r\nb": "a carriage return (U+000D) as its character 2", "a\x00b": "a NUL (U+0000)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for text, want := range r.same {
				got, err := r.read(text)
				require.NoError(t, err, "%q", text)
				require.Equal(t, want, got, "%q", text)
			}
			for text, want := range r.bad {
				_, err := r.read(text)
				require.ErrorContains(t, err, want, "%q", text)
				require.NotContains(t, err.Error(), "sk-", "an error never has the value")
			}
		})
	}
}
