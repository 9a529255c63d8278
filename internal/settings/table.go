package settings

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/pathname"
)

// Object binds a table of JSON values. A variable has it as a JSON object.
func Object(at *map[string]any) *Var[map[string]any] { return &Var[map[string]any]{at, asObject} }

// Headers binds HTTP headers: a table of strings. A variable has it as a JSON
// object. Sources add to each other.
func Headers[S ~string](at *map[string]S) Func { return merge(at, asHeaders[S]) }

// Variables binds a table of environment variables for commands, without the
// names that are pygent's own. Sources add to each other.
func Variables[S ~string](at *map[string]S) Func { return merge(at, asVariables[S]) }

// Personas binds a list of personas: names, or tables with name and description.
func Personas[P any](at *[]P, persona func(name, description string) P) *Var[[]P] {
	return &Var[[]P]{at, func(v any) ([]P, error) { return asPersonas(v, persona) }}
}

// PersonasJSON is Personas for a variable with JSON in it.
func PersonasJSON[P any](at *[]P, persona func(name, description string) P) *Var[[]P] {
	return &Var[[]P]{at, func(v any) ([]P, error) {
		const what = `a JSON array of objects with "name" and "description"`
		s, _ := v.(Text)
		var list []any
		if json.Unmarshal([]byte(s), &list) != nil {
			return nil, Want(what, v)
		}
		personas, err := asPersonas(list, persona)
		if err != nil {
			return nil, Want(what, v)
		}
		return personas, nil
	}}
}

// Mounts binds a list of mounts: "source:target[:ro]" or, in a file, tables. A
// "~/" in a source is the user's home.
func Mounts[M any](at *[]M, mount func(source, target string, readOnly bool) M) Value {
	return &mounts[M]{at: at, mount: mount}
}

type mounts[M any] struct {
	at    *[]M
	mount func(source, target string, readOnly bool) M
	list  []mount
}

type mount struct {
	source, target string
	readOnly       bool
}

// Set implements [Value].
func (m *mounts[M]) Set(given any) error {
	list, err := asMounts(given)
	if err == nil {
		m.put(list)
	}
	return err
}

func (m *mounts[M]) readPaths(home string) error {
	if m.list == nil {
		return nil
	}
	for i := range m.list { // which an engine on another machine may have
		m.list[i].source = pathname.ExpandHome(m.list[i].source, home)
	}
	m.put(m.list)
	return nil
}

func (m *mounts[M]) put(list []mount) {
	m.list, *m.at = list, make([]M, len(list))
	for i, one := range list {
		(*m.at)[i] = m.mount(one.source, one.target, one.readOnly)
	}
}

func asMounts(v any) ([]mount, error) {
	if t, ok := v.(Text); ok {
		parts := split(string(t), ',')
		list := make([]any, len(parts))
		for i, part := range parts {
			list[i] = part
		}
		v = list
	}
	list, ok := v.([]any)
	if !ok {
		return nil, Want("an array of mounts", v)
	}
	mounts := make([]mount, len(list))
	for i, one := range list {
		var err error
		if mounts[i], err = asMount(one); err != nil {
			return nil, item(i, err)
		}
	}
	return mounts, nil
}

func asMount(v any) (m mount, err error) {
	const what = `"source:target" or "source:target:ro", or a table with source, target and read_only; target is absolute`
	switch v := v.(type) {
	case string:
		// Cut from the right, since a source on Windows has a colon after the
		// drive.
		rest, readOnly := strings.CutSuffix(v, ":ro")
		if !readOnly {
			rest = strings.TrimSuffix(v, ":rw")
		}
		if i := strings.LastIndexByte(rest, ':'); i >= 0 {
			m = mount{source: rest[:i], target: rest[i+1:], readOnly: readOnly}
		}
	case map[string]any:
		err = fields(v, map[string]Value{
			"source":    String(&m.source),
			"target":    String(&m.target),
			"read_only": &Var[bool]{&m.readOnly, asBool},
		})
	}
	if err == nil && (m.source == "" || !path.IsAbs(m.target)) {
		err = Want(what, v)
	}
	return m, err
}

func asPersonas[P any](v any, persona func(name, description string) P) ([]P, error) {
	var list []any
	switch v := v.(type) {
	case Text:
		for _, name := range split(string(v), ',', separator) {
			list = append(list, name)
		}
	case string:
		list = []any{v}
	case []any:
		list = v
	default:
		return nil, Want("an array of personas, each a name or a table with name and description", v)
	}
	personas := make([]P, len(list))
	for i, one := range list {
		name, description, err := asPersona(one)
		if err != nil {
			return nil, item(i, err)
		}
		personas[i] = persona(name, description)
	}
	return personas, nil
}

