package pygent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
)

// The largest files that become parts of a message, in bytes. A message is sent
// again with each request that follows it.
const (
	maxAttachedText = 256 << 10
	maxAttachedFile = 16 << 20 // a PDF file or a recording
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
	data, err := io.ReadAll(io.LimitReader(f, max(maxImage, maxAttachedFile)+1))
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
		if err := fits(name, "an image", data, maxImage); err != nil {
			return Part{}, err
		}
		return Part{ImageURL: mediabudget.DataURL(kind, data)}, nil
	case "application/pdf":
		if err := fits(name, "a PDF file", data, maxAttachedFile); err != nil {
			return Part{}, err
		}
		return Part{FileName: filepath.Base(name), FileURL: mediabudget.DataURL(kind, data)}, nil
	case "audio/wav", "audio/mpeg":
		if err := fits(name, "a recording", data, maxAttachedFile); err != nil {
			return Part{}, err
		}
		return Part{AudioURL: mediabudget.DataURL(kind, data)}, nil
	default:
		if err := fits(name, "a text", data, maxAttachedText); err != nil {
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

// What the messages begin with that show a model the images and files of results.
const (
	imagesOfResults = "The images that the tools gave:"
	filesOfResults  = "The files that the tools gave:"
	imagesOfResult  = "Images in the result of "
	filesOfResult   = "Files in the result of "
)

// media returns the images, files and recordings of a result.
func (r *ToolResult) media() []Part {
	parts := make([]Part, 0, len(r.Images)+len(r.Files))
	for _, url := range r.Images {
		parts = append(parts, Part{ImageURL: url})
	}
	return append(parts, r.Files...)
}

// maxFileName is how much of the name of a tool's file is kept, in bytes.
const maxFileName = 255

// sortFiles puts what is no file into the fields that it belongs in.
func (r *ToolResult) sortFiles() {
	var files []Part
	for _, p := range r.Files {
		switch {
		case p.ImageURL != "":
			r.Images = append(slices.Clip(r.Images), p.ImageURL)
		case p.mediaURL() != "":
			p.FileName = cut.Head(p.FileName, maxFileName)
			files = append(files, p)
		default:
			r.Content = looptext.OnALine(r.Content, p.Text)
		}
	}
	r.Files = files
}

// chooseMedia leaves out of a result the images and files for which a message
// with those in shown has no room, and tells the model so.
func chooseMedia(result *ToolResult, shown []Part) {
	if len(result.Images) == 0 && len(result.Files) == 0 {
		return
	}
	room := mediabudget.MaxBytes
	for _, p := range shown {
		room -= len(p.mediaURL())
	}
	var note string
	result.Images, note = mediabudget.Choose(result.Images, room)
	result.Content = looptext.OnALine(result.Content, note)
	for _, url := range result.Images {
		room -= len(url)
	}
	urls := make([]string, len(result.Files))
	for i, p := range result.Files {
		urls[i] = p.mediaURL()
	}
	kept, note := mediabudget.ChooseFiles(urls, room)
	files := make([]Part, len(kept))
	for i, at := range kept {
		files[i] = result.Files[at]
	}
	result.Files, result.Content = files, looptext.OnALine(result.Content, note)
}

// showMedia appends the images and files of the results just given as a message
// of the user, because tool messages carry only text in OpenAI's format.
func (r *run) showMedia(media []Part) error {
	if len(media) == 0 {
		return nil
	}
	head := Part{Text: nameMedia(media, imagesOfResults, filesOfResults)}
	return r.hear(Message{Role: RoleUser, Parts: append([]Part{head}, media...)}, SourceImages)
}

// nameMedia returns the words for images, or those for files.
func nameMedia(media []Part, images, files string) string {
	if slices.ContainsFunc(media, func(p Part) bool { return p.ImageURL == "" }) {
		return files
	}
	return images
}

// showsMediaOfTools reports whether a message is one of showMedia, and shows
// something.
func showsMediaOfTools(m Message) bool {
	return isOfTools(m) && slices.ContainsFunc(m.Parts, func(p Part) bool { return p.mediaURL() != "" })
}

// isOfTools reports whether a message is one of showMedia, perhaps without what it
// has shown.
func isOfTools(m Message) bool {
	if m.Role != RoleUser || len(m.Parts) < 2 {
		return false
	}
	head := m.Parts[0].Text
	return head == imagesOfResults || head == filesOfResults || strings.HasPrefix(head, imagesOfResult) || strings.HasPrefix(head, filesOfResult)
}

// makeRoom replaces the images and files of older messages of tools by text, once
// there are too many with those of m. The record keeps them.
func (c *conversation) makeRoom(m Message) {
	if !showsMediaOfTools(m) {
		return
	}
	var urls []string
	for _, p := range mediaOf(m) {
		urls = append(urls, p.mediaURL())
	}
	drop := c.images.Add(urls...)
	if drop > 0 {
		c.messages, c.about = slices.Clone(c.messages), slices.Clone(c.about) // views keep the images that they have
	}
	for i := 0; drop > 0 && i < len(c.messages); i++ {
		if old := c.messages[i]; showsMediaOfTools(old) {
			c.replace(i, withoutMedia(old))
			drop--
		}
	}
}

// withoutMedia returns a message that says of each image and file that it was
// there.
func withoutMedia(m Message) Message {
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if url := p.mediaURL(); url != "" {
			m.Parts[i] = Part{Text: mediabudget.Instead(url)}
		}
	}
	if encoded, err := m.encoded(); err == nil {
		return encoded
	}
	return m
}

// Bounds of the files that a message mentions. What is larger than maxAttachedText
// is read only if its beginning shows that it is no text.
const (
	maxMentionedBytes   = 24 << 20
	maxMentionedEntries = 500     // of a directory
	maxMentionedListing = 8 << 10 // bytes
)

// AttachMentioned reads the files of the workspace that a text mentions, as
// "look at @main.go" and `@"a name.txt"` do, for [WithParts]. A file is a part as
// [FilePart] makes them, a directory its listing, and what cannot go along a
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
			if size := len(part.Text) + len(part.mediaURL()); total+size > maxMentionedBytes {
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
	data, size, err := m.readUpTo(ctx, name, maxAttachedText)
	if err != nil {
		return m.directory(ctx, name, err)
	}
	if size > maxAttachedText {
		if size > maxAttachedFile || !isMedia(data) {
			return leftOut(name, "it is too large ("+numeral.Bytes(size)+")"), true
		}
		if data, size, err = m.readUpTo(ctx, name, maxAttachedFile); err != nil || size > maxAttachedFile {
			return leftOut(name, "it changes while it is read"), true
		}
	}
	part, err := FilePart(name, data)
	if err != nil {
		return leftOut(name, "it is no text, image, PDF file or recording that can ("+numeral.Bytes(size)+")"), true
	}
	part.FileName = name
	return part, true
}

// isMedia reports whether a file that begins so is an image, a PDF file or a
// recording.
func isMedia(head []byte) bool {
	part, err := FilePart("", head)
	return err == nil && part.mediaURL() != ""
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
