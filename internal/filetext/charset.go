package filetext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
)

// Charset is the encoding of a text.
type Charset struct {
	// Name is what people call it; empty for UTF-8.
	Name string
	// Known is false if it can only be guessed at, so that nothing can be encoded in it.
	Known bool

	decode func([]byte) string
	encode func(*bytes.Buffer, rune) bool // reports whether the encoding has the character
	mark   string                         // the byte order mark with which the file begins
	wide   bool                           // not even ASCII is one byte
}

var utf8Text = Charset{Known: true}

// MaxDecoded is the largest text whose encoding is looked for, in bytes.
const MaxDecoded = 64 << 20

// CharsetOf returns the encoding of a file. It is UTF-8 also for a file that is mostly that, and
// for one that is no text.
func CharsetOf(data []byte) Charset {
	switch c, marked := marked(data); {
	case marked && (!c.Known || c.isOf(data)):
		return c
	case marked:
		return Charset{Name: c.Name + " with damaged characters", decode: c.decode, mark: c.mark, wide: true}
	case bytes.Contains(data, []byte("\x1b$B")) || bytes.Contains(data, []byte("\x1b$@")):
		return Charset{Name: "ISO-2022-JP"}
	case len(data) > MaxDecoded || isMostlyUTF8(data) || !decodesToText(data):
		return utf8Text
	}
	for _, c := range []Charset{shiftJIS, eucJP} {
		if hasKana(c.decode(data)) && c.isOf(data) {
			return c
		}
	}
	if c, ok := western(data); ok {
		return c
	}
	return Charset{Name: "an encoding that its bytes do not tell (GBK, Big5, EUC-KR, windows-1251 or KOI8-R, for example)"}
}

// Decode returns a file as UTF-8 if its encoding is known, and else as it is.
func Decode(data []byte) []byte { return CharsetOf(data).Show(data) }

// Show is Decode for people, who can read also what has damaged characters.
func (c Charset) Show(data []byte) []byte {
	if c.decode == nil {
		return data
	}
	return []byte(c.decode(data[len(c.mark):]))
}

// IsShown reports whether Show converts a file.
func (c Charset) IsShown() bool { return c.decode != nil }

// IsUTF8 reports whether the encoding is UTF-8.
func (c Charset) IsUTF8() bool { return c.Name == "" }

// Decode returns the text of a file whose encoding Of has told, without the byte order
// mark of UTF-16. A text in UTF-8 stays as it is.
func (c Charset) Decode(data []byte) string {
	if !c.Known {
		return string(data)
	}
	return string(c.Show(data))
}

// Encode is the inverse of Decode. A text with a character that the encoding does not have
// is an error that names both.
func (c Charset) Encode(text string) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(c.mark) + len(text))
	b.WriteString(c.mark)
	err := c.appendTo(&b, text)
	return b.Bytes(), err
}

// Append returns a file with a text added to it.
func (c Charset) Append(data []byte, text string) ([]byte, error) {
	b := bytes.NewBuffer(bytes.Clone(data))
	err := c.appendTo(b, text)
	return b.Bytes(), err
}

func (c Charset) appendTo(b *bytes.Buffer, text string) error {
	switch {
	case c.IsUTF8():
		b.WriteString(text)
		return nil
	case c.wide && !c.Known:
		return fmt.Errorf("the file is not UTF-8 but in %s, in which nothing can be written here; convert the file with iconv in bash", c.Name)
	case !c.Known && !isASCII(text):
		return fmt.Errorf("the file is not UTF-8 but in %s, in which %q cannot be written here; convert the file with iconv in bash, or write it there", c.Name, firstOther(text))
	case !c.Known:
		b.WriteString(text)
		return nil
	}
	for _, r := range text {
		if !c.encode(b, r) {
			return fmt.Errorf("the file is in %s, which has no %q; leave it out, or convert the file with iconv in bash", c.Name, r)
		}
	}
	return nil
}

// firstOther is the first character of a text that is not in ASCII.
func firstOther(text string) rune {
	for _, r := range text {
		if r >= utf8.RuneSelf {
			return r
		}
	}
	return 0
}

// isOf reports whether a file is as Encode makes it from its text.
func (c Charset) isOf(data []byte) bool {
	again, err := c.Encode(string(c.Show(data)))
	return err == nil && bytes.Equal(again, data)
}

// marked returns the encoding that a byte order mark tells.
func marked(data []byte) (c Charset, ok bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe\x00\x00")):
		return Charset{Name: "UTF-32LE", wide: true}, true
	case bytes.HasPrefix(data, []byte("\x00\x00\xfe\xff")):
		return Charset{Name: "UTF-32BE", wide: true}, true
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return utf16Text("UTF-16LE", "\xff\xfe", binary.LittleEndian), true
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return utf16Text("UTF-16BE", "\xfe\xff", binary.BigEndian), true
	}
	return c, false
}

