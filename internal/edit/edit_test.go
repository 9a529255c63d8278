package edit_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/edit"
)

func TestOneEdit(t *testing.T) {
	for name, tt := range map[string]struct{ text, old, new, want, where string }{
		"once":                          {"a\nb\nc\n", "b", "B", "a\nB\nc\n", "at line 2"},
		"several lines":                 {"a\nb\nc\n", "a\nb", "x", "x\nc\n", "at line 1"},
		"deleted":                       {"a\nb\nc\n", "b\n", "", "a\nc\n", "at line 2"},
		"the last line deleted":         {"a\nb\n", "b\n", "", "a\n", "at line 2"},
		"everything":                    {"a", "a", "b\n", "b\n", "at line 1"},
		"everything deleted":            {"a", "a", "", "", "at line 1"},
		"unicode":                       {"größe = 1 // 日本\n", "größe = 1 // 日本", "größe = 2 // 🙂", "größe = 2 // 🙂\n", "at line 1"},
		"CRLF, LF old text":             {"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n", "at line 1"},
		"CRLF, one line becomes two":    {"a\r\nb\r\nc\r\n", "b", "b\nB", "a\r\nb\r\nB\r\nc\r\n", "at line 2"},
		"CRLF, last line without end":   {"a\r\nb", "b", "b\nB", "a\r\nb\r\nB", "at line 2"},
		"CRLF, old begins with an end":  {"a\r\nb\r\n", "\nb", "\nB\nC", "a\r\nB\r\nC\r\n", "at line 1"},
		"CRLF, an end taken out":        {"a\r\nb\r\n", "\nb", "b", "ab\r\n", "at line 1"},
		"CRLF meant":                    {"a\r\nb\n", "a\r\nb", "a\nb", "a\nb\n", "at line 1"},
		"mixed ends, LF place":          {"a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n", "at line 2"},
		"mixed ends, CRLF place":        {"a\nb\r\nc\r\n", "b\nc", "x\ny", "a\nx\r\ny\r\n", "at line 2"},
		"mixed ends within":             {"a\nb\r\nc\n", "a\nb\nc", "x", "x\n", "at line 1"},
		"LF file, CRLF old text":        {"a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n", "at line 1"},
		"LF file stays so":              {"a\nb\n", "b", "b\nc", "a\nb\nc\n", "at line 2"},
		"CR alone":                      {"a\rb\rc", "a\nb", "x\ny", "x\ry\rc", "at line 1"},
		"blanks in the file":            {"a  \nb\t\nc\n", "a\nb\nc", "x", "x\n", "at line 1"},
		"blanks in the file's last":     {"a  \nb\t\nc\n", "a\nb", "x", "x\t\nc\n", "at line 1"},
		"blanks in old text":            {"a\nb\nc\n", "a  \nb \n", "x\n", "x\nc\n", "at line 1"},
		"blanks at the end of old text": {"a\nb\nc\n", "b  ", "x", "a\nx\nc\n", "at line 2"},
		"blanks, CRLF":                  {"a \r\nb\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\n", "at line 1"},
		"a blank line":                  {"a\n   \nb\n", "a\n\nb", "x", "x\n", "at line 1"},
		"blanks of the next line stay":  {"a \n   \nb\n", "a\n", "x\n", "x\n   \nb\n", "at line 1"},
		"no end of the last line":       {"a\nb", "b\n", "x\n", "a\nx", "at line 2"},
		"a byte order mark":             {"\ufeffa\nb\n", "a\n", "x\n", "\ufeffx\nb\n", "at line 1"},
		"numbers copied":                {"a\n\nb\nc\n", "1\ta\n2\t\n3\tb", "x", "x\nc\n", "at line 1"},
		"numbers copied, both":          {"a\nb\nc\n", "    2\tb\n    3\tc\n", "    2\tx\n    3\ty\n", "a\nx\ny\n", "at line 2"},
		"numbers copied, an empty line": {"a\n\nb\n", "1\ta\n2\n3\tb", "1\tx\n2\n3\ty", "x\n\ny\n", "at line 1"},
		"numbers and CRLF":              {"a\r\nb\r\n", "1\ta\n2\tb", "x", "x\r\n", "at line 1"},
		"numbers that are there":        {"1\ta\n2\tb\n", "1\ta", "1\tx", "1\tx\n2\tb\n", "at line 1"},
		"numbers of a table":            {"17\tfop\n1\tfop\n", "1\tfop", "1\tbar", "17\tfop\n1\tbar\n", "at line 2"},
		"blanks of lines that stay":     {"a  \nb\t\nc\nd  \ne \n", "a\nb\nc\nd\ne", "a\nb\nX\nd\ne", "a  \nb\t\nX\nd  \ne \n", "at line 3"},
		"ends of lines that stay":       {"a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nx\nc\nd\n", "a\r\nx\nc\r\nd\n", "at line 2"},
		"a line between, blanks stay":   {"a  \nb \n", "a\nb\n", "a\nx\nb\n", "a  \nx\nb \n", "at line 2"},
		"a line taken out, blanks stay": {"a  \nb \nc\t\n", "a\nb\nc", "a\nc", "a  \nc\t\n", "at line 2"},
		"a line more at the open end":   {"a  \nb ", "a\nb\n", "a\nb\nc\n", "a\nb\nc", "at line 1"},
		"CR alone, the last line":       {"a\rb\r", "b\n", "x\n", "a\rx\r", "at line 1"},
		"the mark given":                {"\ufeffa\nb\n", "\ufeffa\n", "\ufeffx\n", "\ufeffx\nb\n", "at line 1"},
		"the mark taken out":            {"\ufeffa\nb\n", "\ufeffa", "a", "a\nb\n", "at line 1"},
		"no text":                       {"a\xff\x00b", "b", "c", "a\xff\x00c", "at line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edit.Apply(tt.text, []edit.Edit{{Old: tt.old, New: tt.new}})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Text)
			require.Equal(t, tt.where, got.Where)
			require.Equal(t, 1, got.Count)
		})
	}
}

