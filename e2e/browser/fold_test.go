package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestManyCallsFold(t *testing.T) {
	var replies []pygenttest.Reply
	for i := range 12 {
		call := bash(fmt.Sprintf("echo number %d", i))
		switch i {
		case 3:
			call = pygenttest.Call("write_file", map[string]any{"path": "made.txt", "content": "x\n"})
		case 8:
			call = bash("echo broken; exit 1")
		}
		replies = append(replies, call)
	}
	s := serve(t, pygenttest.NewServer(t, append(replies, pygenttest.Text("Done with it."))...), pygent.WithConfirmBash(false))
	p := open(t, s.url)
	p.said("Go")
	p.see("#log .msg", "Done with it.")
	// The eight before the failure fold; the failure and the three after it stay.
	p.wait("document.querySelectorAll('#log>.fold').length == 1 && document.querySelectorAll('#log>.fold>.tool').length == 8")
	p.see(".fold>summary", "8 calls")
	p.see(".fold>summary", "ran 7, wrote 1")
	p.see("#log>.tool.bad", "broken")
	require.Equal(t, 4, eval[int](p, "document.querySelectorAll('#log>.tool').length"))
	p.gone(".fold .tool", "number 1")
	p.barriers("fold")
	// It opens by a key and by a click, and its calls are as they were.
	p.run("document.querySelector('.fold>summary').focus()")
	p.press(" ")
	p.see(".fold .tool", "number 1")
	p.run("document.querySelectorAll('.fold .tool>summary')[1].click()")
	p.see(".fold .tool pre.out", "number 1")
	p.barriers("fold-open")
	p.click(".fold>summary", "8 calls")
	p.gone(".fold .tool", "number 1")
	// One that comes later folds them likewise.
	late := p.another(s.url)
	late.see(".fold>summary", "8 calls")
	late.see("#log>.tool.bad", "exit 1")
}