func asPersona(v any) (name, description string, err error) {
	switch v := v.(type) {
	case string:
		name = v
	case map[string]any:
		err = fields(v, map[string]Value{"name": String(&name), "description": String(&description)})
	}
	if err == nil && name == "" {
		err = Want("a persona: a name, or a table with name and description", v)
	}
	return name, description, err
}

func asObject(v any) (map[string]any, error) {
	const what = "a table of JSON values"
	object, ok := v.(map[string]any)
	if t, isText := v.(Text); isText {
		if json.Unmarshal([]byte(t), &object) != nil || object == nil {
			return nil, Want("a JSON object", v)
		}
		return object, nil
	}
	if !ok {
		return nil, Want(what, v)
	}
	// TOML has numbers that JSON does not have: inf and nan.
	if _, err := json.Marshal(object); err != nil {
		return nil, Want(what, v)
	}
	return object, nil
}

func asHeaders[S ~string](v any) (map[string]S, error) {
	object, err := asObject(v)
	if err != nil {
		return nil, err
	}
	headers := make(map[string]S, len(object))
	for name, value := range object {
		s, ok := value.(string)
		if !ok || name == "" || strings.ContainsAny(name, " :\r\n\t") {
			return nil, entry(name, Want("header names with a string each, in one line", value))
		}
		s, err := pasted.Header(s)
		if err != nil {
			return nil, entry(name, err)
		}
		headers[name] = S(s)
	}
	return headers, nil
}

func asVariables[S ~string](v any) (map[string]S, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, Want("a table of strings", v)
	}
	variables := make(map[string]S, len(object))
	for name, value := range object {
		s, ok := value.(string)
		if !ok || strings.ContainsRune(s, 0) {
			return nil, entry(name, Want("a string", value))
		}
		if !isEnvName(name) || isOurs(name) {
			return nil, entry(name, Want("the name of a command's variable: letters, digits and underscores, not OPENAI_… or PYGENT_…", name))
		}
		variables[name] = S(s)
	}
	return variables, nil
}

// Prices binds a table with the prices of models, each a table of its own. A
// variable has it as a JSON object. Sources add to each other.
func Prices[P any](at *map[string]P, price func(Price) P) Func {
	return merge(at, func(v any) (map[string]P, error) {
		models, err := asPrices(v)
		prices := make(map[string]P, len(models))
		for model, p := range models {
			prices[model] = price(p)
		}
		return prices, err
	})
}

// Price is what a million tokens of a model cost. Zero fields behind Completion
// are not set.
type Price struct{ Prompt, Completion, Cached, CacheWrite, Reasoning float64 }

func asPrices(v any) (map[string]Price, error) {
	object, ok := v.(map[string]any)
	if t, isText := v.(Text); isText {
		var err error
		if object, err = asObject(t); err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, Want("a table for each model", v)
	}
	prices := make(map[string]Price, len(object))
	for _, model := range slices.Sorted(maps.Keys(object)) {
		p, err := asPrice(object[model])
		if err != nil {
			return nil, entry(model, err)
		}
		prices[model] = p
	}
	return prices, nil
}

func asPrice(v any) (p Price, err error) {
	const what = "a table with prompt and completion, each what a million tokens cost, and perhaps cached, cache_write and reasoning"
	table, ok := v.(map[string]any)
	if !ok {
		return p, Want(what, v)
	}
	err = fields(table, map[string]Value{
		"prompt":      &Var[float64]{&p.Prompt, asPriceOfTokens},
		"completion":  &Var[float64]{&p.Completion, asPriceOfTokens},
		"cached":      &Var[float64]{&p.Cached, asPriceOfTokens},
		"cache_write": &Var[float64]{&p.CacheWrite, asPriceOfTokens},
		"reasoning":   &Var[float64]{&p.Reasoning, asPriceOfTokens},
	})
	if err != nil {
		return p, err
	}
	for _, needed := range []string{"prompt", "completion"} {
		if _, given := table[needed]; !given {
			return p, Want(what, v)
		}
	}
	return p, nil
}

func asPriceOfTokens(v any) (float64, error) {
	amount, ok := number(v)
	if !ok || amount < 0 {
		return 0, Want("the price of a million tokens, such as 0.4", v)
	}
	return amount, nil
}

// merge returns a value that adds the entries of each source to a map. An entry
// replaces an earlier one of the same name.
func merge[S any](at *map[string]S, parse func(any) (map[string]S, error)) Func {
	return func(given any) error {
		entries, err := parse(given)
		if err != nil {
			return err
		}
		if *at == nil && len(entries) > 0 {
			*at = make(map[string]S)
		}
		maps.Copy(*at, entries)
		return nil
	}
}
