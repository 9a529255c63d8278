package toolschema_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolschema"
)

func parse(t *testing.T, schema string) *toolschema.Schema {
	t.Helper()
	s, err := toolschema.Parse(json.RawMessage(schema))
	require.NoError(t, err)
	return s
}

// defined returns a schema of arguments with one property "p" of the definition
// with a name.
func defined(name, definition string) string {
	return fmt.Sprintf(`{"type":"object","properties":{"p":{"$ref":"#/$defs/%s"}},"$defs":{"%[1]s":%s}}`, name, definition)
}

// property returns a schema of arguments with one property "p".
func property(schema string) string {
	return `{"type":"object","properties":{"p":` + schema + `}}`
}

// check returns an error unless a schema has the portable form.
func check(raw json.RawMessage, path string) error {
	if len(raw) == 0 || raw[0] != '{' {
		return fmt.Errorf("%s: %s is no object", path, raw)
	}
	var k map[string]json.RawMessage
	if err := json.Unmarshal(raw, &k); err != nil {
		return err
	}
	allowed := map[string]string{"object": "properties required", "array": "items", "string": "enum", "integer": "", "number": "", "boolean": ""}
	var kind string
	if k["anyOf"] != nil {
		return checkAnyOf(k, path)
	}
	if err := json.Unmarshal(k["type"], &kind); err != nil {
		return fmt.Errorf("%s: type %s: %w", path, k["type"], err)
	}
	own, known := allowed[kind]
	if !known {
		return fmt.Errorf("%s: type %q", path, kind)
	}
	for name := range k {
		if name != "type" && name != "description" && !strings.Contains(" "+own+" ", " "+name+" ") {
			return fmt.Errorf("%s: %s has %q", path, kind, name)
		}
	}
	switch kind {
	case "object":
		return checkObject(k, path)
	case "array":
		return check(k["items"], path+"[]")
	}
	var words []string
	if err := json.Unmarshal(k["enum"], &words); k["enum"] != nil && (err != nil || len(words) == 0) {
		return fmt.Errorf("%s: enum %s", path, k["enum"])
	}
	for _, word := range words {
		if word == "" {
			return fmt.Errorf("%s: an empty string in enum", path)
		}
	}
	return nil
}

