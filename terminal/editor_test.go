package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/livearea"
)

func TestEditing(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		keys []string
		want string // with the cursor as "|"
	}{
		"the end":                   {"one two", nil, "one two|"},
		"backspace":                 {"one", []string{"backspace"}, "on|"},
		"a character of many runes": {"a👨‍👩‍👧", []string{"backspace"}, "a|"},
		"an accent":                 {"e\u0301x", []string{"left", "left"}, "|e\u0301x"},
		"delete":                    {"abc", []string{"home", "delete"}, "|bc"},
		"a word back":               {"one two", []string{"ctrl+w"}, "one |"},
		"and again":                 {"one two", []string{"ctrl+w", "ctrl+y", "ctrl+y"}, "one twotwo|"},
		"over words":                {"one two", []string{"alt+b", "alt+b", "alt+f"}, "one| two"},
		"to the beginning":          {"one\ntwo", []string{"ctrl+a"}, "one\n|two"},
		"the rest of the line":      {"one\ntwo", []string{"ctrl+home", "right", "ctrl+k"}, "o|\ntwo"},
		"the line so far":           {"one two", []string{"alt+b", "ctrl+u"}, "|two"},
		"over a line end":           {"a\nb", []string{"home", "left", "left"}, "|a\nb"},
		"undone":                    {"one two", []string{"ctrl+w", "ctrl+_"}, "one two|"},
	} {
		t.Run(name, func(t *testing.T) {
			var e editor
			e.insert(tt.text)
			for _, key := range tt.keys {
				require.True(t, e.key(key), key)
			}
			require.Equal(t, tt.want, e.text[:e.cursor]+"|"+e.text[e.cursor:])
		})
	}
}

func TestALongPasteHasAMark(t *testing.T) {
	var e editor
	long := strings.Repeat("line\n", 20)
	e.insert("see ")
	e.insertPaste(long)
	e.insert(" ok\r\nend\x1b" + string(firstMark))
	rows, _, _ := e.rows(80)
	require.Equal(t, "see [pasted 20 lines] ok", rows[0].shown)
	require.Equal(t, "see "+long+" ok\nend\uFFFD", e.message())
	e.clear()
	e.insertPaste(strings.Repeat("x", 2000))
	rows, _, _ = e.rows(80)
	require.Equal(t, "[pasted 2000 characters]", rows[0].shown)
	e.key("backspace")
	require.Empty(t, e.message())
	require.False(t, e.insertPaste(strings.Repeat("x", maxDraft+1)))
}

func TestRowsOfADraft(t *testing.T) {
	var e editor
	e.insert("ab日本cd\n\nx")
	rows, row, col := e.rows(6)
	var shown []string
	for _, r := range rows {
		shown = append(shown, r.shown)
	}
	require.Equal(t, []string{"ab日", "本cd", "", "x"}, shown)
	require.Equal(t, []int{3, 1}, []int{row, col})
	require.True(t, e.vertical(-1, 6))
	require.True(t, e.vertical(-1, 6))
	require.Equal(t, "本cd\n\nx", e.text[e.cursor:])
	require.True(t, e.vertical(-1, 6))
	require.False(t, e.vertical(-1, 6))
}

func FuzzEditor(f *testing.F) {
	f.Add("one two\n日本 e\u0301", "lrhwkuyd^v", 9)
	f.Fuzz(func(t *testing.T, text, keys string, columns int) {
		columns = 4 + columns&63
		names := []string{"left", "right", "home", "end", "ctrl+w", "ctrl+k", "ctrl+u", "ctrl+y", "delete", "backspace", "alt+b", "alt+f", "ctrl+_", "ctrl+home"}
		var e editor
		e.insert(text)
		for _, k := range []byte(keys) {
			switch n := int(k) % (len(names) + 4); {
			case n < len(names):
				e.key(names[n])
			case n == len(names):
				e.insert("é")
			case n == len(names)+1:
				e.insertPaste(strings.Repeat("y\n", 9))
			default:
				e.vertical(n%2*2-1, columns)
			}
			require.True(t, e.cursor >= 0 && e.cursor <= len(e.text))
			require.True(t, utf8.ValidString(e.text[:e.cursor]))
			rows, row, col := e.rows(columns)
			require.Less(t, row, len(rows))
			for _, r := range rows {
				require.NotContains(t, r.shown, "\n")
			}
			require.GreaterOrEqual(t, livearea.Width(rows[row].shown)+1, col)
		}
	})
}

// Only what is in the draft counts, whatever was pasted and erased before.
func TestPastesThatWereErased(t *testing.T) {
	var e editor
	long := strings.Repeat("x", maxDraft*3/4)
	for range 5 {
		require.True(t, e.insertPaste(long))
		e.key("ctrl+u")
		require.Empty(t, e.message())
	}
	require.True(t, e.insertPaste("short"))
	require.False(t, e.key("ctrl+y") && len(e.message()) > maxDraft)
	require.LessOrEqual(t, len(e.pastes), 3, "the others are not kept")
}

// What was killed is the text, and not the mark of a paste that is gone.
func TestAPasteThatWasKilledComesBack(t *testing.T) {
	var e editor
	first, second := strings.Repeat("first\n", 20), strings.Repeat("second\n", 20)
	e.insertPaste(first)
	e.key("ctrl+u")
	e.clear()
	e.insertPaste(second)
	e.key("ctrl+y")
	require.Equal(t, second+first, e.message())
	e.set("other")
	require.Equal(t, "other", e.message())
	e.key("ctrl+_")
	require.Equal(t, second+first, e.message())
}

// A draft that nobody has typed is laid out as fast as others.
func TestALongDraftIsFolded(t *testing.T) {
	var want strings.Builder
	var e editor
	for i := range 10_000 {
		piece := strings.Repeat("0123456789", i%10) + "\n"
		e.insert(piece)
		want.WriteString(piece)
		require.LessOrEqual(t, len(e.text), maxShown+len(piece))
	}
	require.Equal(t, want.String(), e.message())
	e.key("ctrl+home")
	for range 5000 {
		e.insert("0123456789")
	}
	require.Equal(t, strings.Repeat("0123456789", 5000)+want.String(), e.message())
	require.LessOrEqual(t, len(e.text), maxShown+10)
	e.set(want.String())
	require.Equal(t, want.String(), e.message())
	require.Less(t, len(e.text), 10)
}
