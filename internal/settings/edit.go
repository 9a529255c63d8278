package settings

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// errByHand is returned for a document that this package cannot change without
// the risk of changing something else.
var errByHand = errors.New("it is written in a way that only its author can change")

// edit adds values to the list table.key of a document. It returns the document
// unchanged if it has all of them. Everything else stays as it is written,
// comments included.
func edit(doc []byte, table, key string, values []string) ([]byte, error) {
	before, err := listOf(doc, table, key)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, v := range values {
		if !slices.Contains(before, v) && !slices.Contains(missing, v) {
			missing = append(missing, v)
		}
	}
	if len(missing) == 0 {
		return doc, nil
	}
	p, err := find(doc, table, key)
	if err != nil {
		return nil, err
	}
	edited := p.insert(doc, table, key, missing)
	if err := check(doc, edited, table, key, append(before, missing...)); err != nil {
		return nil, err
	}
	return edited, nil
}

// place has the offsets in a document at which values can be added to a list, or
// the list to a table. An offset of zero was not found. Only a dotted key can be
// at the beginning of a document, so one is added to its offset.
type place struct {
	item    int    // the end of the list's last string
	bracket int    // after the opening bracket of the list
	single  [2]int // the beginning and the end of a string that is not in a list
	header  int    // the end of the table's name in [table]
	dotted  int    // the beginning of table.other = … outside of any table, plus one
}

// find looks for the list in a valid document.
func find(doc []byte, table, key string) (p place, err error) {
	parser := unstable.Parser{}
	parser.Reset(doc)
	in := ""
	for parser.NextExpression() {
		node := parser.Expression()
		path, first, last := keyOf(node)
		switch {
		case node.Kind == unstable.Table && path == table:
			p.header, in = last, table
		case node.Kind != unstable.KeyValue:
			in = "\x00" // another table
		case in == table && path == key, in == "" && path == table+"."+key:
			err := p.value(doc, node.Value(), last)
			return p, err
		case in == "" && p.dotted == 0 && strings.HasPrefix(path, table+"."):
			p.dotted = first + 1
		}
	}
	return p, parser.Error()
}

// keyOf returns the dotted key of an expression, and where it begins and ends.
func keyOf(node *unstable.Node) (path string, first, last int) {
	if node.Kind != unstable.KeyValue && node.Kind != unstable.Table {
		return "", 0, 0
	}
	var parts []string
	for it := node.Key(); it.Next(); {
		part := it.Node()
		if parts == nil {
			first = int(part.Raw.Offset)
		}
		last = int(part.Raw.Offset + part.Raw.Length)
		parts = append(parts, string(part.Data))
	}
	return strings.Join(parts, "."), first, last
}

// value records where a string can be added to a value.
func (p *place) value(doc []byte, value *unstable.Node, keyEnd int) error {
	switch value.Kind {
	case unstable.String:
		p.single = [2]int{int(value.Raw.Offset), int(value.Raw.Offset + value.Raw.Length)}
		return nil
	case unstable.Array:
		for it := value.Children(); it.Next(); {
			if item := it.Node(); item.Kind == unstable.String {
				p.item = int(item.Raw.Offset + item.Raw.Length)
			}
		}
		open := bytes.IndexByte(doc[keyEnd:], '[')
		if open < 0 {
			return errByHand
		}
		p.bracket = keyEnd + open + 1
		return nil
	}
	return errByHand
}

// insert returns a copy of the document with the values added at the place.
func (p *place) insert(doc []byte, table, key string, values []string) []byte {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	list := strings.Join(quoted, ", ")
	end := "\n"
	if bytes.Contains(doc, []byte("\r\n")) {
		end = "\r\n"
	}
	switch {
	case p.single[1] > 0:
		old := string(doc[p.single[0]:p.single[1]])
		return splice(doc, p.single[0], p.single[1], "["+old+", "+list+"]")
	case p.item > 0:
		return splice(doc, p.item, p.item, ", "+list)
	case p.bracket > 0:
		return splice(doc, p.bracket, p.bracket, list)
	case p.header > 0:
		if i := bytes.IndexByte(doc[p.header:], '\n'); i >= 0 {
			at := p.header + i + 1
			return splice(doc, at, at, fmt.Sprintf("%s = [%s]%s", key, list, end))
		}
		return fmt.Appendf(slices.Clone(doc), "%s%s = [%s]%s", end, key, list, end)
	case p.dotted > 0:
		at := bytes.LastIndexByte(doc[:p.dotted-1], '\n') + 1
		return splice(doc, at, at, fmt.Sprintf("%s.%s = [%s]%s", table, key, list, end))
	}
	gap := ""
	if len(doc) > 0 {
		gap = end
		if doc[len(doc)-1] != '\n' {
			gap += end
		}
	}
	return fmt.Appendf(slices.Clone(doc), "%s[%s]%s%s = [%s]%s", gap, table, end, key, list, end)
}

// splice replaces doc[from:to] by text, in a copy.
func splice(doc []byte, from, to int, text string) []byte {
	return slices.Concat(doc[:from], []byte(text), doc[to:])
}

// listOf returns the list table.key of a document.
func listOf(doc []byte, table, key string) ([]string, error) {
	whole, err := decode(doc)
	if err != nil {
		return nil, err
	}
	below, ok := whole[table].(map[string]any)
	if !ok && whole[table] != nil {
		return nil, errByHand
	}
	switch v := below[key].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		var list []string
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, errByHand
			}
			list = append(list, s)
		}
		return list, nil
	}
	return nil, errByHand
}

// check makes sure that a document was changed as meant and not otherwise.
func check(doc, edited []byte, table, key string, want []string) error {
	list, err := listOf(edited, table, key)
	if err != nil || !slices.Equal(list, want) {
		return errByHand
	}
	before, err := without(doc, table, key)
	if err != nil {
		return err
	}
	after, err := without(edited, table, key)
	if err != nil || !reflect.DeepEqual(before, after) {
		return errByHand
	}
	return nil
}

// without decodes a document and leaves out the list, and its table if that
// holds nothing else.
func without(doc []byte, table, key string) (map[string]any, error) {
	whole, err := decode(doc)
	if below, ok := whole[table].(map[string]any); ok {
		if delete(below, key); len(below) == 0 {
			delete(whole, table)
		}
	}
	return whole, err
}

func decode(doc []byte) (map[string]any, error) {
	whole := map[string]any{}
	if err := toml.Unmarshal(doc, &whole); err != nil {
		return nil, fmt.Errorf("bad TOML: %w", err)
	}
	return whole, nil
}
