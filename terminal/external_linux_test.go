package terminal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

// program writes a script that a test has as its editor.
func program(t *testing.T, script string) string {
	name := filepath.Join(t.TempDir(), "my editor")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o700))
	return name
}

func TestTheDraftInAnEditor(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	editor := program(t, `
[ "$1" = --wait ] || exit 9
stat -c %a "$2" "$(dirname "$2")"
ls "$(dirname "$(dirname "$2")")"
echo "was: $(wc -c <"$2")"
read line
printf '%s\n' "edited: $line" '' 'last' >>"$2"
`)
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."), pygenttest.Text("Sent.")),
		"EDITOR=false", "VISUAL='"+editor+"' --wait", "TMPDIR="+temp)
	p.Type("go\n")
	p.Await("Waiting for")
	long := strings.Repeat("pasted line\n", 50)
	p.Paste(long)
	p.Await("[pasted 50 lines]")
	p.Key("ctrl+g")
	p.Await("600", "700", "owner", "was: 600") // the note by which it is removed if we are killed
	persontest.Give(t, gate)                   // a question comes while the editor has the terminal
	p.Type("y\n")
	p.Await("Run this on your machine?")
	p.reads()
	require.Contains(t, p.Screen().Text(), "Run this on your machine?", "nothing has answered")
	p.answers("n")
	p.Await("I see.", "Ready", "edited: y", "  last")
	p.Key("enter")
	p.Await("Sent.", "Ready")
	msgs := p.leaves()
	require.Equal(t, long+"edited: y\n\nlast", msgs[len(msgs)-2].Text())
	left, err := filepath.Glob(filepath.Join(temp, "pygent-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheDraftStaysWithoutAnEditor(t *testing.T) {
	onlyShell := t.TempDir()
	for _, name := range []string{"sh", "bash"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(onlyShell, name)))
	}
	for name, tt := range map[string]struct {
		env, says string
	}{
		"it fails":      {"VISUAL=" + "'" + program(t, `echo broken > "$1"; exit 3`) + "'", "the draft is unchanged"},
		"it is killed":  {"VISUAL=sh -c 'kill -9 $$'", "ended by a signal: killed"},
		"a quote":       {"VISUAL='vi", "$VISUAL: a quote is not closed"},
		"there is none": {"PATH=" + onlyShell, "no editor is set: set the environment variable EDITOR"},
		"no such":       {"VISUAL=/no/such/editor", "the draft is unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			env := []string{"VISUAL=", "EDITOR=", "TMPDIR=" + temp, tt.env}
			p := sit(t, pygenttest.NewServer(t), env...)
			p.Type("my draft")
			p.Await("› my draft")
			p.Key("ctrl+g")
			p.Await(tt.says, "› my draft")
			p.Key("ctrl+c")
			p.leaves()
			left, err := filepath.Glob(filepath.Join(temp, "pygent-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestKeysOfTheEditorAreMeantForItAlone(t *testing.T) {
	t.Parallel()
	editor := program(t, `
trap 'echo interrupted' INT
echo begun
kill -STOP $$
echo continued
read line
read line
echo "then $line" > "$1"
`)
	p := sit(t, pygenttest.NewServer(t), "VISUAL='"+editor+"'")
	p.Key("ctrl+g")
	p.Await("begun", "continued")
	p.Key("ctrl+c")
	p.Await("interrupted")
	p.Type("one\ntwo\n")
	p.Await("› then ")
	p.Key("ctrl+c")
	p.leaves()
}

func TestTheKeysAreListed(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t))
	p.Type("?")
	p.Await("› ?", "Ctrl-R", "search earlier messages", "Ctrl-_", "undo")
	p.Key("backspace")
	p.AwaitNo("Ctrl-R")
	p.leaves()
}