func TestEditsThatCannotBeMade(t *testing.T) {
	one := func(old, new string) []edit.Edit { return []edit.Edit{{Old: old, New: new}} }
	for name, tt := range map[string]struct {
		text  string
		edits []edit.Edit
		want  string
	}{
		"not there":            {"a\nb\n", one("zzzzz", "d"), "old_text does not occur in the file, and nothing like it; read the file and copy the text exactly\n[nothing was changed]"},
		"many":                 {"a\nb\na\na\n", one("a", "c"), "old_text occurs 3 times, on lines 1, 3 and 4; add lines around it to make it unique, or set replace_all\n[nothing was changed]"},
		"many in a line":       {"a a\n", one("a", "c"), "old_text occurs 2 times, on line 1; add"},
		"very many":            {strings.Repeat("a\n", 500), one("a", "c"), "old_text occurs 500 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 490 more; add"},
		"overlapping":          {"aaa\n", one("aa", "b"), "old_text occurs 2 times, on line 1; add"},
		"many but for blanks":  {"a \nb\na\t\nb\n", one("a\nb", "c"), "old_text occurs 2 times, on lines 1 and 3"},
		"empty old text":       {"a\n", one("", "b"), "old_text is empty; to create a file or to add to its end, use write_file"},
		"nothing":              {"a\n", nil, "old_text is missing; to create a file or to write it anew, use write_file"},
		"same text":            {"a\n", one("a", "a"), "nothing to do"},
		"only blanks":          {"ab\n", one("  ", "a"), "old_text does not occur"},
		"blanks within a line": {"a bc\n", one("a \n", "x"), "old_text does not occur"},
		"blanks before more":   {"foobar\nx\n", one("foo  ", "x"), "old_text does not occur"},
		"already made":         {"x\nthe new text\n", one("the old text", "the new text"), "old_text does not occur in the file, but new_text does, on line 2: was this edit made before?"},
		"escapes":              {"say(\"a\")\nb\n", one(`say(\"a\")\nb`, "x"), `escapes such as \n or \" written out: with real line ends and quotes it occurs on line 1`},
		"numbers in some":      {"a\nb\nc\n", one("1\ta\n2\tb", "1\ta\nx"), "some lines of new_text begin with the numbers of lines"},
		"one of several":       {"a\nb\n", []edit.Edit{{Old: "a", New: "x"}, {Old: "q", New: "r"}}, "edit 2 of 2: old_text does not occur in the file, and nothing like it; read the file and copy the text exactly\n[nothing was changed]"},
		"all of several":       {"a\nb\n", []edit.Edit{{Old: "a", New: "x"}, {Old: "q", New: "r"}, {Old: "a", New: "y"}}, "\nedit 3 of 3: old_text does not occur"},
		"an empty one":         {"a\nb\n", []edit.Edit{{Old: "a", New: "x"}, {}}, "edit 2 of 2: old_text is empty"},
		"too many edits":       {"a", make([]edit.Edit, 101), "101 edits are too many for one call: at most 100"},
		"too long":             {strings.Repeat("a", 1000), []edit.Edit{{Old: "a", New: strings.Repeat("b", 1<<20), All: true}}, "the file would become too long: up to 1,048,577,000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := edit.Apply(tt.text, tt.edits)
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 8<<10)
		})
	}
}

