package imports_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// addition is a place of a recipe of ARCHITECTURE.md to which a dummy is added.
type addition struct {
	file, name string // which the recipe names; without a name, text is appended
	after      string // the text behind the declaration of the name that the addition follows
	text       string
}

// recipes are those of ARCHITECTURE.md that change code of ours, with a dummy for each.
var recipes = map[string][]addition{
	"A built-in tool": {
		{"tools_files.go", "", "", "type dummyInput struct {\n\tPath string `json:\"path\" jsonschema:\"a path\"`\n}\n\nfunc dummyTool(context.Context, Runtime, dummyInput) (*ToolResult, error) { return new(ToolResult), nil }\n"},
		{"tools_registry.go", "builtinTools", "[]Tool{\n", "builtin(\"dummy\", ToolRead, \"Do nothing.\", dummyTool),\n"},
		{"tools_registry.go", "readOnly", "{\n", "\"dummy\": true,\n"},
		{"tools_registry.go", "repeatable", "{", "\"dummy\": true, "},
		{"tools_files.go", "changeIn", "switch call.Name {\n", "case \"dummy\":\n\t\tname = \"dummy\"\n"},
		{"internal/callsummary/callsummary.go", "builtin", "{\n", "\"dummy\": func(a arguments) string { return \"dummy \" + a.Path },\n"},
		{"web/card.go", "verbs", "{\n", "\"dummy\": {\"Doing\", \"Did\"},\n"},
	},
	"A setting": {
		{"config.go", "Config", "struct {\n", "Dummy string `json:\"dummy,omitempty\"`\n"},
		{"config.go", "ownSettings", "{\n\treturn []settings.Setting{\n", "{Key: \"dummy\", Env: \"PYGENT_DUMMY\", Value: settings.String(&c.Dummy)},\n"},
		{"config.go", "options", "opts := []Option{\n", "WithModelName(c.Dummy),\n"},
		{"setup.go", "Setup", "struct {\n", "Dummy string `json:\"dummy,omitempty\"`\n"},
		{"setup.go", "Setup", "s := Setup{\n", "Dummy: string(o.modelName),\n"},
		{"config.go", "WithSetup", "{\n\tt := taker{c.given, c.named}\n", "take(t, \"dummy\", &c.Dummy, s.Dummy)\n"},
		{"cmd/internal/cli/continued.go", "continued", "{\n", "\"dummy\": {session: true, why: ofMachine},\n"},
		{"cmd/internal/cli/settings.go", "settings", "struct {\n", "Dummy *string `group:\"Settings\" help:\"Do nothing.\"`\n"},
		{"cmd/internal/cli/settings.go", "flagValues", "[]flagValue{\n", "{\"--dummy\", \"PYGENT_DUMMY\", s.Dummy},\n"},
	},
	"An event": {
		{"event.go", "EventType", "const (\n", "EventDummy EventType = \"dummy\" // nothing happens: Dummy\n"},
		{"event.go", "Event", "struct {\n", "Dummy string `json:\"dummy,omitempty\"`\n"},
		{"event.go", "isDelta", "return ", "e.Type == EventDummy || "},
		{"event.go", "logEntry", "switch e.Type {\n", "case EventDummy:\n\t\treturn slog.LevelInfo, e.Dummy, nil\n"},
		{"lines/events.go", "printEvent", "switch e.Type {\n", "case pygent.EventDummy:\n\t\tt.Tell(\"%s\", e.Dummy)\n"},
		{"terminal/turn.go", "event", "switch e.Type {\n", "case pygent.EventDummy:\n"},
		{"web/events.go", "event", "switch e.Type {\n", "case pygent.EventDummy:\n"},
	},
	"A command": {
		{"commands/commands.go", "All", "[]pygent.Command{\n", "{Name: \"dummy\", Summary: \"do nothing\", Message: describeProject},\n"},
		{"face.go", "builtinCommands", "[]Command{\n", "{Name: \"dummy\", Summary: \"do nothing\"},\n"},
		{"face.go", "CommandResult", "struct {\n", "Dummy bool `json:\"dummy,omitempty\"`\n"},
		{"face.go", "runBuiltinCommand", "switch {\n", "case name == \"dummy\":\n\t\treturn CommandResult{Dummy: true}, nil\n"},
	},
}

