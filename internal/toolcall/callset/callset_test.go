package callset_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/toolcall/callset"
)

// in are the files of a plan.
func in(files map[string]string) callset.Files {
	return callset.Files{
		Locate: func(name string) (string, error) {
			if strings.HasPrefix(name, "~") {
				return "", errors.New("no home here")
			}
			return strings.TrimPrefix(name, "/workspace/"), nil
		},
		Read: func(name string) ([]byte, error) {
			data, ok := files[name]
			switch {
			case !ok:
				return nil, fs.ErrNotExist
			case data == "directory":
				return nil, errors.New("is a directory")
			}
			return []byte(data), nil
		},
		Stat: func(name string) (is pathname.Info, err error) {
			data, ok := files[name]
			switch {
			case !ok:
				return is, fs.ErrNotExist
			case data == "directory":
				is.Mode = fs.ModeDir | 0o755
			case name == "locked":
				is.Mode = 0o444
			default:
				is.Mode, is.Size = 0o644, int64(len(data))
			}
			return is, nil
		},
		Names: func(string) []string { return nil },
	}
}

// calls are what a call stands for, a line each.
func calls(t *testing.T, tool, name, args string, files map[string]string) (lines []string, note string, err error) {
	t.Helper()
	set, err := callset.Of(tool, name, args)
	if err != nil || set == nil {
		return nil, "", err
	}
	all, note, err := set.Calls(in(files))
	for _, c := range all {
		lines = append(lines, c.Name+" "+c.Arguments)
	}
	return lines, note, err
}

const code = "package a\n\nfunc A() int {\n\treturn 1\n}\n\nfunc B() int {\n\treturn 1\n}\n"

func patch(lines ...string) string {
	return "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"
}

func quote(s string) string { raw, _ := json.Marshal(s); return string(raw) }

func TestPatchesBecomeCallsOfOurTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch string
		files map[string]string
		want  []string
	}{
		"a new file": {patch("*** Add File: d/new.txt", "+one", "", "+two"), nil, []string{`write_file {"content":"one\n\ntwo\n","path":"d/new.txt"}`}},
		"a change with its lines around": {patch("*** Update File: a.go", "@@", " package a", " ", " func A() int {", "-\treturn 1", "+\treturn 2", " }"), map[string]string{"a.go": code},
			[]string{`edit_file {"new_text":"package a\n\nfunc A() int {\n\treturn 2\n}\n","old_text":"package a\n\nfunc A() int {\n\treturn 1\n}\n","path":"a.go"}`}},
		"a place that only its context tells": {patch("*** Update File: a.go", "@@ func B() int {", "-\treturn 1", "+\treturn 2"), map[string]string{"a.go": code},
			[]string{`edit_file {"new_text":"func B() int {\n\treturn 2\n}\n","old_text":"func B() int {\n\treturn 1\n}\n","path":"a.go"}`}},
		"contexts after each other": {patch("*** Update File: a", "@@ B", "@@ x", "-1", "+2"), map[string]string{"a": "A\nx\n1\nB\nx\n1\n"},
			[]string{`edit_file {"new_text":"1\nB\nx\n2\n","old_text":"1\nB\nx\n1\n","path":"a"}`}},
		"several changes, each after the one before": {patch("*** Update File: a", "@@", "-1", "+2", " b", "@@", "-1", "+3", " c"), map[string]string{"a": "1\nb\n1\nc\n"},
			[]string{`edit_file {"edits":[{"new_text":"2\nb\n","old_text":"1\nb\n"},{"new_text":"3\nc\n","old_text":"1\nc\n"}],"path":"a"}`}},
		"the end of the file": {patch("*** Update File: a", "@@", "-1", "+2", "*** End of File"), map[string]string{"a": "1\nb\n1"},
			[]string{`edit_file {"new_text":"b\n2","old_text":"b\n1","path":"a"}`}},
		"without a first @@, and with an empty line behind": {patch("*** Update File: a", " x", "+y", "", "*** Add File: b", "+z"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"new_text":"x\ny\n","old_text":"x\n","path":"a"}`, `write_file {"content":"z\n","path":"b"}`}},
		"only new lines go to the end":   {patch("*** Update File: a", "@@", "+z"), map[string]string{"a": "x\ny"}, []string{`edit_file {"new_text":"y\nz","old_text":"y","path":"a"}`}},
		"only new lines after a context": {patch("*** Update File: a", "@@ x", "+z"), map[string]string{"a": "x\ny\n"}, []string{`edit_file {"new_text":"x\nz\ny\n","old_text":"x\ny\n","path":"a"}`}},
		"an empty file":                  {patch("*** Update File: a", "@@", "+z"), map[string]string{"a": ""}, []string{`write_file {"content":"z\n","path":"a"}`}},
		"a renamed file": {patch("*** Update File: a", "*** Move to: d/it's", "@@", "-x", "+y"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"new_text":"y\n","old_text":"x\n","path":"a"}`, `bash {"cmd":"mkdir -p -- d \u0026\u0026 mv -f -- a 'd/it'\\''s'"}`}},
		"only renamed, then changed": {patch("*** Update File: a", "*** Move to: b", "*** Update File: b", "@@", "-x", "+y"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"new_text":"y\n","old_text":"x\n","path":"a"}`, `bash {"cmd":"mv -f -- a b"}`}},
		"renamed twice, then changed twice": {patch("*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: c", "*** Update File: c", "@@", "-x", "+y", "*** Update File: c", "@@", "-y", "+z"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"edits":[{"new_text":"y\n","old_text":"x\n"},{"new_text":"z\n","old_text":"y\n"}],"path":"a"}`, `bash {"cmd":"mv -f -- a b"}`, `bash {"cmd":"mv -f -- b c"}`}},
		"changed, renamed, and changed again": {patch("*** Update File: a", "*** Move to: b", "@@", "-x", "+y", "*** Update File: b", "@@", "-y", "+z"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"edits":[{"new_text":"y\n","old_text":"x\n"},{"new_text":"z\n","old_text":"y\n"}],"path":"a"}`, `bash {"cmd":"mv -f -- a b"}`}},
		"a removed file": {patch("*** Delete File: /workspace/-a"), map[string]string{"-a": "x"}, []string{`bash {"cmd":"rm -- -a"}`}},
		"the same file twice": {patch("*** Update File: a", "@@", "-x", "+y", "*** Update File: ./a", "@@", "-y", "+z"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"edits":[{"new_text":"y\n","old_text":"x\n"},{"new_text":"z\n","old_text":"y\n"}],"path":"a"}`}},
		"the same file, with another between": {patch("*** Update File: a", "@@", "-x", "+y", "*** Delete File: b", "*** Update File: a", "@@", "-y", "+z"), map[string]string{"a": "x\n", "b": ""},
			[]string{`edit_file {"edits":[{"new_text":"y\n","old_text":"x\n"},{"new_text":"z\n","old_text":"y\n"}],"path":"a"}`, `bash {"cmd":"rm -- b"}`}},
		"changed, then written anew": {patch("*** Update File: a", "@@", "-x", "+y", "*** Add File: a", "+z"), map[string]string{"a": "x\n"}, []string{`write_file {"content":"z\n","path":"a"}`}},
		"changed, renamed and made again": {patch("*** Update File: a", "*** Move to: b", "@@", "-x", "+y", "*** Add File: a", "+z"), map[string]string{"a": "x\n"},
			[]string{`edit_file {"new_text":"y\n","old_text":"x\n","path":"a"}`, `bash {"cmd":"mv -f -- a b"}`, `write_file {"content":"z\n","path":"a"}`}},
		"two patches":    {patch("*** Add File: a", "+x") + "```\nand\n" + patch("*** Add File: b", "+y"), nil, []string{`write_file {"content":"x\n","path":"a"}`, `write_file {"content":"y\n","path":"b"}`}},
		"blanks at ends": {patch("*** Update File: a", "@@", " x", "-y", "+z"), map[string]string{"a": "x  \ny \n"}, []string{`edit_file {"new_text":"x  \nz\n","old_text":"x  \ny \n","path":"a"}`}},
		"CRLF":           {patch("*** Update File: a", "@@", " x", "-y", "+z"), map[string]string{"a": "x\r\ny\r\n"}, []string{`edit_file {"new_text":"x\nz\n","old_text":"x\ny\n","path":"a"}`}},
		"a text about patches": {patch("*** Update File: a", "@@", " *** End Patch", "-y", "+z"), map[string]string{"a": "*** End Patch\ny\n"},
			[]string{`edit_file {"new_text":"*** End Patch\nz\n","old_text":"*** End Patch\ny\n","path":"a"}`}},
		"blanks around marks":     {" *** Begin Patch \n*** Add File: a\n+x\n *** End Patch ", nil, []string{`write_file {"content":"x\n","path":"a"}`}},
		"without an envelope":     {"*** Update File: a\n@@\n-x\n+y", map[string]string{"a": "x"}, []string{`edit_file {"new_text":"y","old_text":"x","path":"a"}`}},
		"found in other words":    {patch("*** Update File: a", "@@", "-é", "+x"), map[string]string{"a": "e\u0301\n"}, []string{`edit_file {"new_text":"x","old_text":"é","path":"a"}`}},
		"blanks at the beginning": {patch("*** Update File: a", "@@", " b", "-  foo", "+  bar"), map[string]string{"a": "b\n    foo\n"}, []string{`edit_file {"new_text":"b\n  bar","old_text":"b\n  foo","path":"a"}`}},
		"SEARCH and REPLACE": {"a.py\n```python\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n\nb.py\n```\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nnew\n=======\nnewer\n>>>>>>> REPLACE\n```", map[string]string{"a.py": "x\n"},
			[]string{`edit_file {"new_text":"y\n","old_text":"x\n","path":"a.py"}`, `write_file {"content":"newer\n","path":"b.py"}`}},
		"a new file by SEARCH and REPLACE": {"**b.py**\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n", nil, []string{`write_file {"content":"new\n","path":"b.py"}`}},
		"a unified diff": {"diff --git a/a.go b/a.go\nindex 1..2 100644\n--- a/a.go\n+++ b/a.go\n@@ -7,3 +7,3 @@ package a\n func B() int {\n-\treturn 1\n+\treturn 2\n }\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", map[string]string{"a.go": code, "o": "x\n"},
			[]string{`edit_file {"new_text":"func B() int {\n\treturn 2\n}\n","old_text":"func B() int {\n\treturn 1\n}\n","path":"a.go"}`, `write_file {"content":"x","path":"n"}`, `bash {"cmd":"rm -- o"}`}},
		"a new file without a last newline":  {patch("*** Add File: n", "+x", "+y", "\\ No newline at end of file"), nil, []string{`write_file {"content":"x\ny","path":"n"}`}},
		"a last line that gets a newline":    {"--- a\n+++ a\n@@ -2 +2 @@\n-y\n\\ No newline at end of file\n+z\n", map[string]string{"a": "x\ny"}, []string{`edit_file {"new_text":"z\n","old_text":"y","path":"a"}`}},
		"a last line that loses its newline": {"--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\\ No newline at end of file\n", map[string]string{"a": "x\ny\n"}, []string{`edit_file {"new_text":"x\nz","old_text":"x\ny\n","path":"a"}`}},
		"a last line that stays without one": {"--- a\n+++ a\n@@ -1,2 +1,2 @@\n-x\n+z\n y\n\\ No newline at end of file\n", map[string]string{"a": "x\ny"}, []string{`edit_file {"new_text":"z\ny","old_text":"x\ny","path":"a"}`}},
		"only the newline goes":              {"--- a\n+++ a\n@@ -1 +1 @@\n-y\n+y\n\\ No newline at end of file\n", map[string]string{"a": "y\n"}, []string{`edit_file {"new_text":"y","old_text":"y\n","path":"a"}`}},
		"a diff of lines that look like names": {"--- a\n+++ a\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n z\n", map[string]string{"a": "-- x\nz\n"},
			[]string{`edit_file {"new_text":"++ y\nz\n","old_text":"-- x\nz\n","path":"a"}`}},
		"lines of a unified diff after a change of their number": {"--- a\n+++ a\n@@ -1 +1,5 @@\n-first\n+1\n+2\n+3\n+4\n+5\n@@ -4 +8 @@\n-x\n+y\n", map[string]string{"a": "first\nx\n2\nx\n4\nx\n"},
			[]string{`edit_file {"edits":[{"new_text":"1\n2\n3\n4\n5\n","old_text":"first\n"},{"new_text":"2\ny\n4\n","old_text":"2\nx\n4\n"}],"path":"a"}`}},
		"the line of a unified diff tells the place": {"--- a\n+++ a\n@@ -8 +8 @@\n-\treturn 1\n+\treturn 2\n", map[string]string{"a": code},
			[]string{`edit_file {"new_text":"func B() int {\n\treturn 2\n}\n","old_text":"func B() int {\n\treturn 1\n}\n","path":"a"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, note, err := calls(t, "", "apply_patch", `{"input":`+quote(c.patch)+`}`, c.files)
			require.NoError(t, err)
			require.Empty(t, note)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAPatchThatDoesNotFitDoesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patch string
		files map[string]string
		call  string // the only one, which fails
		note  string
		err   string
	}{
		"a part that is not found": {patch("*** Add File: n", "+x", "*** Update File: a", "@@", "-z", "+y"), map[string]string{"a": "x\n"},
			`edit_file {"new_text":"y","old_text":"z","path":"a"}`, "nothing of the whole patch was done, since this part of it cannot be", ""},
		"a place that is not told":    {patch("*** Update File: a", "@@", "-1", "+2"), map[string]string{"a": "1\n1\n"}, `edit_file {"new_text":"2","old_text":"1","path":"a"}`, "", ""},
		"a part of a line":            {patch("*** Update File: a", "@@", "-foo", "+bar"), map[string]string{"a": "x\nfoobar\n"}, "", "", `a: "foo" is only a part of a line; give whole lines`},
		"the end of a line":           {patch("*** Update File: a", "@@", "-foo", "+bar"), map[string]string{"a": "xfoo\n"}, "", "", `a: "foo" is only a part of a line; give whole lines`},
		"no such file":                {patch("*** Update File: a", "@@", "-1", "+2"), nil, `edit_file {"new_text":"2","old_text":"1","path":"a"}`, "", ""},
		"no such file to add to":      {patch("*** Update File: a", "@@", "+2"), nil, "", "", "a: there is no such file; *** Add File makes one; nothing was changed"},
		"no such file to remove":      {patch("*** Delete File: a"), nil, "", "", "a: there is no such file; nothing was changed"},
		"a directory":                 {patch("*** Update File: a", "@@", "+2"), map[string]string{"a": "directory"}, "", "", "a: is a directory; nothing was changed"},
		"a new one outside":           {patch("*** Update File: a", "@@", "-x", "+y", "*** Add File: ../n", "+x"), map[string]string{"a": "x\n"}, "", "", "../n: it is outside the workspace; nothing was changed"},
		"a new one at a directory":    {patch("*** Add File: a", "+x"), map[string]string{"a": "directory"}, "", "", "a: is a directory; nothing was changed"},
		"a new one that leaves out":   {patch("*** Add File: n", "+x", "*** Add File: a", "+one", "+// ... existing code ..."), map[string]string{"a": "one\ntwo\nthree\nfour\nfive\n"}, "", "", "a: *** Add File replaces the whole file"},
		"one that is locked":          {patch("*** Add File: n", "+x", "*** Update File: locked", "@@", "-x", "+y"), map[string]string{"locked": "x\n"}, "", "", "locked: locked is read-only (mode 0444)"},
		"a new one that is locked":    {patch("*** Add File: locked", "+y"), map[string]string{"locked": "x\n"}, "", "", "locked: locked is read-only (mode 0444)"},
		"a line between two places":   {"--- a\n+++ a\n@@ -3 +3 @@\n-x\n+y\n", map[string]string{"a": "1\nx\n3\nx\n"}, `edit_file {"new_text":"y\n","old_text":"x\n","path":"a"}`, "", ""},
		"outside":                     {patch("*** Delete File: ../a"), map[string]string{"../a": ""}, "", "", "../a: it is outside the workspace"},
		"a path that nothing means":   {patch("*** Delete File: ~/a"), nil, "", "", "no home here"},
		"cut off":                     {"*** Begin Patch\n*** Add File: a\n+x", nil, "", "", `has no "*** End Patch" at its end, so that it may be cut off`},
		"cut off in a block":          {"a\n<<<<<<< SEARCH\nx\n=======\ny\n", nil, "", "", "may be cut off"},
		"nothing":                     {"*** Begin Patch\n*** End Patch", nil, "", "", "the patch changes no file"},
		"no change":                   {patch("*** Update File: a"), nil, "", "", "the patch changes nothing in a"},
		"a line of no kind":           {patch("*** Update File: a", "@@", "-x", "y"), nil, "", "", `line 5 of the patch: "y": each line of a change begins with a blank`},
		"a new line without its +":    {patch("*** Add File: a", "x"), nil, "", "", `line 3 of the patch: "x": each line of a new file begins with +`},
		"words in the patch":          {patch("*** Delete File: a", "and"), nil, "", "", `"and" belongs to no file`},
		"no patch":                    {"please change it", nil, "", "", "this is no patch"},
		"a block without a file":      {"<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE", nil, "", "", "the patch names no file"},
		"a context that is not there": {patch("*** Update File: a", "@@ func C", "+y"), map[string]string{"a": "x\n"}, "", "", `a: "func C", which a change is to follow, is no line of it`},
	} {
		t.Run(name, func(t *testing.T) {
			got, note, err := calls(t, "", "functions.apply_patch", `{"patch":`+quote(c.patch)+`}`, c.files)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, "")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{c.call}, got)
			require.Equal(t, c.note, note)
		})
	}
}

func TestAPatchIsTakenOutOfACommand(t *testing.T) {
	t.Parallel()
	p := patch("*** Add File: f", "+it's $x `y`")
	write := func(path string) string {
		return `write_file {"content":"it's $x ` + "`y`" + `\n","path":"` + path + `"}`
	}
	for name, c := range map[string]struct {
		args map[string]string
		want []string
	}{
		"a here-document":             {map[string]string{"cmd": "apply_patch <<'EOF'\n" + p + "EOF\n"}, []string{write("f")}},
		"another word":                {map[string]string{"cmd": "applypatch << \"PATCH\"\n" + p + "PATCH"}, []string{write("f")}},
		"without quotes":              {map[string]string{"cmd": "apply_patch <<EOF\n" + p + "EOF"}, []string{write("f")}},
		"in a directory":              {map[string]string{"cmd": "cd sub/dir && apply_patch <<'EOF'\n" + p + "EOF"}, []string{write("sub/dir/f")}},
		"in two":                      {map[string]string{"cmd": "cd 'a b' && apply_patch <<'EOF'\n" + p + "EOF", "cwd": "top"}, []string{write("top/a b/f")}},
		"in an absolute one":          {map[string]string{"cmd": "cd /workspace/sub\napply_patch <<'EOF'\n" + p + "EOF"}, []string{write("sub/f")}},
		"in single quotes":            {map[string]string{"cmd": "apply_patch '" + strings.ReplaceAll(p, "'", `'\''`) + "'"}, []string{write("f")}},
		"in double quotes":            {map[string]string{"cmd": `apply_patch "` + strings.NewReplacer("`", "\\`", "$", `\$`).Replace(p) + `"`}, []string{write("f")}},
		"in a substitution":           {map[string]string{"cmd": "apply_patch \"$(cat <<'EOF'\n" + p + "EOF\n)\""}, []string{write("f")}},
		"by a pipe":                   {map[string]string{"cmd": "cat <<'EOF' | apply_patch\n" + p + "EOF"}, []string{write("f")}},
		"with another command behind": {map[string]string{"cmd": "cd sub && apply_patch <<'EOF'\n" + p + "EOF\ngo test ./...", "timeout": "9"}, []string{write("sub/f"), `bash {"cmd":"go test ./...","cwd":"sub","timeout":"9"}`}},

		"its word in the patch":      {map[string]string{"cmd": "apply_patch <<EOF\n" + patch("*** Add File: f", "+a", "*** Update File: g", " EOF", "-x", "+y") + "EOF"}, []string{`write_file {"content":"a\n","path":"f"}`, `edit_file {"new_text":"EOF\ny\n","old_text":"EOF\nx\n","path":"g"}`}},
		"with tabs before its end":   {map[string]string{"cmd": "apply_patch <<-EOF\n" + p + "\tEOF\nmake"}, []string{write("f"), `bash {"cmd":"make"}`}},
		"with blanks around its end": {map[string]string{"cmd": "apply_patch <<'EOF'\n" + p + "  EOF  "}, []string{write("f")}},

		"not alone":         {map[string]string{"cmd": "set -e; apply_patch <<'EOF'\n" + p + "EOF"}, nil},
		"with more behind":  {map[string]string{"cmd": "apply_patch <<'EOF' && make\n" + p + "EOF"}, nil},
		"without its end":   {map[string]string{"cmd": "apply_patch <<'EOF'\n" + p}, nil},
		"another program":   {map[string]string{"cmd": "cat <<'EOF'\n" + p + "EOF"}, nil},
		"in a variable one": {map[string]string{"cmd": "cd $DIR && apply_patch <<'EOF'\n" + p + "EOF"}, nil},
		"no patch":          {map[string]string{"cmd": "apply_patch --help"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			for k, v := range c.args {
				args = append(args, quote(k)+":"+quote(v))
			}
			got, _, err := calls(t, "bash", "bash", "{"+strings.Join(args, ",")+"}", map[string]string{"g": "EOF\nx\n"})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, _, err := calls(t, "bash", "bash", `{"cmd":`+quote("apply_patch <<'EOF'\n"+p+"EOF\napply_patch <<'EOF'\n"+p+"EOF")+`}`, nil)
	require.ErrorContains(t, err, "put them into one")
}

func TestOtherCallsThatStandForSeveral(t *testing.T) {
	t.Parallel()
	const blocks = "<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n"
	files := map[string]string{"a": "x\ny\n", "d/a": "x\n", "empty": "", "open": "x", "doc.md": "Write:\r\n\r\n" + strings.ReplaceAll(blocks, "\n", "\r\n")}
	for _, c := range []struct {
		tool, name, args string
		want             []string
		err              string
	}{
		{"", "apply_patch", patch("*** Add File: f", "+x"), []string{`write_file {"content":"x\n","path":"f"}`}, ""},
		{"", "apply_patch", quote(patch("*** Add File: f", "+x")), []string{`write_file {"content":"x\n","path":"f"}`}, ""},
		{"", "apply_patch", `{"command":["apply_patch",` + quote(patch("*** Add File: f", "+x")) + `]}`, []string{`write_file {"content":"x\n","path":"f"}`}, ""},
		{"", "apply_patch", `{"input":` + quote("apply_patch <<'EOF'\n"+patch("*** Add File: f", "+x")+"EOF") + `}`, []string{`write_file {"content":"x\n","path":"f"}`}, ""},
		{"", "apply_patch", `{}`, nil, "the patch is missing"},
		{"", "apply_diff", `{"path":"a","diff":"<<<<<<< SEARCH\n:start_line:1\n-------\nx\n=======\nz\n>>>>>>> REPLACE"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "replace_in_file", `{"path":"a","diff":"------- SEARCH\nx\n=======\nz\n+++++++ REPLACE"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","edits":"<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","edits":[{"old_text":"<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE"},"<<<<<<< SEARCH\ny\n=======\nw\n>>>>>>> REPLACE"]}`, []string{`edit_file {"edits":[{"new_text":"z\n","old_text":"x\n"},{"new_text":"w\n","old_text":"y\n"}],"path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"","new_text":"<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"","new_text":` + quote(patch("*** Update File: a", "@@", "-x", "+z")) + `}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n","new_text":"z"}`, nil, ""},
		{"edit_file", "edit_file", `{"path":"notes.md","old_text":` + quote(patch("*** Update File: a", "@@", "-x", "+z")) + `,"new_text":""}`, nil, ""},
		{"edit_file", "edit_file", `{"path":"notes.md","edits":[{"old_text":"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+z\n","new_text":""}]}`, nil, ""},
		{"edit_file", "edit_file", `{"path":"d/a","old_text":"","new_text":` + quote("a\n"+blocks) + `}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"d/a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","edits":[` + quote("d/a\n"+blocks) + `]}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"d/a","diff":"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+z\n"}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"d/a"}`}, ""},
		{"", "apply_patch", `{"path":"d/a","patch":` + quote(patch("*** Update File: a", "*** Move to: b", "@@", "-x", "+z")) + `}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"d/a"}`, `bash {"cmd":"mkdir -p -- d \u0026\u0026 mv -f -- d/a d/b"}`}, ""},
		{"edit_file", "edit_file", `{"path":"d/a","diff":` + quote(patch("*** Update File: a", "@@", "-x", "+z", "*** Update File: d/a", "@@", "-x", "+w")) + `}`, []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"a"}`, `edit_file {"new_text":"w\n","old_text":"x\n","path":"d/a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"fix.patch","old_text":"","new_text":"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+z\n"}`, []string{`write_file {"content":"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+z\n","path":"fix.patch"}`}, ""},
		{"edit_file", "edit_file", `{"path":"doc.md","old_text":` + quote(blocks) + `,"new_text":""}`, []string{`edit_file {"path":"doc.md","old_text":` + quote(blocks) + `,"new_text":""}`}, ""},
		{"edit_file", "edit_file", `{"path":"doc.md","edits":[{"old_text":` + quote(strings.TrimSpace(blocks)) + `,"new_text":""}]}`, []string{`edit_file {"path":"doc.md","edits":[{"old_text":` + quote(strings.TrimSpace(blocks)) + `,"new_text":""}]}`}, ""},
		{"edit_file", "edit_file", `{"path":"n","old_text":"","new_text":"z"}`, []string{`write_file {"content":"z","path":"n"}`}, ""},
		{"edit_file", "edit_file", `{"path":"empty","old_text":"","new_text":"z"}`, []string{`write_file {"content":"z","path":"empty"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"","new_text":"z"}`, []string{`edit_file {"new_text":"z","old_text":"","path":"a"}`}, ""},
		{"edit_file", "edit_file", `{"path":"a","old_text":"x","new_text":"z"}`, nil, ""},
		{"edit_file", "str_replace_editor", `{"command":"insert","path":"a","insert_line":1,"new_str":"new"}`, []string{`edit_file {"new_text":"x\nnew\ny\n","old_text":"x\ny\n","path":"a"}`}, ""},
		{"edit_file", "str_replace_editor", `{"command":"insert","path":"a","insert_line":0,"new_str":"new\n"}`, []string{`edit_file {"new_text":"new\nx\n","old_text":"x\n","path":"a"}`}, ""},
		{"edit_file", "str_replace_editor", `{"command":"insert","path":"open","insert_line":"1","new_str":"new\n"}`, []string{`edit_file {"new_text":"x\nnew","old_text":"x","path":"open"}`}, ""},
		{"edit_file", "str_replace_editor", `{"command":"insert","path":"a","insert_line":9,"new_str":"new"}`, nil, "a: it has no line 9"},
		{"", "insert_content", `{"path":"a","line":2,"content":"new"}`, []string{`edit_file {"new_text":"x\nnew\ny\n","old_text":"x\ny\n","path":"a"}`}, ""},
		{"", "insert_content", `{"path":"a","line":0,"content":"new"}`, []string{`edit_file {"new_text":"y\nnew\n","old_text":"y\n","path":"a"}`}, ""},
		{"", "insert", `{"path":"a","content":"new"}`, nil, "to insert lines, give path, insert_line"},
		{"", "multi_tool_use.parallel", `{"tool_uses":[{"recipient_name":"functions.bash","parameters":{"cmd":"ls"}},{"recipient_name":"functions.job_list"}]}`, []string{`functions.bash {"cmd":"ls"}`, `functions.job_list {}`}, ""},
		{"", "batch", `{"tool_calls":[{"tool":"read","parameters":{"filePath":"a"}}]}`, []string{`read {"filePath":"a"}`}, ""},
		{"", "parallel", `{"tool_uses":[]}`, nil, "put several calls into one answer"},
		{"", "parallel", `{"tool_uses":[{"parameters":{}}]}`, nil, "call 1 of 1 has no recipient_name"},
		{"", "read_many_files", `{"paths":["a","b"]}`, []string{`read_file {"path":"a"}`, `read_file {"path":"b"}`}, ""},
		{"", "read_files", `{"files":[{"path":"a","line":3}]}`, []string{`read_file {"path":"a","line":3}`}, ""},
		{"", "read_files", `{"paths":[]}`, nil, "give paths, a list of 1 to 100 files"},
		{"write_file", "write_file", `{"path":"a","content":"*** Begin Patch"}`, nil, ""},
		{"", "image_generation", `{}`, nil, ""},
	} {
		got, _, err := calls(t, c.tool, c.name, c.args, files)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.args)
			continue
		}
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, got, c.args)
	}
}

