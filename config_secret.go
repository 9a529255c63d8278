package pygent

import (
	"fmt"
	"log/slog"
)

// Secret is a text that must not be seen: a key, or a header's value. However
// it is printed, logged or encoded, it says "[redacted]"; convert it to string
// to use it.
type Secret string

const redacted = "[redacted]"

// String says that the secret is there, not what it is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format prints the same for every verb, so that none gives the secret away.
func (s Secret) Format(f fmt.State, verb rune) {
	// An error of f is fmt's own to keep.
	_, _ = fmt.Fprint(f, s.String())
}

// LogValue is what log/slog shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what encoders write, JSON among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
