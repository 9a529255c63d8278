package recap_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/recap"
)

func TestLine(t *testing.T) {
	said := func(byUser bool, text string) recap.Said { return recap.Said{ByUser: byUser, Text: text} }
	for name, tt := range map[string]struct {
		messages int
		title    string
		said     []recap.Said
		want     string
	}{
		"nothing":             {0, "a title", nil, ""},
		"one":                 {1, "hi", []recap.Said{said(true, "hi")}, "goes on after 1 message; you said last: hi"},
		"the model":           {2, "plant a tree", []recap.Said{said(true, "plant a tree"), said(false, "It\ngrows.")}, `goes on after 2 messages of "plant a tree"; the model said last: It grows.`},
		"no words at the end": {3, "", []recap.Said{said(true, "look"), said(false, " \n")}, "goes on after 3 messages; you said last: look"},
		"no words":            {3, "a picture", []recap.Said{said(true, "")}, `goes on after 3 messages of "a picture"`},
		"hostile":             {2, "t\x1b[2J\"", []recap.Said{said(false, "a\x1b]0;x\x07b")}, `goes on after 2 messages of "t␛[2J\""; the model said last: a␛]0;x␇b`},
		"long": {2, strings.Repeat("t", 100), []recap.Said{said(true, strings.Repeat("ü", 100))},
			`goes on after 2 messages of "` + strings.Repeat("t", 57) + `…"; you said last: ` + strings.Repeat("ü", 33) + "…"},
		"the title again": {1, strings.Repeat("t", 100), []recap.Said{said(true, strings.Repeat("t", 100))}, "goes on after 1 message; you said last: " + strings.Repeat("t", 67) + "…"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, recap.Line(tt.messages, tt.title, tt.said)) })
	}
}

func TestLast(t *testing.T) {
	said := func(byUser bool, text string) recap.Said { return recap.Said{ByUser: byUser, Text: text} }
	for name, tt := range map[string]struct {
		said        []recap.Said
		user, model []string
	}{
		"nothing":           {nil, nil, nil},
		"all is in a line":  {[]recap.Said{said(true, "hi there"), said(false, "Hello.")}, nil, nil},
		"both":              {[]recap.Said{said(true, "hi there"), said(false, "Hello."), said(true, "plant a tree"), said(false, "It\ngrows."), said(false, "")}, []string{"plant a tree"}, []string{"It", "grows."}},
		"no answer":         {[]recap.Said{said(false, "Hello."), said(true, "a\nb\nc\nd")}, []string{"a", "b", "c …"}, nil},
		"many lines":        {[]recap.Said{said(true, "hi there"), said(false, strings.Repeat("x\n", 20)+"end")}, []string{"hi there"}, []string{"… x", "x", "x", "x", "x", "x", "x", "end"}},
		"long lines":        {[]recap.Said{said(true, strings.Repeat("a", 500)), said(false, strings.Repeat("b", 500)+"end")}, []string{strings.Repeat("a", 300) + " …"}, []string{"… " + strings.Repeat("b", 297) + "end"}},
		"hostile":           {[]recap.Said{said(true, "a\x1b[2J\r\n\u202eb"), said(false, "\x1b]0;x\x07\n✓ done")}, []string{"a␛[2J", "<U+202E>b"}, []string{"␛]0;x␇", "✓ done"}},
		"before the answer": {[]recap.Said{said(true, "look"), said(false, "I look."), said(false, "Here it\nis.")}, []string{"look"}, []string{"Here it", "is."}},
	} {
		t.Run(name, func(t *testing.T) {
			user, model := recap.Last(recap.Line(2, "hi there", tt.said), tt.said)
			require.Equal(t, tt.user, user)
			require.Equal(t, tt.model, model)
		})
	}
}
