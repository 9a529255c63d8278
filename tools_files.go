package pygent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/x/pygent/internal/edit"
)

type writeInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func writeFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	result := &ToolResult{Content: fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), Locations: []Location{{Path: in.Path}}}
	var former formerText
	told := tellsChanges(ctx)
	if told {
		former = readFormer(ctx, rt, in.Path)
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(in.Content)); err != nil {
		return nil, err
	}
	if told {
		result.Changes = []FileChange{former.becomes(in.Path, in.Content)}
	}
	return result, nil
}

type editInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	OldText string `json:"old_text" jsonschema:"the exact text to replace; it must occur exactly once"`
	NewText string `json:"new_text" jsonschema:"what to put in its place"`
}

func editFile(ctx context.Context, rt Runtime, in editInput) (*ToolResult, error) {
	if in.OldText == "" {
		return nil, errors.New("old_text is empty; use write_file to create a file")
	}
	if in.OldText == in.NewText {
		return nil, errors.New("old_text and new_text are the same; nothing to do")
	}
	data, err := rt.ReadFile(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	edited, line, err := edit.ReplaceOnce(string(data), in.OldText, in.NewText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Path, err)
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(edited)); err != nil {
		return nil, err
	}
	result := &ToolResult{Content: fmt.Sprintf("edited %s at line %d", in.Path, line), Locations: []Location{{Path: in.Path, Line: line}}}
	if tellsChanges(ctx) {
		result.Changes = []FileChange{formerText{data: data}.becomes(in.Path, edited)}
	}
	return result, nil
}

type imageInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
}

func readImage(ctx context.Context, rt Runtime, in imageInput) (*ToolResult, error) {
	data, size, err := readRange(ctx, rt, in.Path, 0, maxImage+1)
	if err != nil {
		return nil, err
	}
	if size > maxImage {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that can be shown; make a smaller copy", in.Path, size, maxImage)
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%s is not a PNG, JPEG, GIF or WebP image (%s)", in.Path, kind)
	}
	return &ToolResult{
		Content: fmt.Sprintf("the image %s (%s, %d bytes) follows", in.Path, kind, size),
		Images:  []string{"data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)},
	}, nil
}
