package skills

import (
	"fmt"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/survey"
)

// MaxText is how much of a skill's instructions a model is shown, in bytes.
const MaxText = 24 << 10

// tag quotes a skill, so that what it says cannot pass for anything else.
const tag = "skill"

// Shown is a skill as a model is shown it.
type Shown struct {
	Skill
	From  string   // whose it is
	Dir   string   // where its files are; empty if there are none
	Note  string   // what else there is to say
	Files []string // in Dir
}

// Text is what a model reads of a skill, whose SKILL.md has data.
func (s Shown) Text(data []byte) (string, error) {
	body, err := Body(data)
	if err != nil {
		return "", fmt.Errorf("skill %s: %w", s.Name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The skill %s is %s.", s.Name, s.From)
	if s.Compatibility != "" {
		fmt.Fprintf(&b, " It asks for: %s.", strings.TrimSuffix(s.Compatibility, "."))
	}
	if files := ListFiles(s.Files, survey.Name); files != "" {
		fmt.Fprintf(&b, " Its paths start at `%s`, with the files %s.", s.Dir, files)
	}
	if s.Note != "" {
		b.WriteString(" " + s.Note)
	}
	text := body
	if len(text) > MaxText {
		text = cut.Head(text, MaxText) + fmt.Sprintf("\n[cut: the first %d of %d bytes]", MaxText, len(body))
		if s.Dir != "" {
			text += fmt.Sprintf("\n[all of it is in %s/%s]", s.Dir, File)
		}
	}
	fmt.Fprintf(&b, "\n<%s>\n%s\n</%s>", tag, escape.Tag(text, tag), tag)
	return b.String(), nil
}
