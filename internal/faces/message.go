package faces

import (
	"cmp"
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

// aQuotedFile is how [chat.FilePart] writes a text. The name of the file is in a
// conversation that was read from disk only there.
var aQuotedFile = regexp.MustCompile("^The file ([^\n]+):\n(`{3,})\n")

// Attached returns what is shown of a part of a message that is a file, such as
// "main.go · 2.1 kB". It reports false for what the person typed. Control characters
// of names are escaped; a face may have more to make visible.
func Attached(p pygent.Part) (label string, ok bool) {
	quoted := aQuotedFile.FindStringSubmatch(p.Text)
	switch {
	case quoted != nil:
		size := len(p.Text) - len(quoted[0]) - len(quoted[2]) // as if the file's last line had an end
		return escape.Name(cmp.Or(p.FileName, quoted[1])) + " · " + numeral.Bytes(int64(size)), true
	case p.Text != "" && strings.HasSuffix(p.FileName, "/"):
		return escape.Name(p.FileName) + " · listed", true
	case p.Text != "" && p.FileName != "":
		return escape.Name(p.FileName) + " · not with it", true
	case p.Text != "":
		return "", false
	}
	name := "an attachment"
	if p.FileName != "" {
		name = escape.Name(p.FileName)
	}
	_, data, isData := strings.Cut(cmp.Or(p.ImageURL, p.FileURL, p.AudioURL), ";base64,")
	if !isData {
		return name, true
	}
	return name + " · " + numeral.Bytes(int64(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "="))))), true
}

// Spoken divides a message into what the person typed and what is shown of the rest.
func Spoken(m pygent.Message) (text string, labels []string) {
	if len(m.Parts) == 0 {
		return m.Content, nil
	}
	for _, p := range m.Parts {
		if label, ok := Attached(p); ok {
			labels = append(labels, label)
		} else {
			text += p.Text
		}
	}
	return text, labels
}
