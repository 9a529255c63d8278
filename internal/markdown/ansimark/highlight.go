package ansimark

import (
	"github.com/alecthomas/chroma/v2"

	"github.com/x/pygent/internal/markdown"
)

// highlight returns the lines of a code block in colours.
func (r *renderer) highlight(language string, lines []string) [][]span {
	var tokens [][]markdown.Token
	if r.options.Colours && language != "" {
		tokens = markdown.Highlight(language, lines, r.options.patience)
	}
	coloured := make([][]span, len(lines))
	for i, line := range lines {
		switch {
		case tokens != nil:
			for _, t := range tokens[i] {
				coloured[i] = append(coloured[i], span{text: t.Text, style: styleOf(t.Type)})
			}
		case line != "":
			coloured[i] = []span{{text: line, style: style{role: roleCode}}}
		}
	}
	return coloured
}

// styleOf returns the style of a kind of token.
func styleOf(t chroma.TokenType) style {
	switch {
	case t.InCategory(chroma.Comment):
		if t.InSubCategory(chroma.CommentPreproc) {
			return style{role: roleName}
		}
		return style{role: roleComment, italic: true}
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord:
		return style{role: roleKeyword}
	case t.InSubCategory(chroma.LiteralNumber):
		return style{role: roleNumber}
	case t.InCategory(chroma.Literal):
		return style{role: roleString}
	}
	return style{role: otherRoles[t]}
}

var otherRoles = map[chroma.TokenType]role{
	chroma.NameBuiltin:       roleName,
	chroma.NameBuiltinPseudo: roleName,
	chroma.NameClass:         roleName,
	chroma.NameConstant:      roleNumber,
	chroma.NameDecorator:     roleName,
	chroma.NameException:     roleName,
	chroma.NameFunction:      roleName,
	chroma.NameFunctionMagic: roleName,
	chroma.NameAttribute:     roleName,
	chroma.NameTag:           roleKeyword,
	chroma.GenericDeleted:    roleRemoved,
	chroma.GenericInserted:   roleAdded,
	chroma.GenericHeading:    roleKeyword,
	chroma.GenericSubheading: roleKeyword,
	chroma.GenericPrompt:     roleMuted,
}
