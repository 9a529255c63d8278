package terminal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestTheCursorIsWhereTheTextIs(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t))
	const margin = 2
	for _, tt := range []struct {
		text    string
		columns int // behind it, and one character to the left
		left    int
	}{
		{"plain", 5, 4},
		{"日本語", 6, 4},
		{"e\u0301a\u0308", 2, 1},
		{"שלום", 4, 3},
		{"👍", 2, 0},
		{"👨‍👩‍👧", 2, 0},
		{"👍🏽", 2, 0},
		{"🇩🇪", 2, 0},
		{"नि", 1, 0},
	} {
		at := func(column int) {
			p.Until(tt.text, func(s termtest.Screen) bool { return s.X == margin+column })
		}
		p.Paste(tt.text)
		at(tt.columns)
		p.Key("left")
		at(tt.left)
		p.Key("home")
		at(0)
		p.Key("end")
		at(tt.columns)
		p.Type("x")
		at(tt.columns + 1)
		p.Key("backspace", "backspace")
		at(tt.left)
		p.Key("ctrl+c")
		at(0)
	}
	p.leaves()
}

func TestKeysOfTheDraft(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Fine.")))
	for _, step := range []struct {
		keys []string
		text string // typed before the keys
		want string
		x    int // of the cursor, without the prompt
	}{
		{text: "one two three", keys: []string{"alt+b"}, want: "one two three", x: 8},
		{keys: []string{"ctrl+left"}, want: "one two three", x: 4},
		{keys: []string{"ctrl+right", "alt+f"}, want: "one two three", x: 13},
		{keys: []string{"ctrl+w"}, want: "one two", x: 8},
		{keys: []string{"ctrl+a", "ctrl+y"}, want: "threeone two", x: 5},
		{keys: []string{"ctrl+k"}, want: "three", x: 5},
		{keys: []string{"home", "delete"}, want: "hree", x: 0},
		{keys: []string{"end", "ctrl+u"}, want: "", x: 0},
		{keys: []string{"ctrl+_"}, want: "hree", x: 4},
		{keys: []string{"shift+tab", "tab", "pgup", "pgdown", "alt+x", "ctrl+o", "ctrl+t", "ctrl+q", "ctrl+x", "ctrl+]", "ctrl+^"}, want: "hree", x: 4},
		{text: "!", keys: []string{"esc"}, want: "hree!", x: 5},
	} {
		p.Type(step.text)
		p.Key(step.keys...)
		p.Until(step.want, func(s termtest.Screen) bool {
			return s.X == 2+step.x && strings.TrimRight(s.Lines[s.Y], " ") == strings.TrimRight("› "+step.want, " ")
		})
	}
	p.Send("\x1b[999~\x1b[1;9Z\x1bOz\x1b_apc\x1b\\\x1b]11;rgb:0/0/0\x07\x1b[?62c") // keys and reports that nobody knows
	p.Type("?")
	p.Await("› hree!?")
	p.Key("enter")
	p.Await("Fine.", "Ready")
	require.Equal(t, "hree!?", p.leaves()[1].Text())
}
