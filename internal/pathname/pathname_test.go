package pathname_test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
)

// The two forms of "é".
const composed, divided = "\u00e9", "e\u0301"

// files is a place with these files, and their directories.
func files(names ...string) pathname.Place {
	all := map[string]bool{".": true}
	for _, name := range names {
		for ; name != "." && name != "/"; name = path.Dir(name) {
			all[name] = true
		}
	}
	return pathname.Place{
		Home:   "/home/me",
		Exists: func(name string) bool { return all[name] },
		Names: func(dir string) (names []string) {
			for name := range all {
				if path.Dir(name) == path.Clean(dir) {
					names = append(names, path.Base(name))
				}
			}
			return slices.Sorted(slices.Values(names))
		},
	}
}

func TestPathsOfAWorkspace(t *testing.T) {
	t.Parallel()
	here := []string{"/workspace", "/home/me/proj", "/mnt/c/Users/me/proj"}
	for given, want := range map[string]string{
		"":                                   "",
		".":                                  ".",
		"a/b.go":                             "a/b.go",
		"../x":                               "../x",
		"/workspace/x":                       "/workspace/x", // whoever opens it knows that
		"/etc/passwd":                        "/etc/passwd",  // and refuses this
		"a~":                                 "a~",
		"routes/$id.tsx":                     "routes/$id.tsx",
		"$id.tsx":                            "$id.tsx",
		"~$letter.docx":                      "~$letter.docx",
		"log:/x":                             "log:/x",
		"~":                                  "!lies in the home directory, outside the workspace",
		"~/notes.txt":                        "!such as notes.txt, or use bash",
		"~/proj":                             ".",
		"~/proj/x":                           "x",
		`~\proj\x`:                           "x",
		"~/proj/../../x":                     "!outside the workspace",
		"~root/x":                            "!the home of another user; give a path of the workspace, such as x",
		"$HOME/x.txt":                        "!outside the workspace",
		"${HOME}/proj/a b":                   "a b",
		"$HOME":                              "!outside the workspace",
		"$HOMEX":                             "!variables such as HOMEX",
		"%USERPROFILE%\\x":                   "!outside the workspace",
		"$PWD/x":                             "x",
		"$TMPDIR/x":                          "!variables such as TMPDIR are not replaced in paths; write out what it holds, x for example",
		"${name}/x":                          "!variables",
		"file:///workspace/u%20v":            "u v",
		"FILE://localhost/home/me/proj/x":    "x",
		"file:/workspace/x":                  "x",
		"file:///etc/passwd":                 "/etc/passwd",
		"file:///workspace/../etc/passwd":    "/workspace/../etc/passwd",
		"file://server/x":                    "!of the machine server",
		"file:///%zz":                        "!no file URL",
		"file:///C:/Users/me/proj/x":         "x",
		"./~/x":                              "!there is no file or directory ~; give a path of the workspace, such as x",
		"a/../$HOME/x":                       "!no file or directory $HOME",
		"/workspace/C:/x":                    "!no file or directory C:",
		"~/proj/~":                           "!no file or directory ~",
		"file:///workspace/~/x":              "!outside the workspace",
		"src/~/x":                            "src/~/x",
		"https://example.org/x":              "!is a URL, and not the path of a file",
		`C:\Users\me\a.txt`:                  "!a path of Windows, outside the workspace; give a path of the workspace, such as a.txt",
		`C:`:                                 "!a path of Windows",
		`c:/Users/me/proj/x`:                 "x",
		`C:\Users\me\proj\src\main.py`:       "src/main.py",
		`\\server\share\x`:                   "!a path of Windows",
		`src\main.go`:                        "src/main.go",
		`src\new\x.go`:                       "src/new/x.go",
		`src\\main.go`:                       "src/main.go",
		`.\x`:                                "x",
		`..\x`:                               "../x",
		`app\(group)\page.tsx`:               "app/(group)/page.tsx",
		`app\(group)`:                        "app/(group)",
		`new\x.go`:                           "new/x.go",
		`My\ Shot.png`:                       "My Shot.png",
		`New\ Shot\ \(1\).png`:               "New Shot (1).png",
		`"src/main.go"`:                      "src/main.go",
		"'src/main.go' \n":                   "src/main.go",
		" src/main.go":                       "src/main.go",
		"`new.go`":                           "new.go",
		"'~/x'":                              "!outside the workspace",
		"'.git/hooks/x'":                     ".git/hooks/x",
		`"`:                                  `"`,
		"caf" + composed:                     "caf" + divided,
		"caf" + composed + "/new" + composed: "caf" + divided + "/new" + composed,
		"/workspace/caf" + composed + "/x":   "caf" + divided + "/x",
		"file:///workspace/caf%C3%A9/x":      "caf" + divided + "/x",
		"two" + composed:                     "two" + composed,
		"new" + divided:                      "new" + divided,
		"日本/x":                               "日本/x",
	} {
		place := files("src/main.go", "app/(group)/page.tsx", "My Shot.png", "caf"+divided+"/x", "two"+composed, "two"+divided)
		place.Roots = here
		check(t, place, given, want)
	}
}

