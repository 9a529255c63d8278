package htmlmark

import (
	"strings"

	"github.com/alecthomas/chroma/v2"

	"github.com/x/pygent/internal/markdown"
)

// Highlight writes code as HTML, with the classes of chroma for its colours where the
// language is known.
func Highlight(language, source string) string {
	var out strings.Builder
	lines := strings.Split(strings.ReplaceAll(source, "\r\n", "\n"), "\n")
	tokens := markdown.Highlight(language, lines, 0)
	for i, line := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		if tokens == nil {
			out.WriteString(Text(line))
			continue
		}
		for _, t := range tokens[i] {
			writeToken(&out, t)
		}
	}
	return out.String()
}

func writeToken(out *strings.Builder, t markdown.Token) {
	class := chroma.StandardTypes[t.Type]
	if class == "" || t.Type == chroma.Text || t.Type == chroma.TextWhitespace {
		out.WriteString(Text(t.Text))
		return
	}
	out.WriteString(`<span class="` + class + `">` + Text(t.Text) + `</span>`)
}
