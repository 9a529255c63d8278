//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package pygent

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent/chat"
)

// sources are ours. A test that lists a directory would run again after a change of any
// file in it.
//
//go:embed *.go
var sources embed.FS

// jsonValues has a value of each exported type with a JSON form.
var jsonValues = []any{
	APIError{}, Answer{}, AskRequest{}, ApprovalRequest{}, BashResult{}, chat.CallDelta{}, CallInfo{}, Checkpoint{}, CollectedFile{}, CommandResult{}, CompactionPolicy{}, Completion{}, ConfigSetting{}, ContainerConfig{}, ContextUse{}, Decision{}, Event{},
	FileChange{}, FileInfo{}, chat.HistoryEntry{}, chat.HistoryInfo{}, chat.Compaction{}, HostUse{}, JobOutput{}, Job{}, KeptFile{}, Limits{}, LocalConfig{}, Location{},
	Message{}, Mount{}, OutputChunk{}, Part{}, PendingApproval{}, PendingQuestion{}, Persona{}, Price{}, ProgressInfo{}, Question{}, Restored{}, Result{},
	RetryInfo{}, chat.Rewind{}, RuntimeEvent{}, RuntimeInfo{}, Said{}, SessionLimits{}, Settings{}, State{}, TaskFile{}, TaskFilter{}, TaskLeft{}, TaskRules{}, TaskRuntime{}, TaskSpec{},
	TaskStatus{}, ToolCall{}, ToolInfo{}, ToolResult{}, chat.ToolSpec{}, chat.TurnEnd{}, Usage{},
	UsageReport{},
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func TestASummaryThatIsTheTextIsToldApartFromOthers(t *testing.T) {
	for _, tt := range []struct {
		text, summary string
		same          bool
	}{{"X", "X", true}, {"X\n", "X\n", true}, {" X", "X\n\n", true}, {"X\nY", "X Y", false}, {"", "X", false}, {"X", "", false}} {
		r := Result{Message: chat.AssistantMessage(tt.text), Summary: tt.summary}
		require.Equal(t, tt.same, r.SummaryIsText(), "%q and %q", tt.text, tt.summary)
	}
}

func TestEveryValueComesBackFromJSON(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testing.Short() {
		seeds = 20
	}
	for _, zero := range jsonValues {
		typ := reflect.TypeOf(zero)
		t.Run(typ.Name(), func(t *testing.T) {
			for seed := range seeds {
				f := filler{rand.New(rand.NewPCG(seed, 0))}
				value := reflect.New(typ)
				if seed > 0 { // seed 0 tests the zero value
					f.fill(value.Elem(), 3)
				}
				switch v := value.Interface().(type) { // replace random values that would be refused
				case *Message:
					v.Role = cmp.Or(v.Role, chat.RoleUser)
				case *chat.HistoryEntry:
					if !reflect.ValueOf(v.Message).IsZero() {
						v.Message.Role = cmp.Or(v.Message.Role, chat.RoleUser)
					}
				case *TaskSpec:
					*v = TaskSpec{Version: taskSpecVersion, ID: "t1", Prompt: "do it", Depth: 1, Parts: v.Parts, Persona: v.Persona, Call: v.Call, Runtime: v.Runtime, Rules: v.Rules,
						Limits: Limits{MaxSteps: 3, StepTimeout: time.Millisecond, MaxTime: time.Hour}}
				}
				checkJSON(t, value)
			}
		})
	}
}

func checkJSON(t *testing.T, value reflect.Value) {
	t.Helper()
	data, err := json.Marshal(value.Interface())
	require.NoError(t, err)
	var names any
	require.NoError(t, json.Unmarshal(data, &names))
	for _, name := range fieldNames(names) {
		if !snakeCase.MatchString(name) {
			t.Fatalf("the name %q in %s", name, data)
		}
	}
	back := reflect.New(value.Elem().Type())
	require.NoError(t, json.Unmarshal(data, back.Interface()), "%s", data)
	again, err := json.Marshal(back.Interface())
	require.NoError(t, err)
	if !bytes.Equal(data, again) {
		require.JSONEq(t, string(data), string(again))
	}
	require.Equal(t, shown(value.Elem()), shown(back.Elem()), "%s", data)
}

// fieldNames returns the names in all objects of decoded JSON, except in
// schemas.
func fieldNames(v any) (names []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			names = append(names, name)
			if name != "parameters" {
				names = append(names, fieldNames(value)...)
			}
		}
	case []any:
		for _, value := range v {
			names = append(names, fieldNames(value)...)
		}
	}
	return names
}

// shown formats a value with all its exported fields. It leaves out caches,
// locations of times and types of errors, which may differ between equal
// values.
func shown(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Time:
		return value.UTC().String()
	case error:
		if v.Kind() == reflect.Interface || !v.IsZero() && v.Type() != reflect.TypeFor[APIError]() && v.Type() != reflect.TypeFor[*APIError]() {
			return value.Error()
		}
	case json.RawMessage:
		return string(value)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return shown(v.Elem())
	case reflect.Struct:
		var b strings.Builder
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fmt.Fprintf(&b, "%s:%s ", v.Type().Field(i).Name, shown(v.Field(i)))
			}
		}
		return "{" + b.String() + "}"
	case reflect.Slice:
		var b strings.Builder
		for i := range v.Len() {
			b.WriteString(shown(v.Index(i)) + ",")
		}
		return "[" + b.String() + "]"
	}
	return fmt.Sprintf("%v", v.Interface())
}

