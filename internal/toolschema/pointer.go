package toolschema

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// lookup returns the part of a document that a JSON Pointer refers to. The
// pointer is escaped as in the fragment of a URI.
func lookup(document json.RawMessage, pointer string) (json.RawMessage, error) {
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, err
	}
	part := document
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // before the first slash
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		next, ok := child(part, token)
		if !ok {
			return nil, fmt.Errorf("there is no %q", token)
		}
		part = next
	}
	return part, nil
}

func child(part json.RawMessage, token string) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(part, &object) == nil {
		value, ok := object[token]
		return value, ok
	}
	var list []json.RawMessage
	i, err := strconv.Atoi(token)
	if err != nil || json.Unmarshal(part, &list) != nil || i < 0 || i >= len(list) {
		return nil, false
	}
	return list[i], true
}
