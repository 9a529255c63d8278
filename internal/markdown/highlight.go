package markdown

import (
	"archive/zip"
	"bytes"
	"cmp"
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
	MaxHighlighted     = 32 << 10 // bytes of a code block
	MaxHighlightedLine = 4 << 10  // bytes of a line
	MaxHighlightTime   = 500 * time.Millisecond
)

// Token is a piece of a line.
type Token struct {
	Text string
	Type chroma.TokenType
}

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

// Highlight returns the tokens of each line, as far as they are found within a time, 0 for
// [MaxHighlightTime]. It returns nil if the code is too large, its language is not known, or
// chroma fails.
func Highlight(language string, lines []string, within time.Duration) (tokens [][]Token) {
	source := strings.Join(lines, "\n")
	if len(source) > MaxHighlighted || tooLong(lines) {
		return nil
	}
	lexer := lexers()[strings.ToLower(language)]
	if lexer == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // chroma panics where a definition is wrong
			tokens = nil
		}
	}()
	next, err := lexer.Tokenise(nil, source)
	if err != nil {
		return nil
	}
	end := time.Now().Add(cmp.Or(within, MaxHighlightTime))
	line, read := []Token(nil), 0
	for t := next(); t != chroma.EOF && time.Now().Before(end); t = next() {
		value := t.Value
		if read += len(value); read > len(source) { // a line end that chroma has added
			value = value[:max(0, len(value)-(read-len(source)))]
		}
		for {
			part, rest, more := strings.Cut(value, "\n")
			if part != "" {
				line = append(line, Token{part, t.Type})
			}
			if !more {
				break
			}
			tokens = append(tokens, line)
			line, value = nil, rest
		}
	}
	tokens = append(tokens, line)
	return completed(tokens, lines)
}

func tooLong(lines []string) bool {
	for _, line := range lines {
		if len(line) > MaxHighlightedLine {
			return true
		}
	}
	return false
}

// completed returns highlighted lines with those that chroma did not get to. It
// returns nil if what it got to is not the code.
func completed(tokens [][]Token, lines []string) [][]Token {
	last := len(tokens) - 1
	if last >= len(lines) {
		return nil
	}
	for i, line := range tokens {
		if got := codeText(line); got != lines[i] && (i < last || !strings.HasPrefix(lines[i], got)) {
			return nil
		} else if rest := lines[i][len(got):]; rest != "" {
			tokens[i] = append(line, Token{Text: rest})
		}
	}
	for _, line := range lines[len(tokens):] {
		tokens = append(tokens, []Token{{Text: line}})
	}
	return tokens
}

func codeText(line []Token) string {
	var b strings.Builder
	for _, t := range line {
		b.WriteString(t.Text)
	}
	return b.String()
}