// A model that writes a patch as the content of the file that it changes means the patch.
func TestAPatchIsNotTheContentOfItsFile(t *testing.T) {
	t.Parallel()
	files := map[string]string{"d/a": "x\ny\n", "notes.diff": "x\n"}
	update := patch("*** Update File: d/a", "@@", "-x", "+z")
	blocks := "<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n"
	edited := []string{`edit_file {"new_text":"z\n","old_text":"x\n","path":"d/a"}`}
	for name, c := range map[string]struct {
		path, content string
		want          []string // nil if the call is what it seems
		marks         bool     // whether the content is a patch all the same
	}{
		"a patch":                         {"d/a", update, edited, true},
		"of a name that begins below":     {"d/a", patch("*** Update File: a", "@@", "-x", "+z"), edited, true},
		"of a name that begins above":     {"d/a", patch("*** Update File: /workspace/d/a", "@@", "-x", "+z"), edited, true},
		"in a code block":                 {"d/a", "```diff\n" + update + "```\n", edited, true},
		"blocks":                          {"d/a", blocks, edited, true},
		"blocks with the name":            {"d/a", "d/a\n" + blocks, edited, true},
		"a diff":                          {"d/a", "--- a/d/a\n+++ b/d/a\n@@ -1,2 +1,2 @@\n-x\n+z\n y\n", []string{`edit_file {"new_text":"z\ny\n","old_text":"x\ny\n","path":"d/a"}`}, true},
		"the whole file":                  {"d/a", patch("*** Add File: d/a", "+new"), []string{`write_file {"content":"new\n","path":"d/a"}`}, true},
		"a new file":                      {"n", patch("*** Add File: n", "+new"), []string{`write_file {"content":"new\n","path":"n"}`}, true},
		"a new file by blocks":            {"n", "<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE", []string{`write_file {"content":"new\n","path":"n"}`}, false},
		"one that does not fit":           {"d/a", patch("*** Update File: d/a", "@@", "-q", "+z"), nil, true},
		"one of a file that is not there": {"n", patch("*** Update File: n", "@@", "-q", "+z"), nil, true},
		"one that removes":                {"d/a", patch("*** Delete File: d/a"), nil, true},

		"blocks of nothing":   {"n", blocks, nil, false},
		"of another file":     {"d/a", patch("*** Update File: b", "@@", "-x", "+z"), nil, false},
		"of two of the name":  {"d/a", patch("*** Update File: a", "@@", "-x", "+z", "*** Update File: d/a", "@@", "-x", "+z"), nil, false},
		"of this and another": {"d/a", patch("*** Update File: d/a", "@@", "-x", "+z", "*** Delete File: b"), nil, false},
		"a file of patches":   {"notes.diff", patch("*** Update File: notes.diff", "@@", "-x", "+z"), nil, false},
		"a text about blocks": {"d/a", "Write:\n\n" + blocks, nil, false},
		"a text after blocks": {"d/a", blocks + "That is all.\n", nil, false},
		"cut off":             {"d/a", strings.TrimSuffix(update, "*** End Patch\n"), nil, false},
		"a conflict":          {"d/a", "<<<<<<< HEAD\nx\n=======\nz\n>>>>>>> main\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := `{"content":` + quote(c.content) + `,"path":` + quote(c.path) + `}`
			got, note, err := calls(t, "write_file", "write_file", args, files)
			require.NoError(t, err)
			require.Empty(t, note)
			if c.want == nil && got != nil {
				c.want = []string{"write_file " + args}
			}
			require.Equal(t, c.want, got)
			_, is := files[c.path]
			require.Equal(t, c.marks, callset.Marks(c.path, c.content, !is) != "")
		})
	}
}

