package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"
)

const (
	instructionsFile = "AGENTS.md"
	instructionsTag  = "project_instructions"
	maxInstructions  = 32 << 10 // bytes
)

// readInstructions returns the text of AGENTS.md in the workspace's root. At 32
// KiB it is cut, and a line says so. Without such a file the text is empty. A
// file that is malformed, or cannot be read, causes a warning but no error,
// because the project controls the workspace.
func readInstructions(ctx context.Context, rt Runtime) (text, warning string, err error) {
	data, size, err := readHead(ctx, rt, instructionsFile, maxInstructions)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case ctx.Err() != nil, errors.Is(err, ErrRuntimeClosed), errors.Is(err, ErrRuntimeStart), errors.Is(err, ErrRuntimeLost):
		return "", "", err
	case err != nil:
		return "", "the model is not told what " + instructionsFile + " says: " + err.Error(), nil
	}
	whole := string(data)
	if size > int64(len(data)) {
		whole = dropPart(whole)
		warning = fmt.Sprintf("the model is told the first %d of the %d bytes of %s", len(data), size, instructionsFile)
	}
	text = strings.TrimSpace(strings.ToValidUTF8(whole, ""))
	if !utf8.ValidString(whole) {
		warning = instructionsFile + " is not UTF-8: the model is told what of it is"
	}
	if size > int64(len(data)) {
		text += fmt.Sprintf("\n[cut: the first %d of %d bytes]", len(data), size)
	}
	return text, warning, nil
}

// dropPart removes the last character of s if a cut has left only a part of it.
func dropPart(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if tail := s[len(s)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

// readHead returns at most limit bytes of a file and its total size.
func readHead(ctx context.Context, rt Runtime, path string, limit int) ([]byte, int64, error) {
	if r, ok := RuntimeAs[RangeReader](rt); ok {
		data, size, err := r.ReadFileRange(ctx, path, 0, int64(limit))
		return data[:min(len(data), limit)], size, err
	}
	data, err := rt.ReadFile(ctx, path)
	return data[:min(len(data), limit)], int64(len(data)), err
}
