package ansimark

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
)

// Bounds of what is highlighted. chroma's expressions can take long for code that was
// made for that, and each match has a quarter of a second; so there is a limit of time
// for all of a block besides those of size. Code beyond the limits has one colour.
const (
	maxHighlighted = 32 << 10 // bytes of a code block
	maxCodeLine    = 4 << 10  // bytes of a line
	maxTime        = 500 * time.Millisecond
)

//go:generate go run generate.go

//go:embed languages.zip
var languages []byte

// lexers returns the known languages by their names, aliases and file extensions.
// chroma keeps what it has compiled of a language.
var lexers = sync.OnceValue(newLexers)

func newLexers() map[string]chroma.Lexer {
	files, err := zip.NewReader(bytes.NewReader(languages), int64(len(languages)))
	if err != nil {
		return nil
	}
	registry := chroma.NewLexerRegistry()
	known := map[string]chroma.Lexer{}
	for _, file := range files.File {
		lexer, err := chroma.NewXMLLexer(files, file.Name)
		if err != nil {
			continue
		}
		registry.Register(lexer)
		config := lexer.Config()
		for _, pattern := range config.Filenames {
			if extension, ok := strings.CutPrefix(pattern, "*."); ok && known[extension] == nil {
				known[extension] = lexer
			}
		}
	}
	for _, lexer := range registry.Lexers {
		known[strings.ToLower(lexer.Config().Name)] = lexer
		for _, alias := range lexer.Config().Aliases {
			known[strings.ToLower(alias)] = lexer
		}
	}
	return known
}

// highlight returns the lines of a code block in colours.
func (r *renderer) highlight(language string, lines []string) [][]span {
	if r.options.Colours && language != "" {
		if coloured := tokens(language, lines); coloured != nil {
			return coloured
		}
	}
	plain := make([][]span, len(lines))
	for i, line := range lines {
		if line != "" {
			plain[i] = []span{{text: line, style: style{role: roleCode}}}
		}
	}
	return plain
}

// tokens returns highlighted lines, or nil if the code is too large, its language is
// not known, or chroma fails.
func tokens(language string, lines []string) (coloured [][]span) {
	source := strings.Join(lines, "\n")
	if len(source) > maxHighlighted || tooLong(lines) {
		return nil
	}
	lexer := lexers()[strings.ToLower(language)]
	if lexer == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // chroma panics where a definition is wrong
			coloured = nil
		}
	}()
	next, err := lexer.Tokenise(nil, source)
	if err != nil {
		return nil
	}
	end := time.Now().Add(maxTime)
	line, read := []span(nil), 0
	for t := next(); t != chroma.EOF && time.Now().Before(end); t = next() {
		value := t.Value
		if read += len(value); read > len(source) { // a line end that chroma has added
			value = value[:max(0, len(value)-(read-len(source)))]
		}
		s := styleOf(t.Type)
		for {
			part, rest, more := strings.Cut(value, "\n")
			if part != "" {
				line = append(line, span{text: part, style: s})
			}
			if !more {
				break
			}
			coloured = append(coloured, line)
			line, value = nil, rest
		}
	}
	coloured = append(coloured, line)
	return completed(coloured, lines)
}

func tooLong(lines []string) bool {
	for _, line := range lines {
		if len(line) > maxCodeLine {
			return true
		}
	}
	return false
}

// completed returns highlighted lines with those that chroma did not get to. It
// returns nil if what it got to is not the code.
func completed(coloured [][]span, lines []string) [][]span {
	last := len(coloured) - 1
	if last >= len(lines) {
		return nil
	}
	for i, line := range coloured {
		if got := spell(line); got != lines[i] && (i < last || !strings.HasPrefix(lines[i], got)) {
			return nil
		} else if rest := lines[i][len(got):]; rest != "" {
			coloured[i] = append(line, span{text: rest})
		}
	}
	for _, line := range lines[len(coloured):] {
		coloured = append(coloured, []span{{text: line}})
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