func TestResultsAreJoined(t *testing.T) {
	t.Parallel()
	var j callset.Joint
	j.Join(1, "")
	require.Zero(t, j.Left)
	j.Join(1, "noted")
	j.Join(2, "") // the first of them
	_, _, done := j.Add("one", "first\n", "ok", 100)
	require.False(t, done)
	text, bad, done := j.Add("two", "second", "failed", 100)
	require.True(t, done)
	require.Equal(t, "failed", bad)
	require.Equal(t, "[one]\nfirst\n[two]\nsecond\n[noted]", text)
	var alone callset.Joint
	alone.Join(1, "noted")
	text, outcome, _ := alone.Add("one", "first", "ok", 100)
	require.Equal(t, []string{"first\n[noted]", "ok"}, []string{text, outcome})
	long := callset.Joint{Left: 2}
	long.Add("a", strings.Repeat("x", 9000), "ok", 1000)
	text, _, _ = long.Add("b", strings.Repeat("y", 9000), "ok", 1000)
	require.Less(t, len(text), 1200)
	require.Equal(t, []string{"c.1", "c"}, []string{new(callset.Joint).ID("c", 0, 2), new(callset.Joint).ID("c", 1, 2)})
}

// What a call inside another one stands for has ids and numbers of its own.
func TestCallsInsideCallsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var ids []string
	numbers := map[int]bool{}
	var j callset.Joint
	var unfold func(id string, index, depth int)
	unfold = func(id string, index, depth int) {
		if depth == 0 {
			require.False(t, numbers[index])
			numbers[index] = true
			ids = append(ids, id)
			j.Add("", "", "ok", 100)
			return
		}
		names := []string{j.ID(id, 0, 3), j.ID(id, 1, 3), j.ID(id, 2, 3)}
		j.Join(3, "")
		for n, name := range names {
			unfold(name, callset.Index(index, n), depth-1)
		}
	}
	unfold("c", 7, 3)
	require.Len(t, ids, 27)
	require.Equal(t, "c", ids[26])
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), 27, ids)
}