// Whoever follows a recipe finds each place that it names, and what is added there compiles.
func TestTheRecipesCompile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	changed := map[string]string{}
	for recipe, additions := range recipes {
		steps := stepsOf(t, string(text), recipe)
		for _, a := range additions {
			require.Contains(t, steps, "`"+a.file+"`", "the recipe %q names each file", recipe)
			if a.name != "" {
				require.Contains(t, steps, "`"+a.name+"`", "the recipe %q names each place", recipe)
			}
			changed[a.file] = a.to(t, changed[a.file])
		}
	}
	if testing.Short() {
		t.Skip("compiles most packages")
	}
	compile(t, changed)
}

var (
	checkLine = regexp.MustCompile("\\nCheck: `go test ((?:\\./?[\\w/]* )+)-run '?([^'`]+)'?`\\n$")
	aTest     = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// The command at the end of a recipe runs tests that are there.
func TestEachRecipeEndsWithItsCheck(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	_, all, _ := strings.Cut(string(text), "\n## Where to add\n")
	all, _, _ = strings.Cut(all, "\n## ")
	parts := strings.Split(all, "\n### ")[1:]
	require.Greater(t, len(parts), len(recipes))
	for _, part := range parts {
		name, steps, _ := strings.Cut(part, "\n")
		check := checkLine.FindStringSubmatch(strings.TrimRight(steps, "\n") + "\n")
		require.NotNil(t, check, "the recipe %q ends with a line such as Check: `go test ./… -run Test…`", name)
		var tests []string
		for _, dir := range strings.Fields(check[1]) {
			files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, test := range aTest.FindAllStringSubmatch(string(text), -1) {
					tests = append(tests, test[1])
				}
			}
		}
		for pattern := range strings.SplitSeq(check[2], "|") {
			pattern, _, _ = strings.Cut(pattern, "/")
			require.True(t, slices.ContainsFunc(tests, func(test string) bool { return strings.Contains(test, pattern) }),
				"the recipe %q runs %s, which %s has not", name, pattern, check[1])
		}
	}
}

// stepsOf returns the text of a recipe.
func stepsOf(t *testing.T, text, recipe string) string {
	t.Helper()
	_, steps, found := strings.Cut(text, "\n### "+recipe+"\n")
	require.True(t, found, "ARCHITECTURE.md has no recipe %q", recipe)
	steps, _, _ = strings.Cut(steps, "\n##")
	return steps
}

// to returns a file with the addition. text is the file as others have changed it.
func (a addition) to(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		data, err := os.ReadFile(filepath.Join("../..", a.file))
		require.NoError(t, err)
		text = string(data)
	}
	if a.name == "" {
		return text + "\n" + a.text
	}
	declared := regexp.MustCompile(`(?m)^(?:func (?:\(.*?\) )?|var |type )` + a.name + `\b`)
	for _, at := range declared.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		end := strings.Index(rest, "\n}")
		if a.after == "const (\n" { // the constants of a type follow it
			end = len(rest)
		}
		if i := strings.Index(rest, a.after); i >= 0 && (end < 0 || i < end) {
			at := at[1] + i + len(a.after)
			return text[:at] + a.text + text[at:]
		}
	}
	require.Fail(t, "no such place", "%s has no %s with %q", a.file, a.name, a.after)
	return ""
}

// compile compiles the module with other texts of some files.
func compile(t *testing.T, changed map[string]string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		overlay.Replace[filepath.Join(root, filepath.FromSlash(file))] = path
	}
	data, err := json.Marshal(overlay)
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", path, "./cmd/internal/cli")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
}

// Reasons why an event is not shown.
const (
	forDisplay = "it is for display only, and a log would be full of it"
	followed   = "another event follows, which says how it ended"
	saidByUser = "the person has said it there"
	noSaving   = "only the terminal saves snapshots while it shows something"
	asJobs     = "the calls that begin and end them are shown, and /jobs lists them"
	asDecision = "what is decided shows in what becomes of the call"
)

