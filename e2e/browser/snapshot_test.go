package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

func TestSaveLoadForkAndRemove(t *testing.T) {
	s, p := kept(t, pygenttest.NewServer(t, bash("echo one > one.txt"), pygenttest.Text("First."), pygenttest.Text("In the fork.")))
	p.said("Make one")
	p.see("#log .msg", "First.")
	p.see(".end", "Done")
	saved := filepath.Join(t.TempDir(), "saved")
	p.expect("400", "409", "422")
	p.click("#menu", "")
	p.click("dialog button", "Save a snapshot")
	p.wait("document.activeElement.closest('label')?.innerText.includes('Directory')")
	p.press("saved\t\t \r")
	p.see("dialog [role=status]", "give a path that starts with")
	p.run("document.querySelector('dialog input.field').value = %s", saved)
	p.click("dialog button", "Save")
	p.see("dialog [role=status]", "and 1 file")
	p.barriers("save")
	require.DirExists(t, saved)
	p.press("\u001b")
	p.gone("dialog", "")

	p.click("#manage", "All sessions")
	p.see("dialog li", "Make one")
	p.run("document.querySelector('dialog .load input').value = %s", saved)
	p.click("dialog button", "Load")
	p.wait("!document.getElementById('dialog').open && document.querySelectorAll('#sessions a').length == 2")
	p.see("#log .msg", "First.")
	p.see("#tree .file", "one.txt")
	p.click("#menu", "")
	p.click("dialog button", "Close this session")
	p.gone("dialog", "")

	p.click("#manage", "All sessions")
	p.wait("document.querySelectorAll('dialog li').length == 2")
	p.barriers("sessions")
	p.run("[...document.querySelectorAll('dialog li button')].find(e => e.innerText == 'Fork').click()")
	p.wait("!document.getElementById('dialog').open")
	p.said("And here?")
	p.see("#log .msg", "In the fork.")
	p.see(".end", "Done")
	p.click("#menu", "")
	p.click("dialog button", "Close this session")
	p.gone("dialog", "")
	p.click("#manage", "All sessions")
	p.wait("[...document.querySelectorAll('dialog li button')].filter(e => e.innerText == 'Remove').length == 2")
	for range 2 {
		p.run("[...document.querySelectorAll('dialog li button')].find(e => e.innerText.startsWith('Remove')).click()")
	}
	p.wait("[...document.querySelectorAll('dialog li button')].filter(e => e.innerText.startsWith('Remove')).length == 1")
	sessions, err := os.ReadDir(s.sessions)
	require.NoError(t, err)
	require.Len(t, sessions, 2)
}

// The list of all sessions is about none of them: it stays when the one that the page
// shows is closed elsewhere, and the page goes on with another.
func TestTheListOfAllSessionsStaysWhenTheShownOneEnds(t *testing.T) {
	_, p := kept(t, pygenttest.NewServer(t, pygenttest.Text("First."), pygenttest.Text("Second.")))
	p.said("Say one")
	p.see(".end", "Done")
	p.click("#new", "")
	p.gone("#log .msg", "Say one")
	p.said("Say two")
	p.see(".end", "Done")
	p.click("#manage", "All sessions")
	p.wait("document.querySelectorAll('dialog li').length == 2")
	p.run("const { API, takeToken } = await import('/assets/api.js'); const api = new API(await takeToken()); await api.delete('sessions/' + new URLSearchParams(location.hash.slice(1)).get('session'))")
	p.see("#log .msg.user", "Say one")
	p.wait("document.getElementById('dialog').open && document.querySelectorAll('dialog li').length == 2")
}
