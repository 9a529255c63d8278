package denylist

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is a word of a script. Its parts are in order; each is either known text
// or unknown.
type word struct {
	parts []part
	raw   string // as a person would read it
}

type part struct {
	text    string
	unknown bool
	splits  bool // unknown only: may become several words, or none
	special bool // text only: has characters that the shell expands to file names
}

// unknownWord stands for arguments that a program reads from its input or a
// file.
var unknownWord = word{parts: []part{{unknown: true}}, raw: "its input"}

func wordOf(w *syntax.Word) word {
	out := word{}
	if w == nil {
		return out
	}
	var raw strings.Builder
	if syntax.NewPrinter().Print(&raw, w) == nil {
		out.raw = raw.String()
	}
	for _, p := range w.Parts {
		out.add(p, false)
	}
	return out
}

func wordsOf(words []*syntax.Word) []word {
	out := make([]word, len(words))
	for i, w := range words {
		out[i] = wordOf(w)
	}
	return out
}

func (w *word) add(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if !quoted && expandsBraces(p.Value) {
			w.parts = append(w.parts, part{unknown: true})
			return
		}
		text := unescape(p.Value, quoted)
		w.parts = append(w.parts, part{text: text, special: !quoted && expandsNames(p.Value)})
	case *syntax.SglQuoted:
		// $'…' has its own escapes, which are not decoded here.
		w.parts = append(w.parts, part{text: p.Value, unknown: p.Dollar && strings.Contains(p.Value, `\`)})
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			w.add(inner, true)
		}
	default:
		w.parts = append(w.parts, part{unknown: true, splits: !quoted})
	}
}

// mayBeSeveral reports whether the shell may turn w into several words, or
// none.
func (w word) mayBeSeveral() bool {
	return slices.ContainsFunc(w.parts, func(p part) bool { return p.splits })
}

// expandsBraces reports whether brace expansion makes several words of an
// unquoted text.
func expandsBraces(text string) bool {
	return strings.Contains(text, "{") && strings.Contains(text, "}") && (strings.Contains(text, ",") || strings.Contains(text, ".."))
}

// expandsNames reports whether the shell replaces an unquoted text by file
// names.
func expandsNames(text string) bool {
	return strings.ContainsAny(text, "*?") || strings.Contains(text, "[") && strings.Contains(text, "]")
}

// unescape removes backslashes from a text as the shell does.
func unescape(text string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// literal returns the text of a word, if it is known.
func (w word) literal() (string, bool) {
	text := w.prefix()
	return text, !slices.ContainsFunc(w.parts, func(p part) bool { return p.unknown })
}

// prefix returns the known text at the beginning of a word.
func (w word) prefix() string {
	text := ""
	for _, p := range w.parts {
		if p.unknown {
			break
		}
		text += p.text
	}
	return text
}

// program returns the name, without its directory, of the program that the word
// runs. The directory need not be known.
func (w word) program() (string, bool) {
	text, known, special := "", true, false
	for _, p := range w.parts {
		if p.unknown {
			text, known, special = "", false, false
			continue
		}
		text += p.text
		special = special || p.special
	}
	if known && text == "." {
		return text, true // a command of this name exists
	}
	known = known || strings.Contains(text, "/")
	name := base(text)
	return name, known && !special && name != "" && name != "{}"
}

// String returns the word as it stands in the script, cut where it is long.
func (w word) String() string {
	const most = 80
	if runes := []rune(w.raw); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return w.raw
}
