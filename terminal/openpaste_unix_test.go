//go:build !windows

package terminal

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chunks reads one text after the other.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	*c = (*c)[1:]
	return n, nil
}

func TestCtrlCEndsAPasteWithoutAnEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		chunks chunks
		want   string
	}{
		"no end":             {chunks{"a\x1b[200~b", "c", "\x03"}, "a\x1b[200~bc\x1b[201~\x03"},
		"another form":       {chunks{"\x1b[200~b", "\x1b[99;69u", "d"}, "\x1b[200~b\x1b[201~\x1b[99;69ud"},
		"a mark in pieces":   {chunks{"\x1b[20", "0~", "x", "\x03"}, "\x1b[200~x\x1b[201~\x03"},
		"an end in pieces":   {chunks{"\x1b[200~x\x1b[2", "01", "~", "\x03"}, "\x1b[200~x\x1b[201~\x03"},
		"once":               {chunks{"\x1b[200~", "\x03", "\x03"}, "\x1b[200~\x1b[201~\x03\x03"},
		"a second begin":     {chunks{"\x1b[200~a\x1b[201~\x1b[200~b", "\x03"}, "\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~\x03"},
		"an end":             {chunks{"\x1b[200~a\x1b[201~", "\x03"}, "\x1b[200~a\x1b[201~\x03"},
		"no paste":           {chunks{"a", "\x03"}, "a\x03"},
		"in what was pasted": {chunks{"\x1b[200~a\x03b", "c"}, "\x1b[200~a\x03bc"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			r := &pasteReader{Reader: &tt.chunks}
			for buf := make([]byte, 4096); ; {
				n, err := r.Read(buf)
				b.Write(buf[:n])
				if err != nil {
					break
				}
			}
			require.Equal(t, tt.want, b.String())
		})
	}
}
