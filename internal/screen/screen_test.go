package screen

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// What is joined to one character.
const (
	scotland = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
	family   = "👨\u200d👩\u200d👧\u200d👦"
)

func TestVisible(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "a\tb\nc ünï 日本 🙂 שלום", "a\tb\nc ünï 日本 🙂 שלום"},
		{"a title and a cleared screen", "\x1b]0;x\x07\x1b[2J", "␛]0;x␇␛[2J"},
		{"line ends", "a\r\nb\rc", "a\nb␍c"},
		{"erasing", "a\bb\x7f", "a␈b␡"},
		{"C1", "\u009b2J\u0085", "<U+009B>2J<U+0085>"},
		{"C1 in one byte", "\x9b2J", "\ufffd2J"},
		{"reordering", "\u202egnp\u2066 \u200f\u061c", "<U+202E>gnp<U+2066> <U+200F><U+061C>"},
		{"other line ends", "a\u2028b\u2029", "a<U+2028>b<U+2029>"},
		{"no width", "r\u200bm\u200c \u200d\u2060\u2063\ufeff\u00ad", "r<U+200B>m<U+200C> <U+200D><U+2060><U+2063><U+FEFF><U+00AD>"},
		{"blanks that are letters", "a\u3164b\u115f", "a<U+3164>b<U+115F>"},
		{"a text in tags", "x\U000e0072\U000e006d\U000e007f", "x<U+E0072><U+E006D><U+E007F>"},
		{"a text in tags behind a flag", "🏴" + strings.Repeat("\U000e0072", 9), "🏴" + strings.Repeat("<U+E0072>", 9)},
		{"a text in selectors", "a\ufe01\ufe02\U000e0101", "a\ufe01<U+FE02><U+E0101>"},
		{"the flag of Scotland", scotland, scotland},
		{"emoji", family + "❤️‍🔥👍🏽🏳️‍🌈1️⃣", family + "❤️‍🔥👍🏽🏳️‍🌈1️⃣"},
		{"joiners beside emoji", "a\u200d👩\u200d\u200d👩\u200d", "a<U+200D>👩<U+200D><U+200D>👩<U+200D>"},
		{"a chain of emoji", strings.Repeat("👩\u200d", 11) + "👩", strings.Repeat("👩\u200d", 9) + "👩<U+200D>👩\u200d👩"},
		{"Persian, Hindi and Khmer", "می\u200cخواهم क्\u200dष ខ្ញុំ\u200bទៅ", "می\u200cخواهم क्\u200dष ខ្ញុំ\u200bទៅ"},
		{"too many joiners in Persian", "می\u200c\u200d", "می\u200c<U+200D>"},
		{"accents", "e\u0301 Việt שָׁ֑לוֹם ก็ཨོཾ", "e\u0301 Việt שָׁ֑לוֹם ก็ཨོཾ"},
		{"a pile of accents", "a" + strings.Repeat("\u0300", 1000) + "b", "a" + strings.Repeat("\u0300", 8) + "<+992>b"},
		{"a Japanese name and a Mongolian word", "葛\U000e0101 ᠨ᠋", "葛\U000e0101 ᠨ᠋"},
		{"an Arabic number", "\u0600\u0661", "\u0600\u0661"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Visible(tt.in)
			require.Equal(t, tt.want, got)
			require.Equal(t, got, Visible(got), "twice is once")
		})
	}
}

func TestExactHidesNothing(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "echo a | grep ü 日本 🙂\n", "echo a | grep ü 日本 🙂\n"},
		{"carriage return and line end", "a\r\nb", "a␍\nb"},
		{"tab", "a\tb", "a␉b"},
		{"spaces that are none", "a\u00a0b\u3000c\u2003d", "a<U+00A0>b<U+3000>c<U+2003>d"},
		{"no width", "r\u200bm\u2060\ufeff\u00ad", "r<U+200B>m<U+2060><U+FEFF><U+00AD>"},
		{"tags", "x\U000e0072\U000e006d", "x<U+E0072><U+E006D>"},
		{"blanks that are letters", "a\u3164b\u2800", "a<U+3164>b<U+2800>"},
		{"variation selectors", "rm\ufe0f\U000e0100", "rm<U+FE0F><U+E0100>"},
		{"not UTF-8", "a\xffb\xc0", "a<0xFF>b<0xC0>"},
		{"accents, and a pile of them", "e\u0301 a\u0300\u0300\u0300\u0300", "e\u0301 a\u0300\u0300<U+0300><U+0300>"},
		{"private and unassigned", "\ue000\U000fffff", "<U+E000><U+FFFFF>"},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, Exact(tt.in)) })
	}
}

func TestScreenWritesOnlyVisibleText(t *testing.T) {
	whole := "grü\x1b[2J日本\r\nend\u009b.\r!" + family + scotland + "e\u0301\u200d."
	for size := 1; size <= len(whole); size++ {
		var b strings.Builder
		s := New(&b)
		require.Same(t, s, New(s))
		for rest := whole; rest != ""; {
			n := min(size, len(rest))
			written, err := s.Write([]byte(rest[:n]))
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}
		require.NoError(t, s.Control(PasteOn), "there is no terminal to mark pastes")
		require.Equal(t, "grü␛[2J日本\nend<U+009B>.␍!"+family+scotland+"e\u0301<U+200D>.", b.String(), "in pieces of %d bytes", size)
	}
}

func TestEscapeJSON(t *testing.T) {
	in := "\x1b[2J\x7f\u009b\u202e\u2028 ü 🙂 \t\n\\"
	text, err := json.Marshal(map[string]string{"a": in})
	require.NoError(t, err)
	got := EscapeJSON(append(text, '\n'))
	require.NotContains(t, strings.TrimSuffix(string(got), "\n"), "\n")
	require.Equal(t, string(got), Visible(string(got)))
	var back map[string]string
	require.NoError(t, json.Unmarshal(got, &back))
	require.Equal(t, in, back["a"])
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b]0;x\x07\u009b\u202e\r\n\xff")
	f.Add(family + scotland + "e\u0301\u200d\u200c\ufe0f\u200bخ")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Visible(s) + Exact(s) {
			require.False(t, unicode.Is(unicode.Cc, r) && r != '\n' && r != '\t')
			require.False(t, unicode.Is(unicode.Bidi_Control, r))
		}
		require.Equal(t, Visible(s), Visible(Visible(s)))
		require.NotContains(t, Exact(s), "\t")
	})
}