func TestNumbersCopiedBelongToWholeLines(t *testing.T) {
	for text, old := range map[string]string{
		"17\tfop\n1\tfoo\n": "1\tfop",
		"5\n56\n":           "5\t6",
		"int a = 5;\n":      "1\t5;",
		"fopping\n":         "1\tfop",
	} {
		_, err := edit.Apply(text, []edit.Edit{{Old: old, New: "1\tbar"}})
		require.ErrorContains(t, err, "does not occur", text)
	}
}

func TestMixedEncodingsAreTold(t *testing.T) {
	got, err := edit.Apply("caf\xe9\nx\n", []edit.Edit{{Old: "x", New: "ü"}})
	require.NoError(t, err)
	require.Equal(t, "caf\xe9\nü\n", got.Text)
	require.Contains(t, got.Notes[0], "the file is not UTF-8")
	got, err = edit.Apply("caf\xe9\nx\n", []edit.Edit{{Old: "x", New: "y"}})
	require.NoError(t, err)
	require.Empty(t, got.Notes)
}

func TestTheNearestPassageIsShown(t *testing.T) {
	text := "package main\n\nfunc main() {\n\tfmt.Println(“hello”)\n\tif x {\n\t\treturn\n\t}\n}\n\nfunc other() {\n\tfmt.Print(\"other words\")\n}\n"
	for name, tt := range map[string]struct{ old, want string }{
		"tabs": {"    if x {\n        return\n    }", "old_text does not occur in the file. The nearest passage is lines 5–7, which differs in its indentation (tabs in the file, spaces in old_text):\n" +
			"5\t\tif x {\n6\t\t\treturn\n7\t\t}\nIn line 5 the file has \"\\tif x {\", and old_text has \"    if x {\".\n[nothing was changed]"},
		"no indentation": {"if x {\n\treturn", "lines 5–6, which differs in its indentation:\n"},
		"quotes":         {"\tfmt.Println(\"hello\")", "line 4, which differs in kinds of quotes, dashes or blanks:\n4\t\tfmt.Println(“hello”)\nIn line 4 the file has \"\\tfmt.Println(“hello”)\", and old_text has \"\\tfmt.Println(\\\"hello\\\")\"."},
		"case":           {"\tFMT.Println(“hello”)\n\tif x {", "lines 4–5, which differs in capital letters:"},
		"inner":          {"func other()  {\n\tfmt.Print(\"other words\")", "lines 10–11, which differs in white space within lines:"},
		"words":          {"func other() {\n\tfmt.Print(\"more words\")\n}", "lines 10–12, which differs in its words:\n10\tfunc other() {\n11\t\tfmt.Print(\"other words\")\n12\t}\nIn line 11 the file has"},
		"a typing error": {"fmt.Pirnt(\"other words\")", "line 11, which differs in its indentation and its words:"},
		"two things":     {"  FMT.print(\"other words\")\n}", "lines 11–12, which differs in its indentation (tabs in the file, spaces in old_text) and capital letters:"},
		"past the end":   {"\tfmt.Print(\"other words\")\n}\n\nfunc third() {\n\treturn nothing\n}", "lines 11–12:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := edit.Apply(text, []edit.Edit{{Old: tt.old, New: "x"}})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSeveralEditsAreMadeInOrder(t *testing.T) {
	text := numbered(30)
	got, err := edit.Apply(text, []edit.Edit{
		{Old: "line 20\n", New: "line 20\nand more\n"},
		{Old: "line 5\n", New: ""},
		{Old: "and more", New: "and much more"}, // what the first edit has put there
		{Old: "line 2", New: "LINE 2", All: true},
	})
	require.NoError(t, err)
	require.Equal(t, 14, got.Count)
	require.Equal(t, "at lines 2, 5, 19, 20, 21, 22, 23, 24, 25, 26 and 4 more", got.Where)
	require.Equal(t, 2, got.Line)
	require.Contains(t, got.Text, "LINE 20\nand much more\nLINE 21\n")
	require.NotContains(t, got.Text, "line 5\n")
	require.True(t, strings.HasPrefix(got.Shown, "1\tline 1\n2\tLINE 2\n3\tline 3\n4\tline 4\n5\tline 6\n6\tline 7\n"), got.Shown)
	require.Contains(t, got.Shown, "\n…\n17\tline 18\n18\tline 19\n19\tLINE 20\n20\tand much more\n21\tLINE 21\n")
}

func TestChangedLinesAreShown(t *testing.T) {
	for name, tt := range map[string]struct{ text, old, new, want string }{
		"a line":            {numbered(9), "line 5", "five", "3\tline 3\n4\tline 4\n5\tfive\n6\tline 6\n7\tline 7\n"},
		"a deletion":        {numbered(9), "line 5\n", "", "3\tline 3\n4\tline 4\n5\tline 6\n6\tline 7\n"},
		"at the beginning":  {numbered(9), "line 1\n", "one\n", "1\tone\n2\tline 2\n3\tline 3\n"},
		"at the end":        {numbered(9), "line 9\n", "nine\n", "7\tline 7\n8\tline 8\n9\tnine\n"},
		"nothing is left":   {"a", "a", "", ""},
		"a long insertion":  {"a\nb\nc\n", "b\n", numbered(100), "1\ta\n2\tline 1\n3\tline 2\n4\tline 3\n5\tline 4\n6\tline 5\n7\tline 6\n8\tline 7\n9\tline 8\n…\n99\tline 98\n100\tline 99\n101\tline 100\n102\tc\n"},
		"a long line":       {"a\nb\n", "b", strings.Repeat("x", 500), "1\ta\n2\t" + strings.Repeat("x", 200) + " [… 300 bytes more]\n"},
		"CRLF is not shown": {"a\r\nb\r\n", "b", "x", "1\ta\n2\tx\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edit.Apply(tt.text, []edit.Edit{{Old: tt.old, New: tt.new}})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Shown)
		})
	}
	got, err := edit.Apply(strings.Repeat("a line\n\n\n\n\n\n\n\n", 1000), []edit.Edit{{Old: "a line", New: strings.Repeat("b", 300), All: true}})
	require.NoError(t, err)
	require.Equal(t, 1000, got.Count)
	require.Less(t, len(got.Shown), 4<<10)
	require.True(t, strings.HasSuffix(got.Shown, "\n…\n"))
}

func TestWhatWasForgivenIsTold(t *testing.T) {
	for name, tt := range map[string]struct{ text, old, want string }{
		"nothing":   {"a\nb\n", "a\nb", ""},
		"line ends": {"a\r\nb\r\n", "a\nb\n", ""},
		"blanks":    {"a \nb\n", "a\nb", "old_text was found with other blanks at the ends of lines"},
		"numbers":   {"a\nb\n", "1\ta\n2\tb", "the numbers of lines in old_text, which are not in the file, were left out"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edit.Apply(tt.text, []edit.Edit{{Old: tt.old, New: "x"}})
			require.NoError(t, err)
			require.Equal(t, tt.want, strings.Join(got.Notes, "; "))
		})
	}
}