func checkAnyOf(k map[string]json.RawMessage, path string) error {
	var branches []json.RawMessage
	if err := json.Unmarshal(k["anyOf"], &branches); err != nil || len(k) > 1 || len(branches) < 2 || path == "" {
		return fmt.Errorf("%s: anyOf %s", path, k["anyOf"])
	}
	for _, b := range branches {
		if err := check(b, path+"|"); err != nil {
			return err
		}
	}
	return nil
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func checkObject(k map[string]json.RawMessage, path string) error {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(k["properties"], &properties); err != nil || len(properties) == 0 {
		return fmt.Errorf("%s: properties %s", path, k["properties"])
	}
	for name, p := range properties {
		if !validName.MatchString(name) {
			return fmt.Errorf("%s: name %q", path, name)
		}
		if err := check(p, path+"."+name); err != nil {
			return err
		}
	}
	var required []string
	if err := json.Unmarshal(k["required"], &required); k["required"] != nil && (err != nil || len(required) == 0) {
		return fmt.Errorf("%s: required %s", path, k["required"])
	}
	for _, name := range required {
		if properties[name] == nil {
			return fmt.Errorf("%s: required %q is no property", path, name)
		}
	}
	return nil
}

func TestPortableForm(t *testing.T) {
	const text = `{"type":"string","description":"JSON text of any value"}`
	for _, tt := range []struct{ name, schema, want string }{
		{"a string", `{"type":"string","description":"d","title":"T"}`, `{"type":"string","description":"d"}`},
		{"null or array", `{"type":["null","array"],"items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"}}`},
		{"two types", `{"type":["string","integer"],"description":"d","minimum":1}`, `{"anyOf":[{"type":"string","description":"d"},{"type":"integer","description":"d; minimum 1"}]}`},
		{"a number is an integer too", `{"type":["integer","number"]}`, `{"type":"number"}`},
		{"true", `true`, text},
		{"any value", `{"description":"d"}`, `{"type":"string","description":"d: JSON text of any value"}`},
		{"false", `false`, ``},
		{"null only", `{"type":"null"}`, ``},
		{"an array without items", `{"type":"array"}`, `{"type":"array","items":` + text + `}`},
		{"items true", `{"type":"array","items":true}`, `{"type":"array","items":` + text + `}`},
		{"a tuple of one kind", `{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}]}`, `{"type":"array","items":{"type":"number"}}`},
		{"a tuple", `{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}]}`,
			`{"type":"string","description":"JSON text of an array that fits {\"prefixItems\":[{\"type\":\"number\"},{\"type\":\"string\"}],\"type\":\"array\"}"}`},
		{"a free-form object", `{"type":"object","description":"d"}`, `{"type":"string","description":"d: JSON text of an object"}`},
		{"a map", `{"type":"object","additionalProperties":{"type":"integer"}}`,
			`{"type":"string","description":"JSON text of an object that fits {\"additionalProperties\":{\"type\":\"integer\"},\"type\":\"object\"}"}`},
		{"a closed object", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		{"an open object", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`,
			`{"type":"object","description":"additionalProperties true","properties":{"a":{"type":"string"}}}`},
		{"required without a property", `{"type":"object","required":["a"]}`, `{"type":"object","properties":{"a":` + text + `},"required":["a"]}`},
		{"bounds", `{"type":"integer","minimum":1,"maximum":5,"default":3,"description":"d"}`, `{"type":"integer","description":"d (minimum 1, maximum 5, default 3)"}`},
		{"format", `{"type":"string","format":"date-time"}`, `{"type":"string","description":"format date-time"}`},
		{"enum", `{"enum":["a","b","a"]}`, `{"type":"string","enum":["a","b"]}`},
		{"enum with null", `{"enum":["a",null]}`, `{"type":"string","enum":["a"]}`},
		{"enum with nothing in it", `{"type":"string","enum":["","b"]}`, `{"type":"string","description":"one of [\"\",\"b\"]"}`},
		{"enum of numbers", `{"type":"integer","enum":[1,2]}`, `{"type":"integer","description":"one of [1,2]"}`},
		{"const", `{"const":"x"}`, `{"type":"string","enum":["x"]}`},
		{"optional", `{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"d"}`, `{"type":"string","description":"d"}`},
		{"constants", `{"oneOf":[{"const":"a"},{"const":"b"}]}`, `{"type":"string","enum":["a","b"]}`},
		{"alternatives", `{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"boolean"}],"description":"d"}`,
			`{"anyOf":[{"type":"object","description":"d","properties":{"a":{"type":"string"}}},{"type":"boolean","description":"d"}]}`},
		{"alternatives within", `{"anyOf":[{"anyOf":[{"type":"integer"},{"type":"boolean"}]},{"type":"integer"}]}`, `{"anyOf":[{"type":"integer"},{"type":"boolean"}]}`},
		{"alternatives that narrow", `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"not":{"required":["a"]}}]}`,
			`{"type":"object","description":"anyOf [{\"required\":[\"a\"]},{\"not\":{\"required\":[\"a\"]}}]","properties":{"a":{"type":"string"}}}`},
		{"what stands beside alternatives", `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"b":{"type":"string"}}},{"properties":{"c":{"type":"string"}}}]}`,
			`{"anyOf":[{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}},{"type":"object","properties":{"c":{"type":"string"},"a":{"type":"string"}}}]}`},
		{"any among alternatives", `{"anyOf":[{"type":"string"},{}]}`, text},
		{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b"]}`},
		{"no type", `{"properties":{"a":{"pattern":"^x"}}}`, `{"type":"object","properties":{"a":{"type":"string","description":"pattern ^x"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := parse(t, property(tt.schema)).Wire()
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.JSONEq(t, property(tt.want), string(got))
			require.NoError(t, check(got, ""))
		})
	}
}

func TestReferencesAreInlined(t *testing.T) {
	s := parse(t, `{"$ref":"#/$defs/In","$defs":{
		"In":{"type":"object","properties":{
			"from":{"$ref":"#/$defs/a~1b","description":"where from"},
			"to":{"allOf":[{"$ref":"#/$defs/a~1b"}]},
			"map":{"$ref":"#/$defs/Map"}}},
		"Map":{"type":"object","additionalProperties":{"$ref":"#/$defs/a~1b"}},
		"a/b":{"type":"integer","description":"a place"}}}`)
	require.JSONEq(t, `{"type":"object","properties":{
		"from":{"type":"integer","description":"where from"},
		"to":{"type":"integer","description":"a place"},
		"map":{"type":"string","description":"JSON text of an object that fits {\"additionalProperties\":{\"description\":\"a place\",\"type\":\"integer\"},\"type\":\"object\"}"}}}`, string(s.Wire()))
}

func TestNoArguments(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object"}`,
		`{"type":"object","properties":{}}`,
		`{"type":"object","additionalProperties":false}`,
		`{"type":"object","properties":{"never":false}}`,
	} {
		require.Empty(t, parse(t, schema).Wire(), schema)
	}
}

