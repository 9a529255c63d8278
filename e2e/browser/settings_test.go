package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestSettings(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo no question"), pygenttest.Text("Done.")))
	p := open(t, s.url)
	other := p.another(s.url)
	for _, p := range []*page{p, other} {
		p.click("#menu", "")
		p.click("dialog button", "Settings")
		p.see("dialog .settings", "Protection")
	}
	// By keys alone: the fields are reached one after the other.
	p.run("document.querySelector('[data-setting=model]').focus()")
	p.press("other/model\t")
	other.wait("document.querySelector('[data-setting=model]').value == 'other/model'")
	p.wait("document.activeElement.dataset.setting == 'persona'")
	p.press("Ada\t\t \t")
	other.wait("document.querySelector('[data-setting=persona]').value == 'Ada'")
	other.wait("!document.querySelector('[data-setting=confirm]').checked")
	require.False(t, s.agent.State().Settings.Confirm)
	// What somebody types stays while another page changes something.
	other.run("document.querySelector('[data-setting=about]').focus(); document.querySelector('[data-setting=about]').select()")
	other.press("terse")
	p.run("document.querySelector('[data-setting=tool-write_file]').click()")
	other.wait("!document.querySelector('[data-setting=tool-write_file]').checked")
	require.Equal(t, "terse", eval[string](other, "document.activeElement.value"))
	other.press("\t")
	p.wait("document.querySelector('[data-setting=about]').value == 'terse'")
	require.Equal(t, "terse", s.agent.Persona().Description)
	// What is wrong is said in the dialog.
	p.expect("400")
	p.run("const f = document.querySelector('[data-setting=model]'); f.focus(); f.select()")
	p.press("two words\t")
	p.see("dialog [role=alert]", "no spaces")
	require.Equal(t, "other/model", s.agent.State().Settings.Model)
	p.barriers("settings")
	// What others name is text.
	does := func(context.Context, pygent.Runtime, map[string]any) (string, error) { return "", nil }
	require.NoError(t, s.agent.Tools().Register("other", attack+controls, nil, does))
	s.agent.SetPersona(pygent.Persona{Name: attack, Description: attack})
	p.wait("document.querySelector('[data-setting=about]').value.includes('window.hit=1')")
	p.see("dialog .check", "window.hit=1")
	p.harmless()
	p.press("\u001b")
	p.gone("dialog", "")
	p.said("Go on")
	p.see("#log .msg", "Done.") // without a question
	require.Equal(t, "other/model", s.model.Requests()[0].Chat.Model)
}
