//go:build !windows

package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACharacterInPiecesIsReadAsAWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		chunks chunks
		want   []string
	}{
		"whole":              {chunks{"a", "日", "b"}, []string{"a", "日", "b"}},
		"two pieces":         {chunks{"a\xe6", "\x97\xa5b"}, []string{"a", "日b"}},
		"byte by byte":       {chunks{"\xf0", "\x9f", "\x99", "\x82", "x"}, []string{"🙂", "x"}},
		"one after another":  {chunks{"\xc3", "\xbc\xe6", "\x97\xa5"}, []string{"ü", "日"}},
		"no character":       {chunks{"\xe6x", "y\x97", "z"}, []string{"\xe6x", "y\x97", "z"}},
		"one that never was": {chunks{"\xe6", "x"}, []string{"\xe6x"}},
		"the end within one": {chunks{"a\xe6\x97"}, []string{"a", "\xe6\x97"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runeReader{in: &tt.chunks}
			var got []string
			for buf := make([]byte, 64); ; {
				n, err := r.Read(buf)
				if n > 0 {
					got = append(got, string(buf[:n]))
				}
				if err != nil {
					break
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}
