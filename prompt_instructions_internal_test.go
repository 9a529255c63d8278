package pygent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileRuntime is a runtime with a single file.
type fileRuntime struct {
	Runtime
	data []byte
	err  error
}

func (r fileRuntime) ReadFile(_ context.Context, path string) ([]byte, error) {
	if path != "AGENTS.md" {
		return nil, fs.ErrNotExist
	}
	return r.data, r.err
}

// rangeRuntime is a runtime that can read parts of its file. Reading the whole
// file fails.
type rangeRuntime struct{ fileRuntime }

func (r rangeRuntime) ReadFile(context.Context, string) ([]byte, error) {
	return nil, errors.New("the whole file was asked for")
}

func (r rangeRuntime) ReadFileRange(_ context.Context, _ string, offset, limit int64) ([]byte, int64, error) {
	size := int64(len(r.data))
	return r.data[min(offset, size):min(offset+limit, size)], size, r.err
}

func TestReadInstructions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 32<<10-1) + "é" + strings.Repeat("b", 99)
	tests := []struct {
		name string
		data string
		err  error
		want string
		warn string
	}{
		{"text", "\n Use tabs.\n\n", nil, "Use tabs.", ""},
		{"missing", "", fs.ErrNotExist, "", ""},
		{"cut inside a character", long, nil, strings.Repeat("a", 32<<10-1) + "\n[cut: the first 32768 of 32868 bytes]",
			"the model is told the first 32768 of the 32868 bytes of AGENTS.md"},
		{"not UTF-8", "a\xffb", nil, "ab", "AGENTS.md: some of it is not UTF-8: the model is told the rest"},
		{"line ends", "\ufeffa\r\nb\rc", nil, "a\nb\nc", ""},
		{"hidden text", "Use tabs.\U000e0041\u202e\x1b[8m", nil, "Use tabs.[8m", "AGENTS.md: it has characters that nobody sees: the model is told the rest"},
		{"binary data", "a\x00b", nil, "", "the model is not told what AGENTS.md says: it is binary data"},
		{"UTF-16", "\xff\xfea\x00", nil, "", "the model is not told what AGENTS.md says: it is text in UTF-16LE"},
		{"broken", "", errors.New("broken"), "", "the model is not told what AGENTS.md says: broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			whole := fileRuntime{data: []byte(test.data), err: test.err}
			for _, rt := range []Runtime{whole, rangeRuntime{whole}} {
				text, warning, err := readInstructions(t.Context(), rt)
				require.NoError(t, err)
				require.Equal(t, test.want, text)
				require.Equal(t, test.warn, warning)
			}
		})
	}
	_, _, err := readInstructions(t.Context(), fileRuntime{err: ErrRuntimeClosed})
	require.ErrorIs(t, err, ErrRuntimeClosed)
}