func TestWhatCannotBePortableIsAnError(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 40) + `{"type":"string"}` + strings.Repeat("}", 40)
	for _, tt := range []struct{ name, schema, want string }{
		{"not an object", `{"type":"string"}`, "must be a schema of type object"},
		{"no schema", `[]`, "not a JSON Schema"},
		{"an old draft", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, `$schema "http://json-schema.org/draft-04/schema#" is not known`},
		{"a map at the root", `{"type":"object","additionalProperties":{"type":"string"}}`, "an object of any names cannot stand at the root"},
		{"alternatives at the root", `{"type":"object","anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, "anyOf cannot stand at the root"},
		{"enum at the root", `{"type":"object","enum":[{}]}`, "cannot stand at the root"},
		{"itself only", property(`{"$ref":"#/properties/p"}`), "#/properties/p refers to itself only"},
		{"itself at once", property(`{"allOf":[{"$ref":"#/properties/p"}]}`), "refers to itself only"},
		{"nowhere", property(`{"$ref":"#/$defs/none"}`), "none"},
		{"an anchor", property(`{"$ref":"#here","$defs":{"h":{"$anchor":"here","type":"string"}}}`), `p: the reference "#here"`},
		{"a name", `{"type":"object","properties":{"a b":{"type":"string"}}}`, "a b: the name of a property"},
		{"text or string", property(`{"anyOf":[{"type":"string"},{"type":"object"}]}`), "p: a string and a free-form object"},
		{"too deep", property(deep), "nested deeper than 32"},
		{"nothing fits", `{"type":"object","properties":{"a":false},"required":["a"]}`, "a: nothing but null"},
		{"two of a property", property(`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"integer"}}}]}`), `two different properties "a"`},
		{"a misspelt type", property(`{"type":"strng"}`), `p: unknown type "strng"; want object, array, string`},
		{"a type of another language", `{"type":"object","properties":{"n":{"type":"int"}},"required":["n"]}`, `n: unknown type "int"`},
		{"one of several types", property(`{"type":["null","str"]}`), `p: unknown type "str"`},
		{"required and not allowed", `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`, `"b" is required, but is none of the properties`},
		{"no common type", property(`{"allOf":[{"type":"string"},{"type":"integer"}]}`), "no type is both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := toolschema.Parse(json.RawMessage(tt.schema))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSchemasInsideThemselvesEndInText(t *testing.T) {
	const tree = `"$defs":{"N":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"next":{"$ref":"#/$defs/N"}}}}`
	s := parse(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/N"}},`+tree+`}`)
	require.JSONEq(t, `{"type":"object","properties":{"a":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
		"next":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
		"next":{"type":"string","description":"JSON text of an object that fits the same schema as the one that it is in"}}}}}}}`, string(s.Wire()))
	for args, want := range map[string]string{
		`{"a":{"name":"1","next":{"name":"2"}}}`:                                                     "",
		`{"a":{"name":"1","next":{"name":"2","next":"{\"name\":\"3\",\"next\":{\"name\":\"4\"}}"}}}`: `{"a":{"name":"1","next":{"name":"2","next":{"name":"3","next":{"name":"4"}}}}}`,
		`{"a":{"name":"1","next":{"name":"2","next":{"name":"3"}}}}`:                                 "",
		`{"a":{"name":"1","next":{"name":"2","next":"{}"}}}`:                                         "error",
		`{"a":{"name":"1","next":{"name":"2","next":null}}}`:                                         `{"a":{"name":"1","next":{"name":"2"}}}`,
	} {
		got, err := s.Arguments(args)
		if want == "error" {
			require.ErrorContains(t, err, "name", args)
			continue
		}
		require.NoError(t, err, args)
		require.JSONEq(t, cmp.Or(want, args), string(got))
	}

	for name, schema := range map[string]string{
		"the root":          `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}}}}`,
		"a map of itself":   `{"type":"object","properties":{"a":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","additionalProperties":{"$ref":"#/$defs/N"}}}}`,
		"a list of lists":   defined("L", `{"type":"array","items":{"$ref":"#/$defs/L"}}`),
		"a value":           defined("V", `{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/V"}}]}`),
		"a list or nothing": defined("N", `{"anyOf":[{"type":"null"},{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}}}]}`),
		"many times":        defined("W", `{"type":"object","properties":{`+strings.TrimSuffix(strings.Repeat(`"p%d":{"$ref":"#/$defs/W"},`, 50), ",")+`}}`),
	} {
		for i := range 50 {
			schema = strings.Replace(schema, "p%d", fmt.Sprint("p", i), 1)
		}
		require.LessOrEqual(t, len(parse(t, schema).Wire()), 30_000, name)
	}
}

