package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

func TestCommandsOfThePerson(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	write(t, s.dir, "hostile.txt", attack+"\n")
	p := open(t, s.url)
	p.typed("!echo shown; sleep 600")
	p.see("#send", "Run")
	p.press("\r")
	p.see(".tool .verb", "You run")
	p.see(".tool pre.out", "shown")
	p.see("#status", "Running your command")
	p.barriers("shell")
	p.click("#stop", "Stop")
	p.see(".tool .fact", "stopped by you")
	p.gone("#stop", "")
	// The card has a button of its own, and Escape does it as well.
	p.typed("!sleep 600\r")
	p.click(".tool button", "Stop")
	p.wait("document.querySelectorAll('.tool.run').length == 0 && document.querySelectorAll('.tool').length == 2")
	p.typed("!sleep 600\r")
	p.see(".tool.run", "")
	p.press("\u001b")
	p.wait("document.querySelectorAll('.tool.run').length == 0 && document.querySelectorAll('.tool').length == 3")
	p.typed("!cat hostile.txt; false\r")
	p.see(".tool .fact", "exit 1")
	p.see(".tool pre.out", "<script>window.hit=1")
	p.harmless()
	require.Empty(t, s.model.Requests(), "the model hears of it")
}