func utf16Text(name, mark string, order binary.AppendByteOrder) Charset {
	bytesOf := order.(binary.ByteOrder)
	return Charset{
		Name: name, Known: true, mark: mark,
		decode: func(data []byte) string {
			var b strings.Builder
			b.Grow(len(data))
			for at := 0; at+1 < len(data); at += 2 {
				r := rune(bytesOf.Uint16(data[at:]))
				if utf16.IsSurrogate(r) && at+3 < len(data) {
					if pair := utf16.DecodeRune(r, rune(bytesOf.Uint16(data[at+2:]))); pair != utf8.RuneError {
						r, at = pair, at+2
					}
				}
				b.WriteRune(r) // half of a pair becomes U+FFFD
			}
			return b.String()
		},
		encode: func(b *bytes.Buffer, r rune) bool {
			for _, unit := range utf16.AppendRune(nil, r) {
				b.Write(order.AppendUint16(nil, unit))
			}
			return true
		},
	}
}

var (
	shiftJIS = ofLibrary("Shift-JIS", japanese.ShiftJIS)
	eucJP    = ofLibrary("EUC-JP", japanese.EUCJP)
)

func ofLibrary(name string, e encoding.Encoding) Charset {
	return Charset{
		Name: name, Known: true,
		decode: func(data []byte) string {
			text, err := e.NewDecoder().Bytes(data)
			if err != nil {
				return ""
			}
			return string(text)
		},
		encode: func(b *bytes.Buffer, r rune) bool {
			if r < utf8.RuneSelf {
				b.WriteByte(byte(r))
				return true
			}
			one, err := e.NewEncoder().String(string(r))
			b.WriteString(one)
			return err == nil && r != utf8.RuneError
		},
	}
}

// hasKana reports whether a text is Japanese: of its characters beyond ASCII, one in ten
// is kana.
func hasKana(text string) bool {
	kana, other := 0, 0
	for _, r := range text {
		switch {
		case r == utf8.RuneError:
			return false
		case unicode.In(r, unicode.Hiragana, unicode.Katakana) && r < 0xFF00:
			kana++
		case r >= utf8.RuneSelf:
			other++
		}
	}
	return kana > 0 && kana*9 >= other
}

// of1252 are the characters of windows-1252 from 0x80 to 0x9F; 0 for none.
var of1252 = [32]rune{
	'€', 0, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0, 'Ž', 0,
	0, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0, 'ž', 'Ÿ',
}

// western returns ISO-8859-1, or windows-1252 for a text with characters that only that
// has. ok is false if the text is hardly one of Western Europe.
func western(data []byte) (c Charset, ok bool) {
	letters, high, runs, alone, beyond := 0, 0, 0, 0, false
	for at := 0; at < len(data); at++ {
		if b := data[at] | 0x20; b >= 'a' && b <= 'z' && data[at] < 0x80 {
			letters++
		}
		if data[at] < 0x80 {
			continue
		}
		from := at
		for ; at < len(data) && data[at] >= 0x80; at++ {
			if b := data[at]; b < 0xA0 {
				beyond = true
				if of1252[b-0x80] == 0 {
					return c, false
				}
			}
		}
		high += at - from
		if runs++; at-from == 1 {
			alone++
		}
		if at-from > 3 {
			return c, false
		}
		at--
	}
	if high*2 > letters || alone*10 < runs*7 {
		return c, false
	}
	if beyond {
		return windows1252, true
	}
	return latin1, true
}

var (
	windows1252 = singleByte("windows-1252", true)
	latin1      = singleByte("ISO-8859-1", false)
)

// singleByte is ISO-8859-1, or with beyond windows-1252.
func singleByte(name string, beyond bool) Charset {
	return Charset{
		Name: name, Known: true,
		decode: func(data []byte) string {
			var b strings.Builder
			b.Grow(len(data) + len(data)/8)
			for _, c := range data {
				if beyond && c >= 0x80 && c < 0xA0 {
					b.WriteRune(of1252[c-0x80])
				} else {
					b.WriteRune(rune(c))
				}
			}
			return b.String()
		},
		encode: func(b *bytes.Buffer, r rune) bool {
			if r < 0x80 || r >= 0xA0 && r <= 0xFF {
				b.WriteByte(byte(r))
				return true
			}
			for i, other := range of1252 {
				if beyond && other == r {
					b.WriteByte(byte(0x80 + i))
					return true
				}
			}
			return false
		},
	}
}

// isMostlyUTF8 reports whether a file is UTF-8, perhaps with a few damaged characters.
func isMostlyUTF8(data []byte) bool {
	if utf8.Valid(data) {
		return true
	}
	good, bad := 0, 0
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good++
		}
		at += size
	}
	return good > bad
}

// decodesToText reports whether a file has only control characters that texts have.
func decodesToText(data []byte) bool {
	return bytes.IndexFunc(data, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\x1b", r) }) < 0
}

func isASCII(text string) bool { return firstOther(text) == 0 }
