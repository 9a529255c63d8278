// Package thought tells the thoughts of a model from its answer where the server leaves
// both in one text, for want of a parser for the model's reasoning.
//
// Thoughts stand at the beginning, between the tags of a model family, in any capitals, or
// run to the end if nothing closes them. Tags further on are text: an answer may be about them. Only a
// closing tag on a line of its own says that all before it were thoughts: the templates of
// DeepSeek R1, Qwen and others put the opening one into the prompt.
package thought

import (
	"strings"
	"unicode"
)

// tags are those of model families: what opens thoughts, and what closes them.
// docs/providers.md says whose they are.
var tags = []tag{
	{"<think>", "</think>", true},
	{"<thinking>", "</thinking>", false},
	{"<thought>", "</thought>", false},
	{"<reasoning>", "</reasoning>", false},
	{"[THINK]", "[/THINK]", true},
	{"<seed:think>", "</seed:think>", true},
	{"<mm:think>", "</mm:think>", true},
	{"◁think▷", "◁/think▷", true},
	{"<|START_THINKING|>", "<|END_THINKING|>", true},
	{"<|begin_of_thought|>", "<|end_of_thought|>", true},
	{"<|inner_prefix|>", "<|inner_suffix|>", true},
	{"<|channel>thought", "<channel|>", true},
	{"<|channel|>analysis<|message|>", "<|end|>", false},
	{"<|start|>assistant<|channel|>final<|message|>", "", false}, // the head of an answer that has no thoughts
	{"<|channel|>final<|message|>", "", false},
}

type tag struct {
	open, close string // close is empty where nothing stands between the tags
	alone       bool   // the closing tag may stand without the opening one
}

const space = " \t\r\n"

// Split returns the text of an answer, and what stands before it: the thoughts, with
// their tags and the space around them. The text is the end of whole.
func Split(whole string) (before, text string) {
	rest := whole
	for {
		start := strings.TrimLeft(rest, space)
		t, ok := opened(start)
		if !ok {
			break
		}
		_, after, closed := cut(start[len(t.open):], t.close)
		if !closed {
			return whole, ""
		}
		rest = strings.TrimLeft(after, space)
	}
	if len(rest) == len(whole) {
		rest = rest[aloneEnd(rest):]
	}
	return whole[:len(whole)-len(rest)], rest
}

// SplitInside is Split for an answer that begins within thoughts, which closing ends. One
// that was cut off may have none of it yet; it is added.
func SplitInside(whole, closing string, cutOff bool) (before, text string) {
	at := index(whole, closing)
	switch {
	case at >= 0:
		text = strings.TrimLeft(whole[at+len(closing):], space)
		return whole[:len(whole)-len(text)], text
	case cutOff && strings.TrimSpace(whole) != "":
		return whole + "\n" + closing, ""
	}
	return "", whole
}

// Inside returns the thoughts in what [Split] returns, without tags.
func Inside(before string) string {
	for _, t := range tags {
		for _, tag := range []string{t.open, t.close} {
			before = withLines(before, tag)
		}
	}
	return strings.TrimSpace(before)
}

// withLines returns a text with line breaks in the place of a tag.
func withLines(text, tag string) string {
	var b strings.Builder
	for tag != "" {
		before, after, found := cut(text, tag)
		if !found {
			break
		}
		b.WriteString(before + "\n")
		text = after
	}
	return b.String() + text
}

// Closing returns the tag that closes what [Split] returns before the text, if it has no
// opening one; else nothing.
func Closing(before string) string {
	before = strings.Trim(before, space)
	if _, ok := opened(before); ok {
		return ""
	}
	for _, t := range tags {
		if n := len(before) - len(t.close); t.alone && n >= 0 && begins(before[n:], t.close) {
			return t.close
		}
	}
	return ""
}

// ends are the marks that end an answer in the templates of model families. A server that
// does not know them leaves them in the text.
var ends = strings.NewReplacer("<|im_end|>", "", "<|endoftext|>", "", "<|end_of_text|>", "", "<|eot_id|>", "", "<|end|>", "", "<|return|>", "",
	"<end_of_turn>", "", "<｜end▁of▁sentence｜>", "", "</s>", "", "<eos>", "")

