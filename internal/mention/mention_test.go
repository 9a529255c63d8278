package mention_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/mention"
)

const png = "\x89PNG\r\n\x1a\n"

var errOutside = errors.New("outside")

// workspace are files by their names. What ends in a slash is a directory.
type workspace map[string]string

func (w workspace) Meant(_ context.Context, name string) (string, error) {
	if name == "~" {
		return "", errors.New("no home")
	}
	return strings.TrimPrefix(name, "./"), nil
}

func (w workspace) Read(_ context.Context, name string, limit int64) ([]byte, int64, error) {
	text, ok := w[name]
	switch {
	case strings.HasPrefix(name, ".."):
		return nil, 0, errOutside
	case strings.HasPrefix(name, "closed"):
		return nil, 0, fs.ErrPermission
	case name == "growing.png" && limit > chat.MaxTextPart:
		return nil, 0, errors.New("it has gone")
	case w.isDirectory(name):
		return nil, 0, errors.New("is a directory")
	case !ok:
		return nil, 0, fs.ErrNotExist
	}
	return []byte(text[:min(int64(len(text)), limit)]), int64(len(text)), nil
}

func (w workspace) List(_ context.Context, name string, most int) (entries []filetext.Entry, more bool, err error) {
	switch {
	case name == "unlisted":
		return nil, false, errors.ErrUnsupported
	case !w.isDirectory(name):
		return nil, false, errors.New("not a directory")
	}
	for range min(len(w[name+"/"]), most) {
		entries = append(entries, filetext.Entry{Name: "f", Size: 1})
	}
	return entries, len(w[name+"/"]) > most, nil
}

func (workspace) IsOutside(err error) bool { return errors.Is(err, errOutside) }

func (w workspace) isDirectory(name string) bool {
	_, ok := w[name+"/"]
	return ok
}

func TestWhatBecomesOfTheNamesInAMessage(t *testing.T) {
	files := workspace{
		"a.go": "package a\n", "pic.png": png, "program": "\x7fELF\x00\x01", "dir/": "3", "many/": strings.Repeat("f", 600), "empty/": "", "unlisted/": "",
		"large.txt": strings.Repeat("x", chat.MaxTextPart+1), "large.png": png + strings.Repeat("x", chat.MaxTextPart),
		"huge.png": png + strings.Repeat("x", chat.MaxFilePart), "growing.png": png + strings.Repeat("x", chat.MaxTextPart),
	}
	const tools = " Look at it with your tools."
	for name, tt := range map[string]struct {
		names   [][]string
		parts   []string // each as its file's name and how its text or URL begins
		missing []string
	}{
		"none":             {nil, nil, nil},
		"a text":           {[][]string{{"a.go"}}, []string{"a.go: The file a.go:\n```\npackage a"}, nil},
		"an image":         {[][]string{{"pic.png"}, {"large.png"}}, []string{"pic.png: data:image/png;base64,", "large.png: data:image/png;base64,"}, nil},
		"twice":            {[][]string{{"a.go"}, {"./a.go"}}, []string{"a.go: The file a.go:"}, nil},
		"the first meant":  {[][]string{{"none", "a.go"}, {"pic.png", "program"}}, []string{"a.go: The file", "pic.png: data:image/png"}, nil},
		"nothing meant":    {[][]string{{"x.go", "x\x1b"}, {"~"}, {"../a"}}, nil, []string{`"x\x1b"`, "~", "../a"}},
		"a directory":      {[][]string{{"dir"}, {"empty"}}, []string{"dir/: dir: a directory with 1 entry", "empty/: empty: an empty directory"}, nil},
		"a long directory": {[][]string{{"many"}}, []string{"many/: many: a directory with more than 500 entries"}, nil},
		"not listed":       {[][]string{{"unlisted"}}, nil, []string{"unlisted"}},
		"no text":          {[][]string{{"program"}}, []string{"program: The content of the file program does not go along: it is no text, image, PDF file or recording that can (6 B)." + tools}, nil},
		"too large":        {[][]string{{"large.txt"}}, []string{"large.txt: The content of the file large.txt does not go along: it is too large (262.1 kB)." + tools}, nil},
		"a huge image":     {[][]string{{"huge.png"}}, []string{"huge.png: The content of the file huge.png does not go along: it is too large (16.8 MB)." + tools}, nil},
		"it changes":       {[][]string{{"growing.png"}}, []string{"growing.png: The content of the file growing.png does not go along: it changes while it is read." + tools}, nil},
		"closed":           {[][]string{{"closed"}}, []string{"closed: The content of the file closed does not go along: it cannot be read." + tools}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := mention.Attach(t.Context(), tt.names, files)
			require.Equal(t, tt.missing, found.Missing)
			require.Len(t, found.Parts, len(tt.parts))
			for i, p := range found.Parts {
				require.Truef(t, strings.HasPrefix(p.FileName+": "+p.Text+p.MediaURL(), tt.parts[i]), "%.200q", p.FileName+": "+p.Text+p.MediaURL())
			}
		})
	}
}

func TestFilesBeyondTheRoomOfAMessageAreLeftOut(t *testing.T) {
	files := workspace{}
	var names [][]string
	for i := range 6 {
		name := fmt.Sprint(i, ".png")
		files[name] = png + strings.Repeat("x", 5<<20-len(png))
		names = append(names, []string{name})
	}
	files["a.txt"] = "small"
	found := mention.Attach(t.Context(), append(names, []string{"a.txt"}), files)
	require.Len(t, found.Parts, 7)
	for i, p := range found.Parts {
		switch {
		case i < 3: // of 7 MB each as data URLs
			require.NotEmpty(t, p.ImageURL)
		case i < 6:
			require.Equal(t, "The content of the file "+names[i][0]+" does not go along: there is no room for it in this message. Look at it with your tools.", p.Text)
		default:
			require.Contains(t, p.Text, "small", "a later one still has room")
		}
	}
}
