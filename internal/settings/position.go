package settings

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
)

// positions has the place of each key in a document: its offset in bytes by its
// full path, as "limits.max_steps" or "container.mounts[1].source".
type positions struct {
	data    []byte
	offsets map[string]int
	lines   map[string]int // of a source that is no document: the line of each key
	arrays  map[string]int // how many [[tables]] of a name there are so far
}

// locate finds the position of each key. The decoder does not expose it, so this
// uses the parser below it.
func locate(data []byte) positions {
	at := positions{data: data, offsets: make(map[string]int), arrays: make(map[string]int)}
	p := unstable.Parser{}
	p.Reset(data)
	prefix := ""
	for p.NextExpression() {
		switch node := p.Expression(); node.Kind {
		case unstable.Table:
			prefix = at.key("", node.Key(), at.arrays)
		case unstable.ArrayTable:
			key := at.key("", node.Key(), nil)
			prefix = fmt.Sprintf("%s[%d]", key, at.arrays[key])
			at.offsets[prefix] = lastOffset(node.Key())
			at.arrays[key]++
		case unstable.KeyValue:
			at.entry(prefix, node)
		}
	}
	return at
}

// of returns the line and the column, in bytes, of a key.
func (p positions) of(key string) (line, column int) {
	if p.data == nil {
		return max(p.lines[key], 1), 1
	}
	offset := p.offsets[key]
	before := p.data[:offset]
	return bytes.Count(before, []byte("\n")) + 1, offset - bytes.LastIndexByte(before, '\n')
}

// entry records a key and the keys in its value.
func (p positions) entry(prefix string, entry *unstable.Node) {
	p.value(p.key(prefix, entry.Key(), nil), entry.Value())
}

// value records the keys in an inline table and the items of an array.
func (p positions) value(key string, value *unstable.Node) {
	switch value.Kind {
	case unstable.InlineTable:
		for it := value.Children(); it.Next(); {
			p.entry(key, it.Node())
		}
	case unstable.Array:
		n := 0
		for it := value.Children(); it.Next(); {
			if item := it.Node(); item.Kind != unstable.Comment {
				itemKey := fmt.Sprintf("%s[%d]", key, n)
				if item.Raw.Length > 0 { // the parser does not give every kind of value a place
					p.offsets[itemKey] = int(item.Raw.Offset)
				}
				p.value(itemKey, item)
				n++
			}
		}
	}
}

// key records where each part of a dotted key is first used, and returns the
// full key. A part that names one of the arrays stands for its last table.
func (p positions) key(prefix string, parts unstable.Iterator, arrays map[string]int) string {
	key := prefix
	for parts.Next() {
		part := parts.Node()
		key = joinKey(key, quoteKey(string(part.Data)))
		if _, ok := p.offsets[key]; !ok {
			p.offsets[key] = int(part.Raw.Offset)
		}
		if n := arrays[key]; n > 0 {
			key = fmt.Sprintf("%s[%d]", key, n-1)
		}
	}
	return key
}

// lastOffset returns the offset of the last part of a dotted key.
func lastOffset(parts unstable.Iterator) int {
	offset := 0
	for parts.Next() {
		offset = int(parts.Node().Raw.Offset)
	}
	return offset
}

func joinKey(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// quoteKey returns a part of a key as TOML writes it, so that a quoted "a.b" is
// never taken for b in the table a.
func quoteKey(name string) string {
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return strconv.Quote(name)
		}
	}
	return cmp.Or(name, `""`)
}