// Node contains itself in every way.
type Node struct {
	Name     string          `json:"name" jsonschema:"what it is called"`
	Children []Node          `json:"children,omitempty"`
	Next     *Node           `json:"next,omitempty"`
	Named    map[string]Node `json:"named,omitempty"`
	List     List            `json:"list,omitempty"`
	Unit     Unit            `json:"unit,omitempty"`
	hidden   *Node
}

// List is a list of lists.
type List []List

// Unit is an enum.
type Unit string

// Enum returns the units that there are.
func (Unit) Enum() []Unit { return []Unit{"km", "mile"} }

type depthLevel int

func (*depthLevel) Enum() []depthLevel { return []depthLevel{1, 2} }

type none string

func (none) Enum() []none { return nil }

type panics string

func (panics) Enum() []panics { panic("oh no") }

func TestGoTypesMayContainThemselvesAndHaveEnums(t *testing.T) {
	type in struct {
		Root  Node       `json:"root"`
		Units []Unit     `json:"units"`
		May   *Unit      `json:"may"`
		Level depthLevel `json:"level"`
		Text  *string    `json:"text,omitempty"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[in](), reflect.TypeFor[Node]()} {
		author, err := toolschema.For(typ)
		require.NoError(t, err)
		require.LessOrEqual(t, len(parse(t, string(author)).Wire()), 20_000)
	}
	author, err := toolschema.For(reflect.TypeFor[in]())
	require.NoError(t, err)
	s := parse(t, string(author))
	require.Contains(t, string(s.Wire()), `"enum":["km","mile"]`)
	for args, fits := range map[string]bool{
		`{"root":{"name":"a","children":[{"name":"b","next":{"name":"c","list":[[],[[]]]}}]},"units":["km"],"may":null,"level":2}`:  true,
		`{"root":{"name":"a","named":{"x":{"name":"b"}}},"units":[],"may":"mile","level":1}`:                                        true,
		`{"root":{"name":"a","unit":"inch"},"units":[],"may":null,"level":1}`:                                                       false,
		`{"root":{"name":"a"},"units":["inch"],"may":null,"level":1}`:                                                               false,
		`{"root":{"name":"a"},"units":[],"may":"inch","level":1}`:                                                                   false,
		`{"root":{"name":"a"},"units":[],"may":"km","level":3}`:                                                                     false,
		`{"root":{"name":"a","children":[{"name":"b","children":[{"name":"c","children":[{}]}]}]},"units":[],"may":null,"level":1}`: false,
	} {
		checked, err := s.Arguments(args)
		require.Equal(t, fits, err == nil, "%s: %v", args, err)
		if fits {
			var got in
			require.NoError(t, json.Unmarshal(checked, &got))
			require.Nil(t, got.Root.hidden)
		}
	}
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[struct{ A none }]():   "the values of toolschema_test.none: Enum returns none",
		reflect.TypeFor[struct{ A panics }](): "the values of toolschema_test.panics: panic: oh no",
	} {
		_, err := toolschema.For(typ)
		require.EqualError(t, err, want)
	}
}

func TestToolsMayCheckTheirArgumentsThemselves(t *testing.T) {
	s, err := toolschema.ParseUnchecked(json.RawMessage(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"type":"string","pattern":"(?<x"},"m":{"type":"object"}}}`))
	require.NoError(t, err)
	for args, want := range map[string]string{
		`{"a":7}`:                    `{"a":7}`,
		`{"b":1}`:                    `{"b":1}`,
		``:                           `{}`,
		`{"m":"{\"x\":1}","a":null}`: `{"m":{"x":1}}`,
	} {
		got, err := s.Arguments(args)
		require.NoError(t, err, args)
		require.JSONEq(t, want, string(got))
	}
	_, err = s.Arguments(`[1]`)
	require.ErrorContains(t, err, "not a JSON object")
}