func check(t *testing.T, place pathname.Place, given, want string) {
	t.Helper()
	got, err := place.Read(given)
	if says, refused := strings.CutPrefix(want, "!"); refused {
		require.ErrorContains(t, err, says, given)
		return
	}
	require.NoError(t, err, given)
	require.Equal(t, want, got, given)
}

func TestAFileOfThatVeryNameIsMeant(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"~", "~/x", "$HOME", "${HOME}/x", "C:", `a\b`, `a\ b`, "'x'", " x", "x ", "file:/x", "%HOME%", "caf" + composed} {
		place := files("a/b", "a b", "x", "caf"+divided, name)
		place.Roots = []string{"/workspace"}
		check(t, place, name, name)
	}
}

func TestPathsOfThisMachine(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"~":                         "/home/me",
		"~/x":                       "/home/me/x",
		"$HOME/x/":                  "/home/me/x/",
		"file:///tmp/My%20Shot.png": "/tmp/My Shot.png",
		`/tmp/My\ Shot.png`:         "/tmp/My Shot.png",
		`'/tmp/My Shot.png' `:       "/tmp/My Shot.png",
		`C:\Users\me\x`:             "/mnt/c/Users/me/x",
		`D:\x`:                      "!which this machine does not have",
		"/tmp/caf" + composed:       "/tmp/caf" + divided,
		`new\x`:                     "new/x",
		"$OTHER/x":                  "!variables",
	} {
		check(t, files("/tmp/My Shot.png", "/mnt/c/Users/me/x", "/tmp/caf"+divided), given, want)
	}
	nowhere := files()
	nowhere.Home = ""
	check(t, nowhere, "~/x", "!not known where the home directory is")
	windows := files()
	windows.Windows = true
	check(t, windows, `C:\Users\me\a b`, `C:\Users\me\a b`)
	check(t, windows, `"a\b" `, `a\b`)
	check(t, windows, `~\x`, "/home/me/x")
	for _, given := range []string{`.\~\x`, "./~/x", `.\$HOME`} {
		check(t, windows, given, "!there is no file or directory")
	}
}

func TestTheHostKnowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir)
	got, err := pathname.Host().Read("~/x")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "x"), got)
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"~/x", "$HOME", `C:\x`, "file:///a%20b", `a\ b`, "'x'", "caf" + composed, `\\a\b`, "~\\..\\x", "file:///..", "${A}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		place := files("a/b")
		place.Roots = []string{"/workspace"}
		name, err := place.Read(given)
		if err != nil {
			require.Empty(t, name)
			return
		}
		require.NotContains(t, name, `\`, "%q", given)
		for _, literal := range []string{"~", "$HOME", "${HOME}", "C:"} {
			top, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(name), "/workspace/"), "/")
			require.NotEqual(t, literal, top, "%q", given)
		}
	})
}

func TestPathsInCalls(t *testing.T) {
	t.Parallel()
	place := files("a/b")
	place.Roots = []string{"/workspace"}
	for _, tt := range []struct{ tool, args, want string }{
		{"write_file", `{"path":"a\\c","content":"~/x"}`, `{"content":"~/x","path":"a/c"}`},
		{"write_file", `{ "path":"a/c" }`, `{ "path":"a/c" }`},
		{"write_file", `{"path":"~/x"}`, "!outside the workspace"},
		{"bash", `{"cmd":"ls ~","cwd":"'a'"}`, `{"cmd":"ls ~","cwd":"a"}`},
		{"delegate_task", `{"prompt":"~","files":["a/b","\"a\""]}`, `{"files":["a/b","a"],"prompt":"~"}`},
		{"collect_file", `{"path":"~","dest":"~"}`, "!home directory"},
		{"collect_file", `{"path":"~"}`, `{"path":"~"}`},
		{"download_file", `{"path":null}`, `{"path":null}`},
		{"download_file", `{"path":7}`, `{"path":7}`},
		{"read_image", `no object`, `no object`},
		{"another", `{"path":"~"}`, `{"path":"~"}`},
	} {
		got, err := pathname.InCall(tt.tool, tt.args, place.Read)
		if says, refused := strings.CutPrefix(tt.want, "!"); refused {
			require.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
}