// filler fills values at random.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value, depth int) {
	if f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.Int64N(1<<50) - 1<<49)
	case reflect.Float64:
		v.SetFloat(f.Float64())
	case reflect.Pointer:
		if depth > 0 && f.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		for range f.IntN(3) {
			one := reflect.New(v.Type().Elem()).Elem()
			f.fill(one, depth-1)
			v.Set(reflect.Append(v, one))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth-1)
			}
		}
	}
}

// special fills values of types that have rules of their own.
func (f filler) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(f.Int64N(1<<32), f.Int64N(1e9))
	case *json.RawMessage:
		*p = json.RawMessage(`{"type":"object"}`)
	case *error:
		*p = errors.New("cause")
	case *Protection:
		*p = Protection(f.IntN(3))
	case *DockerMode:
		*p = DockerMode(f.IntN(3))
	case *map[string]json.RawMessage:
		*p = map[string]json.RawMessage{"unknown_field": json.RawMessage(`[1]`)}
	case *Part:
		*p = Part{Text: f.text()}
		if f.IntN(2) == 0 {
			*p = Part{ImageURL: "data:image/png;base64,AA=="}
		}
	case *Message:
		*p = Message{Role: chat.RoleAssistant, Content: f.text(), Name: "n"}
		if f.IntN(2) == 0 {
			*p = Message{Role: chat.RoleUser, Parts: []Part{{Text: "a"}, {ImageURL: "https://x/y"}}}
		} else {
			f.fill(reflect.ValueOf(&p.ToolCalls).Elem(), 2)
		}
	default:
		return false
	}
	return true
}

func (f filler) text() string {
	return []string{"x", "two words", "<&> \"quoted\" \\ \n", "日本語", "a_b"}[f.IntN(5)]
}

func TestEveryTypeWithJSONIsChecked(t *testing.T) {
	t.Parallel()
	checked := map[string]bool{
		"Config":  true, // they hide secrets, and are read from their own files
		"Setup":   true, // it refuses what no agent can be; TestSetupDescribesTheAgentThatItsOptionsMake has it come back
		"Command": true, // its list is for faces; what it does is functions
	}
	for _, v := range jsonValues {
		checked[reflect.TypeOf(v).Name()] = true
	}
	names, err := fs.Glob(sources, "*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := sources.ReadFile(name)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && hasJSON(s) {
				require.True(t, checked[spec.Name.Name], "%s has a JSON form", spec.Name.Name)
			}
			return true
		})
	}
}

func hasJSON(s *ast.StructType) bool {
	for _, f := range s.Fields.List {
		if f.Tag != nil && strings.Contains(f.Tag.Value, "json:") {
			return true
		}
	}
	return false
}

// Logs and replays are bounded by what sizeOf counts.
func TestLongTextsOfEventsCount(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const size = 1 << 20
	// Names, ids and kinds are short, and so is what this package makes itself.
	short := []string{"ID", "Task", "Type", "Source", "Model", "Role", "ToolCallID", "Name", "FileName", "Title", "Kind", "Agent", "Why", "Session",
		"By", "Status", "Code", "RequestID", "End", "Outcome", "Path", "Tool", "Parent", "Root", "Call", "State", "Paths", "Disabled", "FullPath", "Note", "Host", "Job", "Change", "Unpriced", "Commit"}
	made := regexp.MustCompile(`\.(Runtime|Settings|Retry|Refused\[\])\.`)
	for k := 0; ; k++ {
		var e Event
		n := k
		path := setLeaf(reflect.ValueOf(&e).Elem(), &n, "Event", size)
		if path == "" {
			require.Greater(t, k, 100)
			with := Message{Extra: map[string]json.RawMessage{"reasoning_content": make([]byte, size)}}
			require.GreaterOrEqual(t, sizeOf(Event{Message: &with}), size)
			return
		}
		name := strings.TrimRight(path[strings.LastIndexByte(path, '.')+1:], "[]")
		if !slices.Contains(short, name) && !made.MatchString(path) {
			require.GreaterOrEqual(t, sizeOf(e), size, path)
		}
	}
}

// setLeaf sets the nth text below v to one of the given size, and returns its path; it is empty if
// there is none.
func setLeaf(v reflect.Value, n *int, path string, size int) string {
	switch v.Kind() {
	case reflect.String:
		if *n--; *n >= 0 {
			return ""
		}
		v.SetString(strings.Repeat("x", size))
		return path
	case reflect.Pointer:
		if strings.Count(path, ".") > 5 {
			return ""
		}
		to := reflect.New(v.Type().Elem())
		path = setLeaf(to.Elem(), n, path, size)
		if path != "" {
			v.Set(to)
		}
		return path
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if *n--; *n >= 0 {
				return ""
			}
			v.SetBytes(make([]byte, size))
			return path
		}
		all := reflect.MakeSlice(v.Type(), 1, 1)
		path = setLeaf(all.Index(0), n, path+"[]", size)
		if path != "" {
			v.Set(all)
		}
		return path
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			if at := setLeaf(v.Field(i), n, path+"."+f.Name, size); at != "" {
				return at
			}
		}
	}
	return ""
}