func TestArgumentsAreReadForTheAuthorsSchema(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{
		"n":{"type":"integer","minimum":1},
		"list":{"type":["null","array"],"items":{"type":"object","properties":{"x":{"type":"string"},"any":true}}},
		"map":{"type":"object","additionalProperties":{"type":"integer"}},
		"any":true,
		"pair":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}]},
		"kind":{"oneOf":[
			{"type":"object","properties":{"is":{"const":"a"},"set":{"type":"object"}},"required":["is"]},
			{"type":"object","properties":{"is":{"const":"b"},"set":{"type":"string"},"n":{"type":"integer"}},"required":["is"]}]},
		"either":{"anyOf":[{"type":"object","properties":{"deep":{"type":"object"}}},{"type":"boolean"}]}
	},"required":["list"],"additionalProperties":false}`)
	for _, tt := range []struct{ name, given, want string }{
		{"as it is", `{"list":[], "n":9007199254740993}`, `{"list":[], "n":9007199254740993}`},
		{"null is left out", `{"n":null,"map":null,"list":null}`, `{"list":null}`},
		{"null in a list", `{"list":[{"x":null,"any":null}]}`, `{"list":[{"any":null}]}`},
		{"JSON text", `{"list":[],"map":"{\"a\":12345678901234567890}","any":"[1]","pair":"[1,\"<\"]"}`, `{"any":[1],"list":[],"map":{"a":12345678901234567890},"pair":[1,"<"]}`},
		{"the values themselves", `{"list":[],"map":{"a":1},"any":[1],"pair":[1,"b"]}`, `{"list":[],"map":{"a":1},"any":[1],"pair":[1,"b"]}`},
		{"text that is no JSON", `{"list":[],"any":"hello you"}`, `{"list":[],"any":"hello you"}`},
		{"quoted text", `{"list":[],"any":"\"5\""}`, `{"any":"5","list":[]}`},
		{"in one of several objects", `{"list":[],"kind":{"is":"a","set":"{}"}}`, `{"kind":{"is":"a","set":{}},"list":[]}`},
		{"in another", `{"list":[],"kind":{"is":"b","set":"{}","n":null}}`, `{"kind":{"is":"b","set":"{}"},"list":[]}`},
		{"whole numbers", `{"list":[],"n":5.0,"map":"{\"a\":1e2}","any":5.0}`, `{"any":5.0,"list":[],"map":{"a":1e2},"n":5}`},
		{"among alternatives", `{"list":[],"either":{"deep":"{}"}}`, `{"either":{"deep":{}},"list":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Arguments(tt.given)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
	for _, tt := range []struct{ name, given, want string }{
		{"a bound", `{"list":[],"n":0}`, "minimum"},
		{"a fraction", `{"list":[],"n":1.5}`, "integer"},
		{"a name", `{"list":[],"m":1}`, "m"},
		{"null where it is required", `{}`, "list"},
		{"text of something else", `{"list":[],"map":"[1]"}`, "type"},
		{"what the text holds", `{"list":[],"map":"{\"a\":\"b\"}"}`, "type"},
		{"no object", `[]`, "not a JSON object"},
		{"more", `{"list":[]} x`, "text after the JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Arguments(tt.given)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "expected {")
		})
	}
}

