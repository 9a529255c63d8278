package browser

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
)

// picture is a small image, in base64.
func picture(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))))
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestImagesGoAlong(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("I see it."), pygenttest.Text("Still.")), checkpoint.Keep(t.TempDir()))
	p := open(t, s.url)
	p.typed("What is")
	data := picture(t)
	// One is pasted, one is dropped, and a drawing that could hold a script is no picture.
	p.run(`window.at = document.getElementById('text');
		window.carry = (name, type, bytes) => { const d = new DataTransfer(); d.items.add(new File([bytes], name, {type})); return d };
		window.image = Uint8Array.from(atob(%s), c => c.charCodeAt(0));
		at.dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: carry('pasted.png', 'image/png', image)}))`, data)
	p.see(".attached", "pasted.png")
	p.run(`at.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: carry('dropped.png', 'image/png', image)}))`)
	p.see(".attached", "dropped.png")
	p.run(`at.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: carry('drawing.svg', 'image/svg+xml', %s)}))`,
		`<svg xmlns="http://www.w3.org/2000/svg" onload="window.hit=1"><script>window.hit=2</script></svg>`)
	p.see(".attached", "drawing.svg")
	p.wait("[...document.querySelectorAll('.attached img')].filter(e => e.complete && e.naturalWidth == 8).length == 2")
	require.Equal(t, 2, eval[int](p, "document.querySelectorAll('.attached img').length"))
	p.barriers("images")
	p.run("[...document.querySelectorAll('.attached button')].find(e => e.ariaLabel.includes('drawing')).click()")
	p.gone(".attached", "drawing.svg")
	p.press(" this?\r")
	const shown = "[...document.querySelectorAll('.msg.user img')].filter(e => e.naturalWidth == 8).length == 2"
	p.wait(shown)
	p.gone(".attached", "")
	p.see("#log .msg", "I see it.")
	messages := s.model.Requests()[0].Chat.Messages
	sent := 0
	for _, part := range messages[len(messages)-1].Parts {
		if part.ImageURL == "data:image/png;base64,"+data {
			sent++
		}
	}
	require.Equal(t, 2, sent, "the images did not go along")
	p.harmless()
	// A page that comes later has them from the history.
	require.NoError(t, s.web.Close())
	again := serveAgain(t, s)
	late := open(t, again.url)
	late.see("#log .msg", "I see it.")
	late.wait(shown)
	// The message is said otherwise, with its images.
	late.run("document.querySelector('.msg.user [data-act=edit]').click()")
	late.click("dialog button", "Go back and edit")
	late.wait("document.querySelectorAll('.attached img').length == 2")
	late.press(" Say more.\r")
	late.see("#log .msg", "Still.")
	late.wait(shown)
}

// serveAgain shows the agent on another server, which knows only its history.
func serveAgain(t *testing.T, s *served) *served {
	t.Helper()
	again := serveWith(t, s.model)
	again.agent, again.dir = s.agent, s.dir
	again.add()
	return again
}
