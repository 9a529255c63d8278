package console

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPromptsArePutAgainOnlyAfterNews(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out)
	p.prompt("Really? > ")
	for range 3 {
		p.News(func(*Text) {})
	}
	require.Equal(t, "Really? > ", out.String())
	p.unfinished = func() string { return "ye" }
	p.Interject("finished")
	require.Equal(t, "Really? > \nfinished\nReally? > ye", out.String())
	p.typed()
	p.endPrompt()
	p.Interject("finished")
	require.Equal(t, "Really? > \nfinished\nReally? > yefinished\n", out.String())
}

func TestNewsWaitForTheEndOfAQuestion(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out)
	release := p.hold()
	p.prompt("Really? > ")
	for range maxHeld + 2 {
		p.Interject("finished")
	}
	require.Equal(t, "Really? > ", out.String())
	p.endPrompt()
	release()
	require.Equal(t, "Really? > \n"+strings.Repeat("finished\n", maxHeld)+"… 2 more events not shown …\n", out.String())
}

func TestPrinterKeepsItsFirstError(t *testing.T) {
	first := errors.New("first")
	p := NewPrinter(&failing{first, errors.New("second")})
	p.Say("a")
	p.Say("b")
	require.ErrorIs(t, p.Err(), first)
}

type failing []error

func (f *failing) Write([]byte) (int, error) {
	err := (*f)[0]
	*f = (*f)[1:]
	return 0, err
}

func TestNewsWaitForTheEndOfABlockOfTheAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string // N is news
		want   string
	}{
		"in a word":              {[]string{"has to wra", "N", "p around"}, "has to wrap around\n· news\n"},
		"between lines":          {[]string{"one\n", "N", "two"}, "one\ntwo\n· news\n"},
		"between blocks":         {[]string{"one\n\n", "N", "two"}, "one\n\n· news\ntwo\n"},
		"an end in one piece":    {[]string{"on", "N", "e\n\ntw", "N", "o"}, "one\n\n· news\ntwo\n· news\n"},
		"an end in two pieces":   {[]string{"one\n", "N", "\ntwo"}, "one\n\n· news\ntwo\n"},
		"several ends in one":    {[]string{"a", "N", "\n\nb\n\nc"}, "a\n\n· news\nb\n\nc\n"},
		"more than one":          {[]string{"one", "N", "N"}, "one\n· news\n· news\n"},
		"before the first words": {[]string{"N", "one"}, "· news\none\n"},
	} {
		var out strings.Builder
		p := NewPrinter(&out)
		p.News(func(t *Text) { t.Step() })
		for _, piece := range tt.pieces {
			p.News(func(t *Text) {
				if piece == "N" {
					t.Beside(func(t *Text) { t.Tell("news") })
				} else {
					t.Stream(piece)
				}
			})
		}
		p.News(func(t *Text) { t.Answer("") })
		require.Equal(t, tt.want, out.String(), name)
	}
}
