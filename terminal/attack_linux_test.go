package terminal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/lineinput"
	"github.com/x/pygent/pygenttest"
)

func TestCtrlCGetsOutOfAPasteWithoutAnEnd(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Send("\x1b[200~the end is lost")
	p.Type("hello\n")
	time.Sleep(lineinput.AnswerDelay) // a person sees that nothing happens
	p.Key("ctrl+c")
	time.Sleep(lineinput.AnswerDelay) // and presses no other key together with it
	p.Type("hi\n")
	p.Await("Hello.", "Ready")
	require.Equal(t, "hi", p.leaves()[1].Text())
}
