package edit

import (
	"fmt"
	"strings"

	"github.com/x/pygent/internal/filetext"
)

// InFile makes edits in what a file holds, as [Apply] does, and in its encoding: Text is
// what the file holds then.
func InFile(data []byte, edits []Edit) (Applied, error) {
	encoding := filetext.CharsetOf(data)
	if _, err := encoding.Append(nil, ""); err != nil {
		return Applied{}, err
	}
	edited, err := Apply(encoding.Decode(data), edits)
	if err == nil && !encoding.IsUTF8() {
		edited.Text, err = encoded(encoding, edited.Text, edits)
	}
	return edited, err
}

// encoded returns an edited text in the encoding of its file. Where that is not known, the
// bytes of the text are those of the file, and what is new may only be ASCII.
func encoded(encoding filetext.Charset, text string, edits []Edit) (string, error) {
	if encoding.Known {
		data, err := encoding.Encode(text)
		return string(data), err
	}
	for _, e := range edits {
		if _, err := encoding.Append(nil, e.New); err != nil {
			return text, err
		}
	}
	return text, nil
}

// Words shows edits to the person who decides about them.
func Words(edits []Edit) string {
	var pieces []string
	for _, e := range edits {
		words := prefixLines("- ", e.Old) + "\n" + prefixLines("+ ", e.New)
		if e.All {
			words = "everywhere:\n" + words
		}
		pieces = append(pieces, words)
	}
	return strings.Join(pieces, "\n\n")
}

func prefixLines(prefix, text string) string {
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix)
}

// Replaced says what becomes of a file when another text takes the place of what it held.
func Replaced(name string, before []byte, after string) string {
	said := fmt.Sprintf("replaced %s, which had %s and now has %s", name, filetext.Extent(string(before)), filetext.Extent(after))
	if was, is := LineEnds(string(before)), LineEnds(after); was != is && was != "" && is != "" {
		said += fmt.Sprintf("; its lines ended in %s and now end in %s", was, is)
	}
	if is := filetext.CharsetOf(before); !is.IsUTF8() && filetext.CharsetOf([]byte(after)).IsUTF8() {
		said += "; it was in " + is.Name + " and is UTF-8 now"
	}
	if strings.HasPrefix(string(before), bom) && !strings.HasPrefix(after, bom) {
		said += "; it began with a byte order mark (U+FEFF) and does not any more"
	}
	return said
}
