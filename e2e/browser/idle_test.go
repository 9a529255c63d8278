package browser

import (
	"testing"
	"time"

	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

func TestAnIdleSessionGoesOn(t *testing.T) {
	_, p := kept(t, pygenttest.NewServer(t, pygenttest.Text("In the first."), pygenttest.Text("On it goes.")), web.WithLimits(web.Limits{Idle: 2 * time.Second}))
	p.said("The first one")
	p.see("#log .msg", "In the first.")
	p.see(".end", "Done")
	p.click("#new", "New session")
	p.gone("#log .msg", "In the first.")
	p.see("#sessions a.closed", "The first one") // nobody looks at it
	p.see("#composer", "")
	p.click("#sessions a.closed", "The first one")
	p.see("#log .msg", "In the first.")
	p.said("Go on")
	p.see("#log .msg", "On it goes.")
}
