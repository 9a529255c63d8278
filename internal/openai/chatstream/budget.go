package chatstream

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/x/pygent/internal/jsonobj"
)

// Limits of one answer. They are far above what models write, and keep a
// misbehaving server from filling the memory.
const (
	maxSize    = 16 << 20 // bytes of all that is kept
	maxCalls   = 256
	maxName    = 1 << 10 // bytes of a tool's name
	maxItems   = 4096    // how far back the piece of an array's element is looked for
	maxChoices = 128     // of one chunk
	maxFields  = 256     // of one object
	maxDepth   = 100     // of nested values

	maxServerError = 256 << 10 // bytes of an error object
)

// Costs of the structures around what is kept, in addition to its bytes.
const (
	costOfField = 256
	costOfItem  = 256
	costOfValue = 64 // of each within a large value, once something decodes it

	freeValues = 32 // of a chunk; what models write has few
)

// budget counts how much of [maxSize] an answer has used. Every piece that is
// kept is counted, together with the structures around it, so the budget bounds
// memory.
type budget struct {
	used     int
	progress int // bytes of content, reasoning and arguments among it
}

func (b *budget) spend(n int) error {
	if b.used += n; b.used > maxSize {
		return fmt.Errorf("%w: more than %d MiB are to be kept of it", ErrTooLarge, maxSize>>20)
	}
	return nil
}

// spendOn counts a message, or a piece of one, as it was sent.
func (b *budget) spendOn(raw json.RawMessage) error {
	cost := len(raw)
	if len(raw) > freeValues { // or it has no more values either
		cost += costOfValue * max(0, jsonobj.Values(raw)-freeValues)
	}
	return b.spend(cost)
}

func tooMany(what string, limit int) error {
	return fmt.Errorf("%w: more than %d %s", ErrTooLarge, limit, what)
}

// Check reports whether data is JSON that is not nested more deeply than
// answers are. The error is [ErrMalformed] or [ErrTooLarge].
func Check(data []byte) error { return check(data, nil) }

// check is Check, which also calls member for each member of an object.
func check(data []byte, member func(name []byte, value json.RawMessage)) error {
	err := jsonobj.CheckMembers(data, maxDepth, member)
	switch {
	case errors.Is(err, jsonobj.ErrDeep):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// NewServerError returns the error for an error object. It keeps only the
// beginning of a large one.
func NewServerError(body []byte) *ServerError {
	return &ServerError{Body: append(json.RawMessage(nil), body[:min(len(body), maxServerError)]...)}
}
