package pygent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/filetext"
)

type writeInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	Content string `json:"content"`
	Append  bool   `json:"append,omitempty" jsonschema:"add content to the end"`
}

func writeFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	if in.Append {
		return appendFile(ctx, rt, in)
	}
	former := readFormer(ctx, rt, in.Path)
	if err := rt.WriteFile(ctx, in.Path, []byte(in.Content)); err != nil {
		return nil, err
	}
	return written(ctx, in.Path, former, in.Content, former.replacedBy(in.Path, in.Content)), nil
}

// appendFile writes the file anew with more at its end, since that is what every
// runtime can do.
func appendFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	data, err := rt.ReadFile(ctx, in.Path)
	former := formerText{data: data, size: int64(len(data)), missing: errors.Is(err, fs.ErrNotExist)}
	if errors.Is(err, ErrFileTooLarge) {
		return nil, fmt.Errorf("%s is too long to be written anew; append with cat >> in bash", in.Path)
	}
	if err != nil && !former.missing {
		return nil, fmt.Errorf("%w; append with cat >> in bash", err)
	}
	after, said, err := in.appended(former)
	if err != nil {
		return nil, err
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(after)); err != nil {
		return nil, err
	}
	return written(ctx, in.Path, former, after, said), nil
}

// appended returns the text of a file after the call, and what to say of it. What
// is added gets the line ends of the file.
func (in writeInput) appended(former formerText) (after, said string, err error) {
	if name := filetext.EncodingNotEdited(former.data); name != "" {
		return "", "", fmt.Errorf("%s is text in %s, to which UTF-8 cannot be added; convert it with iconv in bash", in.Path, name)
	}
	added := edit.LineEndsOf(string(former.data), in.Content)
	after = string(former.data) + added
	if former.missing {
		return after, fmt.Sprintf("created %s with %s", in.Path, extent(after)), nil
	}
	said = fmt.Sprintf("appended %s to %s, which now has %s", filetext.Count(len(added), "byte"), in.Path, extent(after))
	if n := len(former.data); n > 0 && former.data[n-1] != '\n' {
		said += "; it had no newline at its end, so that the text goes on in the last line"
	}
	return after, said, nil
}

// extent tells how long a text is.
func extent(text string) string {
	return fmt.Sprintf("%s (%s)", filetext.Count(len(text), "byte"), filetext.Count(filetext.LineCount(text), "line"))
}

// written is the result of a call that has changed a file.
func written(ctx context.Context, path string, former formerText, after, said string) *ToolResult {
	result := &ToolResult{Content: said, Locations: []Location{{Path: path}}}
	if tellsChanges(ctx) {
		result.Changes = []FileChange{former.becomes(path, after)}
		result.Display = withDiff(said, result.Changes[0])
	}
	return result
}

type editInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
	pieceInput
	Edits []pieceInput `json:"edits,omitempty" jsonschema:"several edits, made in order; all or none"`
}

// pieceInput is one edit of a file.
type pieceInput struct {
	OldText    string  `json:"old_text,omitempty"`
	NewText    *string `json:"new_text,omitempty"` // one that is missing is not an empty one
	ReplaceAll bool    `json:"replace_all,omitempty"`
}

// isEmpty reports whether there is nothing in an edit.
func (p pieceInput) isEmpty() bool {
	return p.OldText == "" && (p.NewText == nil || *p.NewText == "") && !p.ReplaceAll
}

func (p pieceInput) edit() edit.Edit {
	e := edit.Edit{Old: p.OldText, All: p.ReplaceAll}
	if p.NewText != nil {
		e.New = *p.NewText
	}
	return e
}

// pieces returns the edits that are given, in order.
func (in editInput) pieces() []pieceInput {
	if in.isEmpty() && len(in.Edits) > 0 {
		return in.Edits
	}
	return append([]pieceInput{in.pieceInput}, in.Edits...)
}

// edits returns what to replace, in order.
func (in editInput) edits() []edit.Edit {
	pieces := in.pieces()
	edits := make([]edit.Edit, len(pieces))
	for i, p := range pieces {
		edits[i] = p.edit()
	}
	return edits
}

// check refuses edits that cannot be meant. A new text that was forgotten would
// delete the old one.
func (in editInput) check() error {
	if err := edit.Check(in.edits()); err != nil {
		return err
	}
	for _, p := range in.pieces() {
		if p.NewText == nil {
			return fmt.Errorf("new_text is missing for old_text %.60q; to delete that, give an empty new_text", p.OldText)
		}
	}
	return nil
}

func editFile(ctx context.Context, rt Runtime, in editInput) (*ToolResult, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	data, err := rt.ReadFile(ctx, in.Path)
	if errors.Is(err, ErrFileTooLarge) {
		return nil, fmt.Errorf("%s is too long for edit_file; change it with sed or a script in bash", in.Path)
	}
	if err != nil {
		return nil, withNearName(ctx, rt, in.Path, err)
	}
	edited, err := in.apply(data)
	if err != nil {
		return nil, err
	}
	// A runtime cannot replace a file only if it is still the same: a change that
	// somebody else makes between reading and writing is lost.
	if err := rt.WriteFile(ctx, in.Path, []byte(edited.Text)); err != nil {
		return nil, err
	}
	said := fmt.Sprintf("edited %s %s", in.Path, edited.Where)
	if edited.Count > 1 {
		said = fmt.Sprintf("edited %s: %s, %s", in.Path, filetext.Count(edited.Count, "replacement"), edited.Where)
	}
	for _, note := range edited.Notes {
		said += "; " + note
	}
	result := written(ctx, in.Path, formerText{data: data}, edited.Text, said)
	result.Content += "\n" + edited.Shown
	result.Locations[0].Line = edited.Line
	return result, nil
}

// apply makes the edits in a file's content.
func (in editInput) apply(data []byte) (edit.Applied, error) {
	if name := filetext.EncodingNotEdited(data); name != "" {
		return edit.Applied{}, fmt.Errorf("%s is text in %s, which edit_file cannot change; convert it with iconv in bash", in.Path, name)
	}
	edited, err := edit.Apply(string(data), in.edits())
	if err != nil {
		return edited, fmt.Errorf("%s: %w", in.Path, err)
	}
	return edited, nil
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
