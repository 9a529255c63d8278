package pygent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The largest files that become parts of a message, in bytes. A message is sent
// again with each request that follows it.
const (
	maxAttachedText = 256 << 10
	maxAttachedPDF  = 16 << 20
)

// WithParts adds parts to the message with which a run begins: images and files,
// from [Attach] for example. The text of the message comes before them, and may
// be empty. It is an option of one run, and an error for an agent or for
// [Agent.Resume].
func WithParts(parts ...Part) RunOption {
	return runOption(func(o *runOptions) { o.parts = append(o.parts, parts...) })
}

// WithTaskParts adds parts to the prompt of a task, as [WithParts] does to the
// message of a run. They are in the task's spec, and at most 32 MiB together.
func WithTaskParts(parts ...Part) TaskOption {
	return func(o *taskOptions) { o.parts = append(o.parts, parts...) }
}

// WithMessageParts adds parts to a message for a task, as [WithParts] does to the
// message of a run. The text of the message may then be empty.
func WithMessageParts(parts ...Part) SendOption {
	return func(in *taskInput) { in.Parts = append(in.Parts, parts...) }
}

// checkParts returns an error if there are parts but no message to add them to.
func (o *runOptions) checkParts(ofAgent int) error {
	switch {
	case ofAgent > 0:
		return errors.New("WithParts is for one run, not for an agent")
	case o.resume && len(o.parts) > 0:
		return errors.New("WithParts: a resumed run has no new message")
	}
	return nil
}

// Attach reads files of this machine, not of the workspace, and returns a part
// for each, as [FilePart] does. It reads regular files only, and nothing beyond
// the limits of FilePart.
func Attach(paths ...string) ([]Part, error) {
	parts := make([]Part, len(paths))
	for i, path := range paths {
		data, err := readAttachment(path)
		if err != nil {
			return nil, fmt.Errorf("attach %s: %w", path, err)
		}
		if parts[i], err = FilePart(path, data); err != nil {
			return nil, fmt.Errorf("attach %w", err)
		}
	}
	return parts, nil
}

func readAttachment(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, causeOf(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, causeOf(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max(maxImage, maxAttachedPDF)+1))
	return data, causeOf(err)
}

// causeOf returns an error without the path, which the caller names.
func causeOf(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// FilePart returns the content of a file as a part of a message. What it is shows
// in the content, not in the name:
//   - A PNG, JPEG, GIF or WebP image of at most 5 MiB is an image part.
//   - A PDF file of at most 16 MiB is a file part. Not every model takes those.
//   - Text in UTF-8 of at most 256 KiB is a text part, which begins with the name
//     and quotes the text as Markdown does.
//
// Anything else is an error.
func FilePart(name string, data []byte) (Part, error) {
	switch kind := http.DetectContentType(data); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if err := fits(name, "an image", data, maxImage); err != nil {
			return Part{}, err
		}
		return Part{ImageURL: dataURL(kind, data)}, nil
	case "application/pdf":
		if err := fits(name, "a PDF file", data, maxAttachedPDF); err != nil {
			return Part{}, err
		}
		return Part{FileName: filepath.Base(name), FileURL: dataURL(kind, data)}, nil
	default:
		if err := fits(name, "a text", data, maxAttachedText); err != nil {
			return Part{}, err
		}
		if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			return Part{}, fmt.Errorf("%s: neither text in UTF-8 nor an image nor a PDF file (%s)", name, kind)
		}
		return Part{Text: quoteFile(name, string(data))}, nil
	}
}

// fits returns an error for a file that is too large for a message.
func fits(name, what string, data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("%s: a message takes %s of at most %d bytes", name, what, limit)
	}
	return nil
}

func dataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// quoteFile returns a text between fences that are longer than any in it.
func quoteFile(name, text string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	longest, run := 2, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fmt.Sprintf("The file %s:\n%s\n%s\n%s", name, fence, strings.TrimSuffix(text, "\n"), fence)
}