// FuzzPatch plans patches. What is planned for a file that is there changes it, and each
// edit finds its place.
func FuzzPatch(f *testing.F) {
	for _, p := range []string{
		patch("*** Update File: a", "@@ func B() int {", "-\treturn 1", "+\treturn 2", "*** Move to: b"),
		patch("*** Update File: a", " ", "+x", "*** End of File", "*** Add File: n", "+x"),
		"--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n package a\n+x\n",
		"a\n<<<<<<< SEARCH\npackage a\n=======\npackage b\n>>>>>>> REPLACE",
		"apply_patch <<'EOF'\n" + patch("*** Delete File: a") + "EOF",
	} {
		f.Add(p, code)
	}
	f.Fuzz(func(t *testing.T, p, text string) {
		files := map[string]string{"a": text}
		for _, tool := range []string{"", "bash"} {
			args := `{"cmd":` + quote(p) + `}`
			set, err := callset.Of(tool, "apply_patch", args)
			if err != nil || set == nil {
				continue
			}
			all, _, err := set.Calls(in(files))
			if err != nil {
				continue
			}
			require.NotEmpty(t, all)
			for _, c := range all {
				require.Contains(t, []string{"bash", "edit_file", "write_file"}, c.Name)
				require.False(t, path.IsAbs(c.Name))
			}
		}
	})
}
