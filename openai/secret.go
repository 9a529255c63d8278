package openai

import (
	"fmt"
	"log/slog"
)

// Secret is text that must not be shown: a key, or a header's value. However it
// is printed, logged or encoded, it reads "[redacted]". Convert it to string to
// use it.
type Secret string

const redacted = "[redacted]"

// String reports that there is a secret, without showing it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format prints the same for every verb, so that no verb shows the secret.
func (s Secret) Format(f fmt.State, verb rune) {
	// There is nowhere to report an error of writing to f.
	_, _ = fmt.Fprint(f, s.String())
}

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText makes encoders, JSON's among them, write "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
