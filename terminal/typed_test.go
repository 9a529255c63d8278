package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/stretchr/testify/require"
)

// typedKeys are the keys of a text that comes at once.
func typedKeys(text string, at time.Time) (keys []key) {
	for _, r := range text {
		e := uv.KeyPressEvent{Code: r, Text: string(r)}
		if r == '\n' {
			e = uv.KeyPressEvent{Code: uv.KeyEnter}
		}
		keys = append(keys, key{e, at})
	}
	return keys
}

// takesKeys gives keys to a session without a screen, and returns that.
func takesKeys(keys []key) *session {
	s := &session{tty: &tty{keys: make(chan key, keysAhead)}}
	s.input.history = &inputHistory{}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for _, k := range keys {
			s.tty.keys <- k
		}
	}()
	for {
		select {
		case k := <-s.tty.keys:
			s.keys(k)
			continue
		case <-fed:
		}
		if len(s.tty.keys) == 0 {
			return s
		}
	}
}

func TestKeysThatComeAtOnceBecomeTheDraft(t *testing.T) {
	for name, text := range map[string]string{
		"a line":         strings.Repeat("word ", 30) + "end",
		"lines":          strings.Repeat("a line\n\n\tanother\n", 100) + "end",
		"many blocks":    strings.Repeat("0123456789", 20_000) + "end",
		"other scripts":  strings.Repeat("grüß 日本 ", 50) + "end",
		"empty lines":    strings.Repeat("\n", 500) + "end",
		"a long content": strings.Repeat("x\n", 50_000) + "end",
	} {
		t.Run(name, func(t *testing.T) {
			s := takesKeys(typedKeys(text, time.Now()))
			require.Equal(t, text, s.input.editor.message())
			require.Zero(t, s.input.submitAt)
		})
	}
	s := takesKeys(typedKeys(strings.Repeat("word ", 30)+"\n", time.Now()))
	require.NotZero(t, s.input.submitAt, "an Enter at the end may send it")
	require.NotContains(t, s.input.editor.message(), "\n")
}

func BenchmarkKeysOfAPaste(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		keys := typedKeys(strings.Repeat(strings.Repeat("x", 79)+"\n", size/80), time.Now())
		b.Run(fmt.Sprint(size>>10, " KiB"), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				takesKeys(keys)
			}
		})
	}
}
