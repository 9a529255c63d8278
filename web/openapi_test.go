package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/web"
)

// openAPI is what the tests read of the document.
type openAPI struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]*jsonschema.Schema }
}

type operation struct {
	Summary     string
	RequestBody struct {
		Content map[string]struct{ Schema *jsonschema.Schema }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

var readDocument = sync.OnceValue(func() (doc openAPI) {
	if err := json.Unmarshal(web.Document(), &doc); err != nil {
		panic(err)
	}
	return doc
})

// readOperations returns what the document describes, by "METHOD /path".
var readOperations = sync.OnceValue(func() map[string]operation {
	all := map[string]operation{}
	for path, methods := range readDocument().Paths {
		for method, raw := range methods {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				panic(method + " " + path + ": " + err.Error())
			}
			all[strings.ToUpper(method)+" "+path] = o
		}
	}
	return all
})

func TestTheDocumentDescribesTheAPI(t *testing.T) {
	described := []string{}
	for pattern, o := range readOperations() {
		require.NotEmpty(t, o.Summary, pattern)
		require.Contains(t, o.Responses, "default", pattern)
		described = append(described, pattern)
	}
	served := web.Patterns()
	slices.Sort(described)
	slices.Sort(served)
	require.Equal(t, served, described)
}

func TestTheDocumentIsServed(t *testing.T) {
	s := serveAt(t)
	status, body := s.do(s.request(http.MethodGet, "/openapi.json", nil))
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, string(web.Document()), string(body))
}

// checkAnswer validates an answer of the API against the document.
func checkAnswer(t *testing.T, method, path string, status int, body []byte) {
	t.Helper()
	path = strings.TrimPrefix(path, "/api/v1")
	for pattern, o := range readOperations() {
		m, p, _ := strings.Cut(pattern, " ")
		if m != method || !matches(p, path) || status >= 300 {
			continue
		}
		response, ok := o.Responses[strconv.Itoa(status)]
		if status == http.StatusNoContent {
			require.Empty(t, body)
			return
		}
		require.True(t, ok, "%s answers with %d", pattern, status)
		content := response.Content["application/json"].Schema
		if content == nil {
			return
		}
		validate(t, pattern, content, body)
		return
	}
	if status >= 400 {
		validate(t, "an error", errorSchema, body)
	}
}

// errorSchema is the schema of what the API answers when it fails.
var errorSchema = json.RawMessage(`{"$ref":"#/components/schemas/Error"}`)

// validate checks a value against a schema of the document.
func validate(t *testing.T, what string, schema json.RawMessage, value []byte) {
	t.Helper()
	resolved, err := resolve(string(schema))
	require.NoError(t, err, what)
	var v any
	require.NoError(t, json.Unmarshal(value, &v), "%s: %s", what, value)
	require.NoError(t, resolved.Validate(v), "%s: %s", what, value)
}

// resolved keeps what resolve returned, since resolving a schema takes longer than all
// else that a request does.
var resolved sync.Map // of *jsonschema.Resolved, by the schema's text

// resolve makes a schema of the document ready to validate values.
func resolve(schema string) (*jsonschema.Resolved, error) {
	if known, ok := resolved.Load(schema); ok {
		return known.(*jsonschema.Resolved), nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(schema, "#/components/schemas/", "#/$defs/")), &s); err != nil {
		return nil, err
	}
	s.Defs = map[string]*jsonschema.Schema{}
	for name, def := range readDocument().Components.Schemas {
		s.Defs[name] = def.CloneSchemas()
	}
	r, err := s.Resolve(nil)
	if err == nil {
		resolved.Store(schema, r)
	}
	return r, err
}

// matches reports whether a path is one of a pattern.
func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(want, got string) bool { return strings.HasPrefix(want, "{") || want == got })
}
