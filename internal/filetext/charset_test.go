package filetext_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/x/pygent/internal/filetext"
)

const (
	french       = "Le numéro de l'été, où ça coûte moins cher à Noël.\n"
	japaneseText = "日本語のテキストです。カタカナもあります。\n"
)

func in(t testing.TB, e encoding.Encoding, text string) []byte {
	t.Helper()
	data, err := e.NewEncoder().Bytes([]byte(text))
	require.NoError(t, err)
	return data
}

func TestEncodingsAreTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		is   encoding.Encoding
		text string
		want string
	}{
		{charmap.ISO8859_1, french, "ISO-8859-1"},
		{charmap.Windows1252, french + "“Œuvre” – 5 €\n", "windows-1252"},
		{charmap.ISO8859_1, "Straße, größer, Übermaß, für Äpfel und Öl\r\n", "ISO-8859-1"},
		{charmap.ISO8859_1, "titreé\nligne deux\n", "ISO-8859-1"},
		{japanese.ShiftJIS, japaneseText, "Shift-JIS"},
		{japanese.EUCJP, japaneseText, "EUC-JP"},
		{unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), french + "😀", "UTF-16LE"},
		{unicode.UTF16(unicode.BigEndian, unicode.UseBOM), japaneseText, "UTF-16BE"},
	} {
		data := in(t, tt.is, tt.text)
		c := filetext.CharsetOf(data)
		require.Equal(t, tt.want, c.Name)
		require.True(t, c.Known)
		require.Equal(t, tt.text, c.Decode(data))
		require.Equal(t, tt.text, string(filetext.Decode(data)))
		again, err := c.Encode(tt.text)
		require.NoError(t, err)
		require.Equal(t, data, again)
		more, err := c.Append(data, "x")
		require.NoError(t, err)
		whole, err := c.Encode(tt.text + "x")
		require.NoError(t, err)
		require.Equal(t, whole, more)
	}
}

func TestWhatCannotBeToldIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data []byte
		says string
	}{
		{in(t, charmap.Windows1251, "Это русский текст, и он не короткий.\n"), "KOI8-R"},
		{in(t, charmap.KOI8R, "Это русский текст.\n"), "KOI8-R"},
		{in(t, simplifiedchinese.GBK, "这是一个中文文本文件。\n"), "GBK"},
		{in(t, korean.EUCKR, "이것은 한국어 텍스트입니다.\n"), "EUC-KR"},
		{in(t, japanese.ISO2022JP, japaneseText), "ISO-2022-JP"},
		{[]byte("\xff\xfea\x00b"), "UTF-16LE with damaged characters"},
		{[]byte("\xff\xfe\x00\xd8a\x00"), "UTF-16LE with damaged characters"},
		{[]byte("\xff\xfe\x00\x00a\x00\x00\x00"), "UTF-32LE"},
		{[]byte("\x81\x8d\x90"), "do not tell"},
	} {
		c := filetext.CharsetOf(tt.data)
		require.False(t, c.Known, tt.says)
		require.Equal(t, tt.data, []byte(c.Decode(tt.data)))
		_, err := c.Append(tt.data, "é")
		require.ErrorContains(t, err, tt.says)
		_, err = c.Append(tt.data, "e")
		require.Equal(t, strings.HasPrefix(tt.says, "UTF-"), err != nil, "where no byte is a character, nothing can be added")
	}
	for _, data := range []string{"", "plain", french, japaneseText, french + "\xe9", "\x00\xe9\x00", "a\x01\xff", "\ufeffx"} {
		require.True(t, filetext.CharsetOf([]byte(data)).IsUTF8(), "%q", data)
	}
	c := filetext.CharsetOf(in(t, charmap.ISO8859_1, french))
	_, err := c.Encode("5 €")
	require.EqualError(t, err, "the file is in ISO-8859-1, which has no '€'; leave it out, or convert the file with iconv in bash")
	_, err = filetext.CharsetOf(in(t, japanese.ShiftJIS, japaneseText)).Encode("é")
	require.ErrorContains(t, err, "Shift-JIS, which has no 'é'")
}

func FuzzBytesStay(f *testing.F) {
	for _, e := range []encoding.Encoding{charmap.Windows1252, japanese.ShiftJIS, japanese.EUCJP, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)} {
		if data, err := e.NewEncoder().Bytes([]byte("日本語の\n")); err == nil {
			f.Add(data, "あ", 3)
		}
		if data, err := e.NewEncoder().Bytes([]byte(french)); err == nil {
			f.Add(data, "é", 7)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, added string, at int) {
		c := filetext.CharsetOf(data)
		text := c.Decode(data)
		if !c.IsUTF8() && c.Known {
			require.True(t, utf8.ValidString(text))
		}
		runes := []rune(text)
		if !c.Known || c.IsUTF8() || !utf8.ValidString(added) || len(runes) == 0 {
			return
		}
		at = min(max(at, 0), len(runes))
		head, err := c.Encode(string(runes[:at]))
		require.NoError(t, err)
		changed, err := c.Encode(string(runes[:at]) + added + string(runes[at:]))
		if err != nil {
			return
		}
		require.True(t, bytes.HasPrefix(changed, head))
		require.True(t, bytes.HasPrefix(data, head))
		require.True(t, bytes.HasSuffix(changed, data[len(head):]))
		require.False(t, strings.Contains(c.Name, " "))
	})
}
