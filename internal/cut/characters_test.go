package cut_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/cut"
)

func TestPiecesKeepWholeCharacters(t *testing.T) {
	for name, tc := range map[string]struct{ piece, head, tail string }{
		"nothing":                 {"", "", ""},
		"whole characters":        {"aé€", "aé€", "aé€"},
		"the start of one":        {"a\xe2\x82", "a", "a\xe2\x82"},
		"the end of one":          {"\x82\xaca", "\x82\xaca", "a"},
		"the middle of one":       {"\x9f\x98", "\x9f\x98", ""},
		"bytes of no character":   {"\xff\xff\xff\xff", "\xff\xff\xff\xff", "\xff\xff\xff\xff"},
		"a start and then others": {"\xe2aa", "\xe2aa", "\xe2aa"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.head, string(cut.TrimEnd([]byte(tc.piece))))
			require.Equal(t, tc.tail, string(cut.TrimStart([]byte(tc.piece))))
		})
	}
}
