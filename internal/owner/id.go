package owner

import (
	"crypto/sha256"
	"encoding/hex"
)

// IDOf returns a short id that depends on a text alone.
func IDOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}
