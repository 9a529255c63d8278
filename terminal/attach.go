package terminal

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/guard"
)

// Bounds of the files that go along with a message.
const (
	maxAttachedText  = 256 << 10 // of a text, and of what is read to find out what a file is
	maxAttachedFile  = 16 << 20  // of an image, a PDF file or a recording
	maxAttachedTotal = 24 << 20
	maxAttachedDir   = 500     // entries of a directory
	maxDirText       = 8 << 10 // bytes of its listing
	attachWithin     = 30 * time.Second
)

// attaching is a message whose files are being read.
type attaching struct {
	began  time.Time
	cancel context.CancelCauseFunc
}

// deliver sends what the person says, with the files that it names. These are read
// in the background, as they are now.
func (s *session) deliver(text string, named [][]string) {
	if len(named) == 0 {
		s.deliverParts(text, nil)
		return
	}
	timed, stop := context.WithTimeout(s.ctx, attachWithin)
	ctx, cancel := context.WithCancelCause(timed)
	during := s.turn
	s.input.attaching = &attaching{began: time.Now(), cancel: cancel}
	s.background(func() {
		defer stop()
		found, err := guard.Outlive(ctx, func() (found attachments, _ error) { return attach(ctx, s.agent.Runtime(), named), nil })
		err = cmp.Or(err, ctx.Err())
		stopped := context.Cause(ctx) == errInterrupted
		cancel(nil)
		s.post(func() {
			s.input.attaching = nil
			switch {
			case stopped:
				s.giveBack(text)
				s.hint("not sent")
			case err != nil:
				s.giveBack(text)
				s.hint("not sent: the files could not be read: " + oneLine(err.Error()))
			case during != nil && s.turn == nil && !during.goesWell():
				s.queue.held = append(s.queue.held, pygent.UserMessage(text, found.parts...)) // like all that was said in that turn
			default:
				s.deliverParts(text, found.parts)
				if len(found.missing) > 0 {
					s.tell(s.theme.warn("! not in the workspace: " + strings.Join(found.missing, ", ")))
				}
			}
		})
	})
}

// deliverParts sends a message, or queues it while a turn goes on.
func (s *session) deliverParts(text string, parts []pygent.Part) {
	if s.turn == nil {
		s.send(text, parts...)
		return
	}
	if !s.sayLater(pygent.UserMessage(text, parts...)) {
		s.giveBack(text)
	}
}

// giveBack makes a text the draft again that was not sent.
func (s *session) giveBack(text string) {
	if s.input.editor.empty() {
		s.input.editor.set(text)
	}
}

// attachments are the files that a message names.
type attachments struct {
	parts   []pygent.Part
	missing []string // names that look like those of files, of which there are none
}

// attach reads the files that a message names. What is no file stays a word of the
// message.
func attach(ctx context.Context, rt pygent.Runtime, named [][]string) (found attachments) {
	total := 0
	seen := map[string]bool{}
	for _, names := range named {
		exists := false
		for _, name := range names {
			if exists = seen[path.Clean(name)]; exists {
				break
			}
			part, ok := attachOne(ctx, rt, name)
			if !ok {
				continue
			}
			seen[path.Clean(name)], exists = true, true
			if size := len(part.Text) + len(part.ImageURL) + len(part.FileURL) + len(part.AudioURL); total+size > maxAttachedTotal {
				part = noteOn(name, "there is no room for it in this message")
			} else {
				total += size
			}
			found.parts = append(found.parts, part)
			break
		}
		if name := names[len(names)-1]; !exists && strings.ContainsAny(name, "./") { // @ada is no file
			found.missing = append(found.missing, visible(escape.Name(name)))
		}
	}
	return found
}

// attachOne reads a file or directory. It reports false if there is none that can
// be meant.
func attachOne(ctx context.Context, rt pygent.Runtime, name string) (pygent.Part, bool) {
	data, size, err := readUpTo(ctx, rt, name, maxAttachedText)
	if err != nil {
		return attachDir(ctx, rt, name, err)
	}
	if size > maxAttachedText {
		kind := kindOf(data)
		if kind == "" || size > maxAttachedFile {
			return noteOn(name, "it is too large ("+sizeOf(size)+")"), true
		}
		if data, size, err = readUpTo(ctx, rt, name, maxAttachedFile); err != nil || size > maxAttachedFile {
			return noteOn(name, "it changes while it is read"), true
		}
	}
	part, err := pygent.FilePart(name, data)
	if err != nil {
		return noteOn(name, "it is no text, image, PDF file or recording that can ("+sizeOf(size)+")"), true
	}
	part.FileName = name
	return part, true
}

