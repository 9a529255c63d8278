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
