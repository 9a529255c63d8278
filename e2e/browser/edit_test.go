package browser

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/snapshot"
	"github.com/x/pygent/web"
)

// kept serves sessions that are kept, all in one workspace, and opens a new one.
func kept(t *testing.T, model *pygenttest.Server, opts ...web.Option) (s *served, p *page) {
	t.Helper()
	root, dir, store := t.TempDir(), t.TempDir(), t.TempDir()
	opens := func(ctx context.Context, o web.Open) (*pygent.Agent, error) {
		id := o.Continue
		if id == "" {
			id = sessions.NewID()
		}
		var from []pygent.Option
		if o.Snapshot != "" {
			snapshot, err := snapshot.Load(ctx, o.Snapshot)
			if err != nil {
				return nil, err
			}
			from = append(snapshot.Options(), pygent.WithWorkspace(t.TempDir()))
		}
		return newAgent(t, model, dir, append(from, sessions.Keep(filepath.Join(root, id)), checkpoint.Keep(store), pygent.WithConfirmBash(false))...), nil
	}
	list := func(context.Context, string) ([]sessions.Info, error) { return sessions.List(root) }
	remove := func(_ context.Context, _, id string) error { return sessions.Remove(root, id) }
	s = serveWith(t, model, append(opts, web.WithOpen(opens), web.WithList(list), web.WithRemove(remove))...)
	s.dir, s.sessions = dir, root
	t.Cleanup(func() { require.NoError(t, s.web.Close()) })
	p = open(t, s.url)
	p.click("#new", "New session")
	p.see("#composer", "")
	return s, p
}

func TestEditOfAMessage(t *testing.T) {
	s, p := kept(t, pygenttest.NewServer(t,
		bash("echo one > one.txt"), pygenttest.Text("First."), bash("echo two > two.txt"), pygenttest.Text("Second."),
		pygenttest.Text("In the fork."), pygenttest.Text("Otherwise.")))
	p.said("Make one")
	p.see("#log .msg", "First.")
	p.said("Make two")
	p.see("#log .msg", "Second.")
	p.see(".end", "Done")
	// The buttons are reached by keys, and seen then.
	act := `[...document.querySelectorAll('.msg.user')].find(e => e.innerText.includes('Make two')).querySelector('[data-act=%s]')`
	p.run(act+".focus()", raw("fork"))
	p.wait("getComputedStyle(document.activeElement.parentElement).opacity == 1")
	p.press(" ")
	p.gone("#log .msg", "Make two")
	p.see("#log .msg", "First.")
	p.wait("document.getElementById('text').value == 'Make two'")
	p.press("!\r")
	p.see("#log .msg", "In the fork.")
	p.click("#sessions a:not([aria-current])", "Make one")
	p.see("#log .msg", "Second.")
	p.run(act+".click()", raw("edit"))
	p.see("dialog", "The conversation and the files that the agent changed go back to before this message")
	p.barriers("edit")
	require.FileExists(t, filepath.Join(s.dir, "two.txt"))
	p.click("dialog button", "Go back and edit")
	p.gone("#log .msg", "Second.")
	p.see("#log", "1 file changed")
	p.wait("document.getElementById('text').value == 'Make two' && document.activeElement.id == 'text'")
	require.NoFileExists(t, filepath.Join(s.dir, "two.txt"))
	require.FileExists(t, filepath.Join(s.dir, "one.txt"))
	p.press(" and more\r")
	p.see("#log .msg", "Otherwise.")
}
