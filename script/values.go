package script

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/x/pygent/internal/starlimit"
)

// fromGo makes a Starlark value of one that was decoded from JSON with numbers as
// [json.Number].
func fromGo(v any) (starlark.Value, error) {
	switch v := v.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(v), nil
	case string:
		return starlark.String(v), nil
	case json.Number:
		return number(v)
	case []any:
		list := make([]starlark.Value, len(v))
		for i, elem := range v {
			var err error
			if list[i], err = fromGo(elem); err != nil {
				return nil, err
			}
		}
		return starlark.NewList(list), nil
	case map[string]any:
		dict := starlark.NewDict(len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			elem, err := fromGo(v[key])
			if err != nil {
				return nil, err
			}
			if err := dict.SetKey(starlark.String(key), elem); err != nil {
				return nil, err
			}
		}
		return dict, nil
	}
	return nil, fmt.Errorf("no value of a script: %T", v)
}

// number makes an int of a number without a fraction.
func number(n json.Number) (starlark.Value, error) {
	text := n.String()
	if i, err := n.Int64(); err == nil {
		return starlark.MakeInt64(i), nil
	}
	if len(text) < 100 && !strings.ContainsAny(text, ".eE") {
		if i, ok := new(big.Int).SetString(text, 10); ok {
			return starlark.MakeBigInt(i), nil
		}
	}
	f, err := n.Float64()
	return starlark.Float(f), err
}

// Bounds of a value that leaves a script. What is in it many times counts as often.
const (
	maxNested = 50
	maxParts  = 100_000
	maxText   = 8 << 20 // bytes
)

// toGo makes a value of one of a script that can be encoded as JSON: bool, string,
// int64, float64, []any, map[string]any or nil. A number that is no int64 becomes a
// [json.Number].
func toGo(v starlark.Value) (any, error) { return new(export).value(v, 0) }

// export is a value that leaves a script.
type export struct{ parts, text int }

func (e *export) value(v starlark.Value, depth int) (any, error) {
	if err := e.count(v, depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.String:
		return string(v), nil
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, nil
		}
		return json.Number(v.String()), nil
	case starlark.Float:
		if _, err := json.Marshal(float64(v)); err != nil {
			return nil, fmt.Errorf("%s is no number that JSON has", v)
		}
		return float64(v), nil
	case *starlarkstruct.Struct:
		return e.fields(v, depth)
	case starlark.IterableMapping:
		return e.dict(v, depth)
	case starlark.Iterable:
		list := []any{}
		it := v.Iterate()
		defer it.Done()
		for elem := starlark.Value(nil); it.Next(&elem); {
			one, err := e.value(elem, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a %s has no form outside of the script", v.Type())
}

// count adds a part, without those in it.
func (e *export) count(v starlark.Value, depth int) error {
	e.parts++
	switch v := v.(type) {
	case starlark.String:
		e.text += len(v)
	case starlark.Int:
		if _, small := v.Int64(); !small {
			e.text += v.BigInt().BitLen()
		}
	}
	switch {
	case depth > maxNested:
		return fmt.Errorf("the value is nested more than %d levels deep", maxNested)
	case e.parts > maxParts:
		return fmt.Errorf("the value has more than %d parts", maxParts)
	case e.text > maxText:
		return fmt.Errorf("the value has more than %d MiB of text", maxText>>20)
	}
	return nil
}

func (e *export) fields(v *starlarkstruct.Struct, depth int) (any, error) {
	fields := map[string]any{}
	for _, name := range v.AttrNames() {
		field, err := v.Attr(name)
		if err != nil {
			return nil, err
		}
		if fields[name], err = e.value(field, depth+1); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

func (e *export) dict(v starlark.IterableMapping, depth int) (any, error) {
	dict := map[string]any{}
	for _, item := range v.Items() {
		key, ok := starlark.AsString(item[0])
		if !ok {
			return nil, fmt.Errorf("keys must be strings, got %s", item[0].Type())
		}
		e.text += len(key)
		elem, err := e.value(item[1], depth+1)
		if err != nil {
			return nil, err
		}
		dict[key] = elem
	}
	return dict, nil
}

// quote is quote(text): the text as one word of a shell's command line.
func quote(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &text); err != nil {
		return nil, err
	}
	if err := starlimit.Charge(thread, 4*int64(len(text))); err != nil {
		return nil, err
	}
	return starlark.String("'" + strings.ReplaceAll(text, "'", `'\''`) + "'"), nil
}

// record makes a struct of fields.
func record(fields starlark.StringDict) *starlarkstruct.Struct {
	return starlarkstruct.FromStringDict(starlarkstruct.Default, fields)
}

func stringList(list []string) *starlark.List {
	values := make([]starlark.Value, len(list))
	for i, s := range list {
		values[i] = starlark.String(s)
	}
	return starlark.NewList(values)
}

// names reads a list of strings, or one string.
func names(v starlark.Value) ([]string, error) {
	if v == nil || v == starlark.None {
		return nil, nil
	}
	if s, ok := starlark.AsString(v); ok {
		return []string{s}, nil
	}
	list, ok := v.(starlark.Iterable)
	if !ok {
		return nil, fmt.Errorf("want a list of names, got %s", v.Type())
	}
	var all []string
	it := list.Iterate()
	defer it.Done()
	for elem := starlark.Value(nil); it.Next(&elem); {
		s, ok := starlark.AsString(elem)
		if !ok {
			return nil, fmt.Errorf("want a list of names, got a %s in it", elem.Type())
		}
		all = append(all, s)
	}
	return all, nil
}