func TestModelsAreToldWhereNullIsAnAnswer(t *testing.T) {
	for given, want := range map[string]string{
		`{"type":["integer","null"],"description":"d"}`:                    `{"type":"integer","description":"d; may be null"}`,
		`{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`: `{"anyOf":[{"type":"string","description":"may be null"},{"type":"integer","description":"may be null"}]}`,
		`{"type":["array","null"],"items":{"type":"string"}}`:              `{"type":"array","items":{"type":"string"}}`,
		`{"type":"integer"}`: `{"type":"integer"}`,
	} {
		s := parse(t, `{"type":"object","properties":{"p":`+given+`},"required":["p"]}`)
		require.Equal(t, `{"type":"object","properties":{"p":`+want+`},"required":["p"]}`, string(s.Wire()))
		require.NotContains(t, string(parse(t, property(given)).Wire()), "null", "it can be left out")
	}
}

func TestErrorsDoNotRepeatALongSchema(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"a":{"type":"string","description":"`+strings.Repeat("x", 5000)+`"}}}`)
	_, err := s.Arguments(`{"a":1}`)
	require.ErrorContains(t, err, "expected what the tool's schema says")
	require.Less(t, len(err.Error()), 300)
}

func TestArgumentsAndWhatIsWrongWithThemAreBounded(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"a":{"type":"string"},"list":{"type":"array","items":{"type":"integer"}}},"additionalProperties":false}`)
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":1`, i)
		}
		return `{"a":"b"` + b.String() + "}"
	}
	_, err := s.Arguments(names(2000))
	require.ErrorContains(t, err, "do not fit")
	require.Less(t, len(err.Error()), 3000)
	_, err = s.Arguments(names(500_000))
	require.ErrorContains(t, err, "more than 50000 values")
	_, err = s.Arguments(`{"list":[1` + strings.Repeat(",1", 40_000) + `]}`)
	require.NoError(t, err)
}

type shared struct {
	Note string `json:"note,omitempty"`
}

type everything struct {
	shared
	Raw    json.RawMessage   `json:"raw"`
	RawPtr *json.RawMessage  `json:"raw_ptr"`
	Any    any               `json:"any"`
	Bytes  []byte            `json:"bytes"`
	Time   time.Time         `json:"time"`
	Addr   netip.Addr        `json:"addr"`
	Number json.Number       `json:"number"`
	Big    *big.Int          `json:"big"`
	Labels map[string]string `json:"labels"`
	Size   uint8             `json:"size"`
	Inner  *struct {
		OK bool `json:"ok"`
	} `json:"inner"`
	private func()
}

func TestGoTypesAreDescribedAsTheyAreDecoded(t *testing.T) {
	author, err := toolschema.For(reflect.TypeFor[everything]())
	require.NoError(t, err)
	s := parse(t, string(author))
	require.NoError(t, check(s.Wire(), ""))
	var wire struct {
		Properties map[string]struct{ Type, Description string }
	}
	require.NoError(t, json.Unmarshal(s.Wire(), &wire))
	for name, want := range map[string]string{
		"note": "string ", "raw": "string JSON text of any value", "raw_ptr": "string JSON text of any value", "any": "string JSON text of any value",
		"bytes": "string contentEncoding base64; may be null", "time": "string format date-time", "addr": "string ", "number": "number ", "big": "integer may be null",
		"labels": `string JSON text of an object that fits {"additionalProperties":{"type":"string"},"type":"object"}`,
		"size":   "integer minimum 0, maximum 255", "inner": "object may be null",
	} {
		require.Equal(t, want, wire.Properties[name].Type+" "+wire.Properties[name].Description, name)
	}
	args, err := s.Arguments(`{"note":"n","raw":"{\"a\":1}","raw_ptr":[2],"any":"true","bytes":"aGk=","time":"2026-01-02T03:04:05Z",
		"addr":"127.0.0.1","number":1.50,"big":123456789012345678901234567890,"labels":"{\"a\":\"b\"}","size":7,"inner":{"ok":true}}`)
	require.NoError(t, err)
	var in everything
	require.NoError(t, json.Unmarshal(args, &in))
	require.Equal(t, `{"a":1}`, string(in.Raw))
	require.Equal(t, `[2]`, string(*in.RawPtr))
	require.Equal(t, true, in.Any)
	require.Equal(t, "hi", string(in.Bytes))
	require.Equal(t, "1.50", in.Number.String())
	require.Equal(t, "123456789012345678901234567890", in.Big.String())
	require.Equal(t, map[string]string{"a": "b"}, in.Labels)
	require.True(t, in.Inner.OK)
	require.Nil(t, in.private)
}