// IsNothing reports whether a text says nothing to a reader: it has only space, characters
// that are not shown, and marks that end an answer.
func IsNothing(text string) bool {
	return strings.IndexFunc(ends.Replace(text), isShown) < 0
}

func isShown(r rune) bool {
	return !unicode.In(r, unicode.White_Space, unicode.Cf, unicode.Cc, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// begins reports whether a text begins with a tag, or a part of one, in any capitals. It
// compares bytes: for strings.EqualFold, all parts of a character are the same.
func begins(text, tag string) bool {
	if len(text) < len(tag) {
		return false
	}
	for i := range len(tag) {
		if lower(text[i]) != lower(tag[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

// index returns where a text has a tag, in any capitals, and -1 without one.
func index(text, tag string) int {
	for from := 0; tag != ""; from++ {
		at := strings.IndexByte(text[from:], tag[0])
		if at < 0 {
			return -1
		}
		if from += at; begins(text[from:], tag) {
			return from
		}
	}
	return 0
}

// cut is [strings.Cut] at a tag in any capitals.
func cut(text, tag string) (before, after string, found bool) {
	at := index(text, tag)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(tag):], true
}

func opened(text string) (tag, bool) {
	for _, t := range tags {
		if begins(text, t.open) {
			return t, true
		}
	}
	return tag{}, false
}

// aloneEnd returns where the text begins after a closing tag without an opening one: on a
// line of its own, or at the end of one if the text ends there, and outside of a fence. 0
// means that there is none.
func aloneEnd(text string) int {
	for _, t := range tags {
		if !t.alone {
			continue
		}
		at := index(text, t.close)
		if at < 0 || index(text[:at], t.open) >= 0 || strings.Count(text[:at], "```")%2 == 1 {
			continue
		}
		end := at + len(t.close)
		begins := strings.TrimRight(text[:at], " \t")
		ownLine := begins == "" || strings.HasSuffix(begins, "\n")
		if next := strings.TrimLeft(text[end:], " \t\r"); !ownLine || next != "" && next[0] != '\n' {
			continue
		}
		return len(text) - len(strings.TrimLeft(text[end:], space))
	}
	return 0
}

// Splitter does the same with a text that arrives in pieces. It emits nothing of a tag.
// The zero value is ready.
type Splitter struct {
	held    string // what may be a part of a tag, or space before the text
	close   string // ends the thoughts that are being read; empty for none
	text    bool   // the text has begun
	thought bool   // there were thoughts before it
}

// Inside has the splitter begin within thoughts, whose opening tag is in the prompt, and
// which a tag ends that [Closing] returned.
func (s *Splitter) Inside(closing string) { s.close = closing }

// Add returns what of the text, and of the thoughts, is certain with another piece.
func (s *Splitter) Add(piece string) (text, thoughts string) {
	if s.text {
		return piece, ""
	}
	s.held += piece
	for {
		if s.close == "" {
			start := strings.TrimLeft(s.held, space)
			t, ok := opened(start)
			switch {
			case ok:
				s.held, s.close, s.thought = start[len(t.open):], t.close, true
				continue
			case start == "" || mayOpen(start):
				return "", thoughts
			}
			if text = s.held; s.thought {
				text = start
			}
			s.text, s.held = true, ""
			return text, thoughts
		}
		before, after, closed := cut(s.held, s.close)
		if closed {
			thoughts += before
			s.held, s.close, s.thought = after, "", true
			continue
		}
		keep := overlap(s.held, s.close)
		thoughts += s.held[:len(s.held)-keep]
		s.held = s.held[len(s.held)-keep:]
		return "", thoughts
	}
}

// End returns what was held back of a text that is over.
func (s *Splitter) End() (text, thoughts string) {
	held := s.held
	s.held = ""
	switch {
	case s.close != "":
		return "", held
	case s.thought && strings.TrimLeft(held, space) == "":
		return "", ""
	}
	return held, ""
}

func mayOpen(start string) bool {
	for _, t := range tags {
		if len(start) < len(t.open) && begins(start, t.open[:len(start)]) {
			return true
		}
	}
	return false
}

// overlap returns how many bytes at the end of a text may begin a tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if begins(text[len(text)-n:], tag[:n]) {
			return n
		}
	}
	return 0
}