// silentEvents are the types of events that a front end, or the log, says nothing of, each
// with the reason. A front end says what internal/faces says, too.
var silentEvents = map[string]map[string]string{
	"event.go logEntry": {
		"EventUser": "messages are not logged", "EventUnheard": "messages are not logged", "EventSettings": "the call that changes a setting is the program's own",
		"EventModelStart": followed, "EventText": forDisplay, "EventReasoning": forDisplay, "EventCallDelta": forDisplay,
		"EventApproval": followed, "EventQuestion": "it may hold anything", "EventAnswer": "it may hold anything", "EventToolStart": followed,
		"EventProgress": forDisplay, "EventOutput": forDisplay, "EventRetry": "the model's retries are logged where they are made",
		"EventRuntime": "a runtime that fails is an error of the call", "EventCompacting": followed, "EventKeeping": forDisplay, "EventSaving": forDisplay,
	},
	"lines":    {"EventUser": saidByUser, "EventUnheard": "nothing can be said while a turn goes on", "EventDecision": asDecision, "EventJobs": asJobs, "EventSaving": noSaving},
	"terminal": {"EventDecision": asDecision, "EventAnswer": saidByUser},
	"web":      {"EventJobs": asJobs, "EventSaving": noSaving},
}

// A front end ignores types of events that it does not know, so nobody would see a new one.
func TestEachEventIsShownOrSilent(t *testing.T) {
	t.Parallel()
	events := eventTypes(t)
	require.Contains(t, events, "EventRunEnd")
	for place, silent := range silentEvents {
		path, function, _ := strings.Cut(place, " ")
		named := namesIn(t, path, function)
		if function == "" {
			maps.Copy(named, namesIn(t, "internal/faces", ""))
		}
		for _, event := range events {
			_, isSilent := silent[event]
			if named[event] == isSilent {
				t.Errorf("%s: give %s a text there, or a row in silentEvents with the reason why not; never both", place, event)
			}
		}
		for event := range silent {
			require.Contains(t, events, event, "silentEvents")
		}
	}
}

// eventTypes returns the names of the constants of type EventType.
func eventTypes(t *testing.T) (names []string) {
	t.Helper()
	for _, f := range parsed(t, "") {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "EventType" && v.Names[0].IsExported() {
					names = append(names, v.Names[0].Name)
				}
			}
			return true
		})
	}
	return names
}

// namesIn returns the names that the code of a directory uses, or a function of a file.
func namesIn(t *testing.T, path, function string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range parsed(t, path) {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); function != "" && (!ok || d.Name.Name != function) {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[id.Name] = true
				}
				return true
			})
		}
	}
	return names
}

// parsed returns a file, or those of a directory without its tests.
func parsed(t *testing.T, path string) (files []*ast.File) {
	t.Helper()
	paths := []string{filepath.Join("../..", path)}
	if !strings.HasSuffix(path, ".go") {
		var err error
		paths, err = filepath.Glob(filepath.Join("../..", path, "*.go"))
		require.NoError(t, err)
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") || len(paths) == 1 {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	return files
}

// plainCards are the built-in tools whose calls the page titles as callsummary does.
var plainCards = []string{
	"cancel_task", "continue", "delegate_persona_task", "job_kill", "job_list", "job_output", "list_personas", "send_task", "stop", "task_status",
}

// A built-in tool that nothing describes shows people its arguments as JSON.
func TestEachBuiltInToolIsDescribed(t *testing.T) {
	t.Parallel()
	tools := append(textsOf(t, "tools_test.go", "builtins"), "read_skill")
	slices.Sort(tools)
	require.Equal(t, tools, textsOf(t, "internal/callsummary/callsummary.go", "builtin"), "callsummary says what each call does")
	cards := append(textsOf(t, "web/card.go", "verbs"), plainCards...)
	slices.Sort(cards)
	require.Equal(t, tools, cards, "give each tool a row in verbs of web/card.go, or in plainCards")
}

// textsOf returns the strings of a list, or the keys of a map, sorted.
func textsOf(t *testing.T, file, variable string) []string {
	t.Helper()
	texts := map[string]bool{}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(lit.Value)
			texts[text] = true
		}
	}
	ast.Inspect(parsed(t, file)[0], func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != variable || len(v.Values) == 0 {
			return true
		}
		if list, ok := v.Values[0].(*ast.CompositeLit); ok {
			for _, e := range list.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					e = pair.Key
				}
				add(e)
			}
		}
		return false
	})
	require.NotEmpty(t, texts, "%s of %s", variable, file)
	return slices.Sorted(maps.Keys(texts))
}