// kindOf says whether a file that begins so can go along although it is large.
func kindOf(head []byte) string {
	part, err := pygent.FilePart("", head)
	if err != nil || part.Text != "" {
		return ""
	}
	return cmp.Or(part.ImageURL, part.FileURL, part.AudioURL)
}

// readUpTo reads a file, or the beginning of one that is larger, and says how large
// it is.
func readUpTo(ctx context.Context, rt pygent.Runtime, name string, limit int64) ([]byte, int64, error) {
	if r, ok := pygent.RuntimeAs[pygent.RangeReader](rt); ok {
		return r.ReadFileRange(ctx, name, 0, limit)
	}
	data, err := rt.ReadFile(ctx, name)
	return data[:min(int64(len(data)), limit)], int64(len(data)), err
}

// attachDir lists a directory, if that is why a file could not be read.
func attachDir(ctx context.Context, rt pygent.Runtime, name string, unread error) (pygent.Part, bool) {
	if errors.Is(unread, fs.ErrNotExist) || errors.Is(unread, pygent.ErrOutsideWorkspace) {
		return pygent.Part{}, false
	}
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok {
		return pygent.Part{}, false
	}
	found, more, err := lister.ListFiles(ctx, name, 1, maxAttachedDir)
	if err != nil {
		if errors.Is(unread, fs.ErrPermission) {
			return noteOn(name, "it cannot be read"), true
		}
		return pygent.Part{}, false
	}
	entries := make([]filetext.Entry, len(found))
	for i, f := range found {
		entries[i] = filetext.Entry{Name: path.Base(f.Path), Size: f.Size, Mode: f.Mode}
	}
	text := filetext.Listing(name, entries, more, maxDirText).Text
	return pygent.Part{Text: text, FileName: strings.TrimSuffix(name, "/") + "/"}, true
}

// noteOn tells the model of a file that does not go along.
func noteOn(name, why string) pygent.Part {
	return pygent.Part{
		Text:     fmt.Sprintf("The content of the file %s does not go along: %s. Look at it with your tools.", escape.Name(name), why),
		FileName: name,
	}
}

// aQuotedFile is how [pygent.FilePart] writes a text. The name of the file is in a
// conversation that was read from disk only there.
var aQuotedFile = regexp.MustCompile("^The file ([^\n]+):\n(`{3,})\n")

// attached returns what is shown of a part of a message that is a file, such as
// "main.go · 2.1 kB". It reports false for what the person typed.
func attached(p pygent.Part) (label string, ok bool) {
	quoted := aQuotedFile.FindStringSubmatch(p.Text)
	switch {
	case quoted != nil:
		size := len(p.Text) - len(quoted[0]) - len(quoted[2]) // as if the file's last line had an end
		return visible(escape.Name(cmp.Or(p.FileName, quoted[1]))) + " · " + sizeOf(int64(size)), true
	case p.Text != "" && strings.HasSuffix(p.FileName, "/"):
		return visible(escape.Name(p.FileName)) + " · listed", true
	case p.Text != "" && p.FileName != "":
		return visible(escape.Name(p.FileName)) + " · not with it", true
	case p.Text != "":
		return "", false
	}
	name := "an attachment"
	if p.FileName != "" {
		name = visible(escape.Name(p.FileName))
	}
	_, data, isData := strings.Cut(cmp.Or(p.ImageURL, p.FileURL, p.AudioURL), ";base64,")
	if !isData {
		return name, true
	}
	return name + " · " + sizeOf(int64(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "="))))), true
}

// spoken divides a message into what the person typed and what is shown of the rest.
func spoken(m pygent.Message) (text string, labels []string) {
	if len(m.Parts) == 0 {
		return m.Content, nil
	}
	for _, p := range m.Parts {
		if label, ok := attached(p); ok {
			labels = append(labels, label)
		} else {
			text += p.Text
		}
	}
	return text, labels
}

// sizeOf writes a number of bytes for people.
func sizeOf(n int64) string {
	const k = 1000
	switch {
	case n < k:
		return fmt.Sprintf("%d B", n)
	case n < k*k:
		return fmt.Sprintf("%.1f kB", float64(n)/k)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(k*k))
}
