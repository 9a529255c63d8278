// Package mention reads the files of a workspace that a message mentions, so that they go along
// with it: a file as a part that a model takes, a directory as its listing, and what cannot go
// along as a sentence that says so.
package mention

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/numeral"
)

// Files are those of a workspace.
type Files interface {
	// Meant returns the path that a name stands for.
	Meant(ctx context.Context, name string) (string, error)
	// Read reads at most limit bytes of a file, and says how large it is.
	Read(ctx context.Context, name string, limit int64) ([]byte, int64, error)
	// List lists a directory. The error is errors.ErrUnsupported where that cannot be done.
	List(ctx context.Context, name string, most int) (entries []filetext.Entry, more bool, err error)
	// IsOutside reports whether an error says that a name leads out of the workspace.
	IsOutside(err error) bool
}

// Found is what became of the names: the parts, and what is no file.
type Found struct {
	Parts   []chat.Part
	Missing []string
}

// Attach reads files. Each element of names is a list of the names that may be meant.
func Attach(ctx context.Context, names [][]string, files Files) Found {
	m := mentioned{files: files}
	m.read(ctx, names)
	return m.Found
}

// Bounds of the files that a message mentions. What is larger than chat.MaxTextPart
// is read only if its beginning shows that it is no text.
const (
	maxBytes   = 24 << 20
	maxEntries = 500     // of a directory
	maxListing = 8 << 10 // bytes
)

// mentioned collects the files that a message mentions.
type mentioned struct {
	files Files
	Found
}

// read reads the files that a message mentions. Each is a list of the names that
// may be meant.
func (m *mentioned) read(ctx context.Context, names [][]string) {
	total := 0
	seen := map[string]bool{}
	for _, meant := range names {
		exists := false
		for _, name := range meant {
			if exists = seen[path.Clean(name)]; exists {
				break
			}
			part, ok := m.file(ctx, name)
			if !ok {
				continue
			}
			seen[path.Clean(name)], exists = true, true
			if size := len(part.Text) + len(part.MediaURL()); total+size > maxBytes {
				part = leftOut(name, "there is no room for it in this message")
			} else {
				total += size
			}
			m.Parts = append(m.Parts, part)
			break
		}
		if !exists {
			m.Missing = append(m.Missing, escape.Name(meant[len(meant)-1]))
		}
	}
}

// file reads a file or directory. It reports false if there is none that can be
// meant.
func (m *mentioned) file(ctx context.Context, name string) (chat.Part, bool) {
	meant, err := m.files.Meant(ctx, name)
	if err != nil {
		return chat.Part{}, false
	}
	name = meant
	data, size, err := m.files.Read(ctx, name, chat.MaxTextPart)
	if err != nil {
		return m.directory(ctx, name, err)
	}
	if size > chat.MaxTextPart {
		if size > chat.MaxFilePart || !isMedia(data) {
			return leftOut(name, "it is too large ("+numeral.Bytes(size)+")"), true
		}
		if data, size, err = m.files.Read(ctx, name, chat.MaxFilePart); err != nil || size > chat.MaxFilePart {
			return leftOut(name, "it changes while it is read"), true
		}
	}
	part, err := chat.FilePart(name, data)
	if err != nil {
		return leftOut(name, "it is no text, image, PDF file or recording that can ("+numeral.Bytes(size)+")"), true
	}
	part.FileName = name
	return part, true
}

// isMedia reports whether a file that begins so is an image, a PDF file or a
// recording.
func isMedia(head []byte) bool {
	part, err := chat.FilePart("", head)
	return err == nil && part.MediaURL() != ""
}

// directory lists a directory, if that is why a file could not be read.
func (m *mentioned) directory(ctx context.Context, name string, unread error) (chat.Part, bool) {
	if errors.Is(unread, fs.ErrNotExist) || m.files.IsOutside(unread) {
		return chat.Part{}, false
	}
	entries, more, err := m.files.List(ctx, name, maxEntries)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return chat.Part{}, false
	case err != nil:
		return leftOut(name, "it cannot be read"), errors.Is(unread, fs.ErrPermission)
	}
	text := filetext.Listing(name, entries, more, maxListing).Text
	return chat.Part{Text: text, FileName: strings.TrimSuffix(name, "/") + "/"}, true
}

// leftOut tells the model of a file that does not go along.
func leftOut(name, why string) chat.Part {
	return chat.Part{
		Text:     fmt.Sprintf("The content of the file %s does not go along: %s. Look at it with your tools.", escape.Name(name), why),
		FileName: name,
	}
}
