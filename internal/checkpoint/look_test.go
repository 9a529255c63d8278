package checkpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
)

// What a restore has written is known without another look at the whole tree.
func TestARestoreLooksAtTheTreeOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a/f", "1", "a/g", "1", "d/gone", "1", "d/e/gone", "1", "notes", "1", "ig/.gitignore", "logs\n", "ig/logs/x", "1")
	first := b.files()
	start := b.turn(func() { b.set("a/f", "2", "a/new", "2", "n/m/new", "2", "d/gone", "", "d/e/gone", "", "ig/f", "2") })
	before := b.files()
	b.work.scans = 0
	undone := b.mustRestore(start.N)
	require.Equal(t, 1, b.work.scans)
	require.Equal(t, first, b.files())
	require.Equal(t, undone.From.Left, undone.Now.Left)
	require.Equal(t, undone.Now.Tree, b.take(checkpoint.Start).Tree, "as a look at all finds it")
	b.work.scans = 0
	redone := b.mustRestore(undone.From.N)
	require.Equal(t, 1, b.work.scans)
	require.Equal(t, before, b.files())
	require.Equal(t, redone.Now.Tree, b.take(checkpoint.Start).Tree)
}

// What others change while a restore is made is theirs, and the next look finds it: an
// undo does not take it back.
func TestWhatOthersChangeDuringARestoreStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a/f", "1", "b/notes", "1", "c", "1")
	start := b.turn(func() { b.set("a/f", "2") })
	b.work.made = func() { b.set("b/notes", "theirs", "b/mine", "theirs") }
	out := b.mustRestore(start.N)
	b.work.made = nil
	require.Empty(t, out.Kept)
	second := b.turn(func() { b.set("c", "2") })
	b.mustRestore(second.N)
	b.mustRestore(start.N)
	require.Equal(t, "a/f=1 b/mine=theirs b/notes=theirs c=1", b.files())
}

// A restore that was interrupted may have been so for long: what it finds is all looked at.
func TestAFinishedRestoreLooksAtAllFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a/f", "1", "b/f", "1")
	start := b.turn(func() { b.set("a/f", "2") })
	b.work.after = 0
	_, err := b.restore(start.N)
	require.ErrorIs(t, err, errBroken)
	b.set("b/f", "theirs")
	b.work.after, b.work.scans = -1, 0
	out, err := b.Recover(t.Context(), b.work.open, &b.talk)
	require.NoError(t, err)
	require.Equal(t, 1, b.work.scans)
	require.Equal(t, []checkpoint.Kept{{Name: "b/f"}}, out.Kept)
	require.Equal(t, out.Now.Tree, b.take(checkpoint.Start).Tree)
}

// A tool for files says what it has changed. Whatever else differs was changed by others,
// wherever it stands among the names, and however much the watch has missed.
func TestWhatAToolSaysIsAllThatIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "m", "0", "z", "0")
	start := b.turn(func() {
		b.look(checkpoint.Work{})
		b.set("a", "user", "m", "1", "z", "user")
		b.Miss()
		b.look(checkpoint.Work{Ran: true, Only: []string{"m"}})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "a=user m=0 z=user", b.files())
	require.Equal(t, []string{"a", "z"}, keptNames(out.Kept))
	require.Empty(t, out.Unsure)

	start = b.turn(func() {
		b.look(checkpoint.Work{})
		b.set("a", "theirs", "m", "2")
		b.look(checkpoint.Work{Ran: true, Only: []string{"m"}})
	})
	b.mustRestore(start.N)
	require.Equal(t, "a=theirs m=0 z=user", b.files(), "their change comes before, and nothing after")
}

// In a volume nobody else changes files: what a command has left running there is the
// agent's, too.
func TestWhatChangesInAVolumeIsTheAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.work.as, b.work.on = b.work.dir, "volume"
	b.set("a", "0", "b", "0")
	start := b.turn(func() {
		b.look(checkpoint.Work{Ran: true})
		b.set("a", "1")
		b.look(checkpoint.Work{})
		b.set("b", "1")
		b.look(checkpoint.Work{Ran: true})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "a=0 b=0", b.files())
	require.Empty(t, out.Unsure)
}