func FuzzApply(f *testing.F) {
	f.Add("a\nb\nc\n", "b", "x\ny", "x", "z", false)
	f.Add("a\n\nb", "\n", "", "b", "c", false)
	f.Add("aaa", "aa", "b", "b", "", true)
	f.Add("a \r\nb\n", "a\r\nb", "c", "1\tc", "d", false)
	f.Add("\r\r\n\r", "\n", "\r", "\r", "\n", true)
	f.Add("a\r\nb\r\n", "a\nb\n", "a\nb\nc\n", "\n\r", "x", true)
	f.Add("\n\r\n\r\n", "\n\r", "x", "  \nb", "c", true)
	f.Add("\ufeffa  \nb\t\n", "a\nb \n", "1\tq", "q", "\u201c", false)
	f.Fuzz(func(t *testing.T, text, old, new, old2, new2 string, all bool) {
		one := []edit.Edit{{Old: old, New: new, All: all}}
		got, err := edit.Apply(text, one)
		if err != nil {
			require.Less(t, len(err.Error()), 8<<10)
		} else {
			require.Less(t, len(got.Shown), 4<<10)
			require.True(t, utf8.ValidString(got.Shown))
			require.NotZero(t, got.Count)
		}
		plain := !strings.Contains(text+old+new, "\r") && !strings.HasPrefix(text, "\ufeff")
		if n := strings.Count(text, old); plain && old != "" && old != new && n > 0 {
			unique := strings.Index(text, old) == strings.LastIndex(text, old)
			require.Equal(t, all || unique, err == nil)
			if err == nil {
				require.Equal(t, strings.ReplaceAll(text, old, new), got.Text)
				require.Equal(t, n, got.Count)
			}
		}
		if plain && err == nil && strings.Contains(text, "\n") {
			// Models write LF. A CRLF file is edited as if it were LF, and stays CRLF.
			crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
			got2, err := edit.Apply(crlf(text), one)
			require.NoError(t, err)
			require.Equal(t, crlf(got.Text), got2.Text)
		}
		both, err2 := edit.Apply(text, append(one, edit.Edit{Old: old2, New: new2}))
		if err2 == nil {
			require.NoError(t, err)
			again, err := edit.Apply(got.Text, []edit.Edit{{Old: old2, New: new2}})
			require.NoError(t, err)
			require.Equal(t, again.Text, both.Text)
		}
	})
}
