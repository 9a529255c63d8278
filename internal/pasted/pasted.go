// Package pasted reads values that people paste: API keys, URLs and the names of models.
// A file with the line ends of Windows leaves a carriage return at the end of each, an
// editor a byte order mark at the beginning, a web page blanks that are not seen, an
// example the quotes around it, and a curl command the word Bearer or the whole endpoint.
// What cannot belong to the value is taken off. What is inside of it, where nobody can tell what was
// meant, is an error that names the character and its place, and never the value.
package pasted

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Trim returns a text without what is not seen at its ends: blanks, line ends, byte order
// marks and other characters without a shape.
func Trim(text string) string { return strings.TrimFunc(text, unseen) }

func unseen(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// pairs are the quotes that are taken off if they are around a value.
var pairs = [][2]string{{`"`, `"`}, {`'`, `'`}, {"`", "`"}, {"“", "”"}, {"‘", "’"}, {"<", ">"}}

// Word is Trim for a name, such as a model's, which may be in quotes. Control characters and
// other characters that are not seen are an error inside of it.
func Word(text string) (string, error) {
	text = word(text)
	return text, refuse(text, func(r rune) bool { return r != ' ' && unseen(r) || r == utf8.RuneError })
}

// word returns a text without quotes, and without what is not seen around and within them.
func word(text string) string {
	for {
		text = Trim(text)
		inner := text
		for _, pair := range pairs {
			if len(text) >= len(pair[0])+len(pair[1]) && strings.HasPrefix(text, pair[0]) && strings.HasSuffix(text, pair[1]) {
				inner = text[len(pair[0]) : len(text)-len(pair[1])]
				break
			}
		}
		if inner == text {
			return text
		}
		text = inner
	}
}

// Key reads an API key, which may have "Bearer" before it, and the name of the header. Keys are
// made of the visible characters of ASCII: anything else in one is an error, such as the
// ellipsis of a page that shows keys shortened.
func Key(text string) (string, error) {
	text = word(text)
	for _, before := range []string{"Authorization:", "Bearer"} {
		if len(text) > len(before) && strings.EqualFold(text[:len(before)], before) && (strings.HasSuffix(before, ":") || unseen(rune(text[len(before)]))) {
			text = word(text[len(before):])
		}
	}
	return text, refuse(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Header reads the value of a header, whose white space at its ends means nothing.
func Header(text string) (string, error) {
	text = Trim(text)
	return text, refuse(text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}

// endpoints are what a base URL is followed by in requests, the longest first.
var endpoints = []string{"/chat/completions", "/completions", "/responses"}

// URL reads the base URL of an API, without the endpoint if it has one. A query stays, as Azure
// has one. A URL with a blank, a quote or a character that is not seen inside is an error; whether
// it is a URL at all is not said.
func URL(text string) (string, error) {
	text = word(text)
	if err := refuse(text, func(r rune) bool { return unseen(r) || strings.ContainsRune("\"'`<>“”‘’", r) }); err != nil {
		return "", err
	}
	path, query, hasQuery := strings.Cut(text, "?")
	for _, end := range endpoints {
		base, found := strings.CutSuffix(strings.TrimRight(path, "/"), end)
		if u, err := url.Parse(base); !found || err != nil || u.Host == "" {
			continue
		}
		if path = base; hasQuery {
			path += "?" + query
		}
		return path, nil
	}
	return text, nil
}

// refuse returns an error for the first bad character of a text.
func refuse(text string, bad func(rune) bool) error {
	i := strings.IndexFunc(text, bad)
	if i < 0 {
		return nil
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return fmt.Errorf("there is %s as its character %d, which cannot be meant: paste it again without", describe(r), utf8.RuneCountInString(text[:i])+1)
}

// names are those of characters that are not seen, as people call them.
var names = map[rune]string{
	' ': "a blank", '\t': "a tab", '\r': "a carriage return", '\n': "a line end", 0: "a NUL",
	'\u00a0': "a no-break space", '\u00ad': "a soft hyphen", '\u200b': "a zero-width space", '\ufeff': "a byte order mark",
	utf8.RuneError: "a byte that is no UTF-8",
}

func describe(r rune) string {
	switch name := names[r]; {
	case name != "":
		return fmt.Sprintf("%s (%U)", name, r)
	case unicode.IsPrint(r):
		return fmt.Sprintf("%q (%U)", r, r)
	}
	return fmt.Sprintf("a character that is not seen (%U)", r)
}
