package pygent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/gallery"
	"github.com/x/pygent/internal/nudge"
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
	switch kind := gallery.MediaType(data); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if err := fits(name, "an image", data, maxImage); err != nil {
			return Part{}, err
		}
		return Part{ImageURL: gallery.DataURL(kind, data)}, nil
	case "application/pdf":
		if err := fits(name, "a PDF file", data, maxAttachedFile); err != nil {
			return Part{}, err
		}
		return Part{FileName: filepath.Base(name), FileURL: gallery.DataURL(kind, data)}, nil
	case "audio/wav", "audio/mpeg":
		if err := fits(name, "a recording", data, maxAttachedFile); err != nil {
			return Part{}, err
		}
		return Part{AudioURL: gallery.DataURL(kind, data)}, nil
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
			r.Content = nudge.OnALine(r.Content, p.Text)
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
	room := gallery.MaxBytes
	for _, p := range shown {
		room -= len(p.mediaURL())
	}
	var note string
	result.Images, note = gallery.Choose(result.Images, room)
	result.Content = nudge.OnALine(result.Content, note)
	for _, url := range result.Images {
		room -= len(url)
	}
	urls := make([]string, len(result.Files))
	for i, p := range result.Files {
		urls[i] = p.mediaURL()
	}
	kept, note := gallery.ChooseFiles(urls, room)
	files := make([]Part, len(kept))
	for i, at := range kept {
		files[i] = result.Files[at]
	}
	result.Files, result.Content = files, nudge.OnALine(result.Content, note)
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
			m.Parts[i] = Part{Text: gallery.Instead(url)}
		}
	}
	if encoded, err := m.encoded(); err == nil {
		return encoded
	}
	return m
}
