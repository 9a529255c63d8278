package edit

import (
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// composed is a text in NFC, with where its pieces come from.
type composed struct {
	text   string
	pieces []piece
}

// piece is a part of a composed text. One that is the same in both is as long in both.
type piece struct{ composed, from int }

// compose returns a text in NFC.
func compose(text string) composed {
	var b strings.Builder
	b.Grow(len(text))
	c := composed{}
	for at := 0; at < len(text); {
		c.pieces = append(c.pieces, piece{b.Len(), at})
		if n := norm.NFC.QuickSpanString(text[at:]); n > 0 {
			for n > 0 && at+n < len(text) && !norm.NFC.PropertiesString(text[at+n:]).BoundaryBefore() {
				n-- // the last character goes on
			}
			for n > 0 && at+n < len(text) && text[at+n]&0xC0 == 0x80 {
				n--
			}
			b.WriteString(text[at : at+n])
			if at += n; n > 0 {
				continue
			}
		}
		n := max(norm.NFC.NextBoundaryInString(text[at:], true), 1)
		b.WriteString(norm.NFC.String(text[at : at+n]))
		at += n
	}
	c.pieces = append(c.pieces, piece{b.Len(), len(text)})
	c.text = b.String()
	return c
}

// from returns where a byte of the composed text comes from. ok is false inside of a
// character that is written otherwise.
func (c composed) from(at int) (from int, ok bool) {
	i := sort.Search(len(c.pieces), func(i int) bool { return c.pieces[i].composed > at }) - 1
	p := c.pieces[i]
	if at == p.composed {
		return p.from, true
	}
	next := c.pieces[i+1]
	return p.from + at - p.composed, next.composed-p.composed == next.from-p.from
}

// findCanonical looks for an old text whose accents are composed otherwise than those of
// the text. The new text is then written as the text is.
func findCanonical(text string, e Edit) (matches, error) {
	found := matches{new: e.New, ends: lineEnds{text: text, alone: crAlone(text)}, exact: strings.Contains(e.Old, "\r\n")}
	if isASCII(e.Old) || norm.NFC.IsNormalString(text) && norm.NFC.IsNormalString(e.Old) {
		return found, nil
	}
	in := compose(text)
	at, err := occurrences(in.text, norm.NFC.String(e.Old), e.All)
	for _, f := range at {
		from, ok1 := in.from(f.from)
		to, ok2 := in.from(f.to)
		if ok1 && ok2 {
			found.at = append(found.at, span{from, to})
		}
	}
	if err != nil || len(found.at) == 0 {
		return found, err
	}
	switch was := text[found.at[0].from:found.at[0].to]; {
	case norm.NFC.IsNormalString(was):
		found.new = norm.NFC.String(e.New)
	case norm.NFD.IsNormalString(was):
		found.new = norm.NFD.String(e.New)
	}
	found.note = "old_text was found with its accents composed otherwise, as the file has them"
	return found, nil
}
