package pygent

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
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
)

// WithParts adds parts to the message with which a run begins: images and files,
// from [chat.Attach] for example. The text of the message comes before them, and may
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

// Bounds of the files that a message mentions. What is larger than chat.MaxTextPart
// is read only if its beginning shows that it is no text.
const (
	maxMentionedBytes   = 24 << 20
	maxMentionedEntries = 500     // of a directory
	maxMentionedListing = 8 << 10 // bytes
)

// AttachMentioned reads the files of the workspace that a text mentions, as
// "look at @main.go" and `@"a name.txt"` do, for [WithParts]. A file is a part as
// [chat.FilePart] makes them, a directory its listing, and what cannot go along a
// sentence that tells the model so; FileName has the name in any case. There are at
// most 50 parts and 24 MiB.
//
// What is no file stays a word of the text. missing has such names, with control
// characters made visible, for people to be told: only they know whether @nope was
// meant as a file. An error means that ctx ended or the runtime panicked.
func (a *Agent) AttachMentioned(ctx context.Context, text string) (parts []Part, missing []string, err error) {
	names := pathname.Mentions(text)
	if len(names) == 0 {
		return nil, nil, nil
	}
	found, err := safecall.Outlive(ctx, func() (f mentioned, _ error) {
		defer a.enter(&a.calling, "the runtime's ReadFile")()
		f.runtime = a.runtime
		f.read(ctx, names)
		return f, ctx.Err()
	})
	a.logPanic("reading the files of a message", err)
	if err != nil {
		return nil, nil, fmt.Errorf("files of the message: %w", err)
	}
	return found.parts, found.missing, nil
}

// mentioned collects the files that a message mentions.
type mentioned struct {
	runtime Runtime
	parts   []Part
	missing []string
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
			if size := len(part.Text) + len(part.MediaURL()); total+size > maxMentionedBytes {
				part = leftOut(name, "there is no room for it in this message")
			} else {
				total += size
			}
			m.parts = append(m.parts, part)
			break
		}
		if !exists {
			m.missing = append(m.missing, escape.Name(meant[len(meant)-1]))
		}
	}
}

// file reads a file or directory. It reports false if there is none that can be
// meant.
func (m *mentioned) file(ctx context.Context, name string) (Part, bool) {
	meant, err := readPath(ctx, m.runtime, name)
	if err != nil {
		return Part{}, false
	}
	name = meant
	data, size, err := m.readUpTo(ctx, name, chat.MaxTextPart)
	if err != nil {
		return m.directory(ctx, name, err)
	}
	if size > chat.MaxTextPart {
		if size > chat.MaxFilePart || !isMedia(data) {
			return leftOut(name, "it is too large ("+numeral.Bytes(size)+")"), true
		}
		if data, size, err = m.readUpTo(ctx, name, chat.MaxFilePart); err != nil || size > chat.MaxFilePart {
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

// readUpTo reads a file, or the beginning of one that is larger, and says how large
// it is.
func (m *mentioned) readUpTo(ctx context.Context, name string, limit int64) ([]byte, int64, error) {
	if r, ok := RuntimeAs[RangeReader](m.runtime); ok {
		return r.ReadFileRange(ctx, name, 0, limit)
	}
	data, err := m.runtime.ReadFile(ctx, name)
	return data[:min(int64(len(data)), limit)], int64(len(data)), err
}

// directory lists a directory, if that is why a file could not be read.
func (m *mentioned) directory(ctx context.Context, name string, unread error) (Part, bool) {
	if errors.Is(unread, fs.ErrNotExist) || errors.Is(unread, ErrOutsideWorkspace) {
		return Part{}, false
	}
	lister, ok := RuntimeAs[FileLister](m.runtime)
	if !ok {
		return Part{}, false
	}
	found, more, err := lister.ListFiles(ctx, name, 1, maxMentionedEntries)
	if err != nil {
		return leftOut(name, "it cannot be read"), errors.Is(unread, fs.ErrPermission)
	}
	entries := make([]filetext.Entry, len(found))
	for i, f := range found {
		entries[i] = filetext.Entry{Name: path.Base(f.Path), Size: f.Size, Mode: f.Mode}
	}
	text := filetext.Listing(name, entries, more, maxMentionedListing).Text
	return Part{Text: text, FileName: strings.TrimSuffix(name, "/") + "/"}, true
}

// leftOut tells the model of a file that does not go along.
func leftOut(name, why string) Part {
	return Part{
		Text:     fmt.Sprintf("The content of the file %s does not go along: %s. Look at it with your tools.", escape.Name(name), why),
		FileName: name,
	}
}
