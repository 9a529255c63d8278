package chat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/mediabudget"
)

// The largest files that become parts of a message, in bytes. A message is sent again with
// each request that follows it.
const (
	MaxTextPart  = 256 << 10 // a text
	MaxImagePart = 5 << 20
	MaxFilePart  = 16 << 20 // a PDF file or a recording
)

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
	data, err := io.ReadAll(io.LimitReader(f, max(MaxImagePart, MaxFilePart)+1))
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
//   - A PDF file of at most 16 MiB is a file part, and a WAV or MP3 recording of
//     that size an audio part. Not every model takes those.
//   - Text in UTF-8 of at most 256 KiB is a text part, which begins with the name
//     and quotes the text as Markdown does.
//
// Anything else is an error.
func FilePart(name string, data []byte) (Part, error) {
	switch kind := mediabudget.MediaType(data); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if err := fits(name, "an image", data, MaxImagePart); err != nil {
			return Part{}, err
		}
		return Part{ImageURL: mediabudget.DataURL(kind, data)}, nil
	case "application/pdf":
		if err := fits(name, "a PDF file", data, MaxFilePart); err != nil {
			return Part{}, err
		}
		return Part{FileName: filepath.Base(name), FileURL: mediabudget.DataURL(kind, data)}, nil
	case "audio/wav", "audio/mpeg":
		if err := fits(name, "a recording", data, MaxFilePart); err != nil {
			return Part{}, err
		}
		return Part{AudioURL: mediabudget.DataURL(kind, data)}, nil
	default:
		if err := fits(name, "a text", data, MaxTextPart); err != nil {
			return Part{}, err
		}
		if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			return Part{}, fmt.Errorf("%s: neither text in UTF-8 nor an image, a PDF file or a recording (%s)", name, kind)
		}
		return Part{Text: filetext.Quote(name, string(data))}, nil
	}
}

// fits returns an error for a file that is too large for a message.
func fits(name, what string, data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("%s: a message takes %s of at most %d bytes", name, what, limit)
	}
	return nil
}
