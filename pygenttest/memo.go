package pygenttest

import (
	"encoding/json"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/jsonobj"
)

// memos have what was decoded of a server's requests. Each request of a conversation
// repeats the one before it, so most of it need not be decoded again.
type memos struct {
	messages  memo[pygent.Message]
	items     memo[inputItem]
	chatTools memo[[]chat.ToolSpec]
	tools     memo[[]chat.ToolSpec] // of the Responses API
}

// memo has decoded values by their JSON. It is safe for concurrent use.
type memo[T any] struct {
	mu   sync.Mutex
	kept map[string]decoded[T]
	size int // of the JSON, in bytes
}

// decoded is a JSON value. Others have it too, so nobody changes it.
type decoded[T any] struct {
	plain any // as encoding/json decodes it
	value T   // what it stands for, unless err is set
	err   error
}

// maxMemo is how many bytes of JSON a memo has values of: about ten times a usual
// conversation, and little beside the requests that a server keeps.
const maxMemo = 2 << 20

// of returns the value of valid JSON, which decode makes of it the first time.
func (m *memo[T]) of(raw json.RawMessage, decode func(json.RawMessage) (T, error)) decoded[T] {
	m.mu.Lock()
	d, ok := m.kept[string(raw)]
	m.mu.Unlock()
	if ok {
		return d
	}
	if d.err = json.Unmarshal(raw, &d.plain); d.err == nil {
		d.value, d.err = decode(raw)
	}
	m.keep(raw, d)
	return d
}

// keep adds a value. If that makes too many, the others go.
func (m *memo[T]) keep(raw json.RawMessage, d decoded[T]) {
	if len(raw) > maxMemo/2 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size += len(raw); m.kept == nil || m.size > maxMemo {
		m.kept, m.size = make(map[string]decoded[T]), len(raw)
	}
	m.kept[string(raw)] = d
}

// list returns the elements of an array, and the first error of decoding one.
func (m *memo[T]) list(raw json.RawMessage, decode func(json.RawMessage) (T, error)) (plain []any, values []T, err error) {
	plain = []any{}
	for element := range jsonobj.Elements(raw) {
		d := m.of(element, decode)
		plain, values = append(plain, d.plain), append(values, d.value)
		if err == nil {
			err = d.err
		}
	}
	return plain, values, err
}
