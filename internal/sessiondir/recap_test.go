package sessiondir_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sessiondir"
)

func TestLine(t *testing.T) {
	said := func(byUser bool, text string) sessiondir.Said { return sessiondir.Said{ByUser: byUser, Text: text} }
	for name, tt := range map[string]struct {
		messages int
		title    string
		said     []sessiondir.Said
		want     string
	}{
		"nothing":             {0, "a title", nil, ""},
		"one":                 {1, "hi", []sessiondir.Said{said(true, "hi")}, "continues after 1 message; you said last: hi"},
		"the model":           {2, "plant a tree", []sessiondir.Said{said(true, "plant a tree"), said(false, "It\ngrows.")}, `continues after 2 messages of "plant a tree"; the model said last: It grows.`},
		"no words at the end": {3, "", []sessiondir.Said{said(true, "look"), said(false, " \n")}, "continues after 3 messages; you said last: look"},
		"no words":            {3, "a picture", []sessiondir.Said{said(true, "")}, `continues after 3 messages of "a picture"`},
		"hostile":             {2, "t\x1b[2J\"", []sessiondir.Said{said(false, "a\x1b]0;x\x07b")}, `continues after 2 messages of "t␛[2J\""; the model said last: a␛]0;x␇b`},
		"long": {2, strings.Repeat("t", 100), []sessiondir.Said{said(true, strings.Repeat("ü", 100))},
			`continues after 2 messages of "` + strings.Repeat("t", 57) + `…"; you said last: ` + strings.Repeat("ü", 33) + "…"},
		"the title again": {1, strings.Repeat("t", 100), []sessiondir.Said{said(true, strings.Repeat("t", 100))}, "continues after 1 message; you said last: " + strings.Repeat("t", 67) + "…"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, sessiondir.RecapLine(tt.messages, tt.title, tt.said)) })
	}
}

func TestLast(t *testing.T) {
	said := func(byUser bool, text string) sessiondir.Said { return sessiondir.Said{ByUser: byUser, Text: text} }
	for name, tt := range map[string]struct {
		said        []sessiondir.Said
		user, model []string
	}{
		"nothing":           {nil, nil, nil},
		"all is in a line":  {[]sessiondir.Said{said(true, "hi there"), said(false, "Hello.")}, nil, nil},
		"both":              {[]sessiondir.Said{said(true, "hi there"), said(false, "Hello."), said(true, "plant a tree"), said(false, "It\ngrows."), said(false, "")}, []string{"plant a tree"}, []string{"It", "grows."}},
		"no answer":         {[]sessiondir.Said{said(false, "Hello."), said(true, "a\nb\nc\nd")}, []string{"a", "b", "c …"}, nil},
		"many lines":        {[]sessiondir.Said{said(true, "hi there"), said(false, strings.Repeat("x\n", 20)+"end")}, []string{"hi there"}, []string{"… x", "x", "x", "x", "x", "x", "x", "end"}},
		"long lines":        {[]sessiondir.Said{said(true, strings.Repeat("a", 500)), said(false, strings.Repeat("b", 500)+"end")}, []string{strings.Repeat("a", 300) + " …"}, []string{"… " + strings.Repeat("b", 297) + "end"}},
		"hostile":           {[]sessiondir.Said{said(true, "a\x1b[2J\r\n\u202eb"), said(false, "\x1b]0;x\x07\n✓ done")}, []string{"a␛[2J", "<U+202E>b"}, []string{"␛]0;x␇", "✓ done"}},
		"before the answer": {[]sessiondir.Said{said(true, "look"), said(false, "I look."), said(false, "Here it\nis.")}, []string{"look"}, []string{"Here it", "is."}},
	} {
		t.Run(name, func(t *testing.T) {
			user, model := sessiondir.LastWords(sessiondir.RecapLine(2, "hi there", tt.said), tt.said)
			require.Equal(t, tt.user, user)
			require.Equal(t, tt.model, model)
		})
	}
}