// lenient decodes itself, but only to set a default.
type lenient struct {
	N int `json:"n,omitempty"`
}

func (l *lenient) UnmarshalJSON(data []byte) error {
	type plain lenient
	l.N = 7
	return json.Unmarshal(data, (*plain)(l))
}

// level decodes itself, and nothing tells from what.
type level int

func (l *level) UnmarshalJSON([]byte) error { return nil }

func TestGoTypesThatDecodeThemselves(t *testing.T) {
	author, err := toolschema.For(reflect.TypeFor[struct {
		Lenient lenient `json:"lenient"`
		Level   level   `json:"level"`
	}]())
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","properties":{
		"lenient":{"type":"object","properties":{"n":{"type":"integer"}}},
		"level":{"type":"string","description":"JSON text of any value"}},"required":["lenient","level"]}`, string(parse(t, string(author)).Wire()))
}

// go vet refuses such a struct where it can see it.
func TestFieldsOfOneNameAreRefused(t *testing.T) {
	of := func(name string) reflect.StructField {
		return reflect.StructField{Name: name, Type: reflect.TypeFor[int](), Tag: `json:"n,omitempty"`}
	}
	_, err := toolschema.For(reflect.StructOf([]reflect.StructField{of("A"), of("B")}))
	require.ErrorContains(t, err, `the fields A and B are both named "n"`)
}

func TestGoTypesThatCannotBeDescribedAreRefused(t *testing.T) {
	for want, v := range map[string]any{
		"field N: the option": struct {
			N int `json:"n,string"`
		}{},
		"an interface with methods": struct{ S fmt.Stringer }{},
		"cannot be named by its tag": struct {
			shared `json:"shared"`
		}{},
		"unsupported": struct{ F func() }{},
	} {
		_, err := toolschema.For(reflect.TypeOf(v))
		require.ErrorContains(t, err, want)
	}
}

func FuzzPortable(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":["null","array","string"],"items":{"enum":[1,"x",null]}},"b":{"$ref":"#/$defs/x"}},"required":["b","c"],"$defs":{"x":{"anyOf":[{"const":"y"},{"type":"object"}]}}}`,
		`{"type":"object","properties":{"a":{"allOf":[{"properties":{"x":true}},{"oneOf":[{"type":"integer"},{"minimum":3}]}]}},"anyOf":[{"required":["a"]}]}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/V"},"b":{"$ref":"#"}},"$defs":{"V":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/V"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}}}`,
		`{"$ref":"#/definitions/a","definitions":{"a":{"type":"object","properties":{"t":{"items":[{"type":"string"},{}]}}}}}`,
	} {
		f.Add(schema, `{"a":null,"b":"{}"}`)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		s, err := toolschema.Parse(json.RawMessage(schema))
		if err != nil {
			return
		}
		_, _ = s.Arguments(args) // must not panic
		if len(s.Wire()) == 0 {
			return
		}
		require.NoError(t, check(s.Wire(), ""))
		again, err := toolschema.Parse(s.Wire())
		require.NoError(t, err)
		require.Equal(t, string(s.Wire()), string(again.Wire()))
	})
}

func TestErrorsAreInTheWordsOfJSON(t *testing.T) {
	s, err := toolschema.Parse(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`))
	require.NoError(t, err)
	_, err = s.Arguments(`{"a":null}`)
	require.ErrorContains(t, err, `null has type "null", want "string"`)
	require.NotContains(t, err.Error(), "reflect")
}

func TestLargeSchemasAreRefused(t *testing.T) {
	_, err := toolschema.Parse(json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 1<<20) + `"}`))
	require.ErrorContains(t, err, "more than 1024 KiB")
	many := `{"type":"object","properties":{`
	for i := range 2100 {
		many += fmt.Sprintf(`"p%d":{"type":"string"},`, i)
	}
	_, err = toolschema.Parse(json.RawMessage(many + `"p":{"type":"string"}}}`))
	require.ErrorContains(t, err, "more than 2000 parts")
}
