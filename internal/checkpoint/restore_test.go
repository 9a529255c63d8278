package checkpoint_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/treedir"
)

// talk is a conversation that only counts its messages.
type talk struct {
	messages int
	restores []int64 // that it has heard of
	fails    error   // of the next Rewind
}

func (c *talk) Place() (checkpoint.Place, int) { return place(c.messages), c.messages }

func (c *talk) Rewind(_ context.Context, to checkpoint.Entry, restore int64) error {
	if err := c.fails; err != nil {
		c.fails = nil
		return err
	}
	c.messages = to.Messages
	c.restores = append(c.restores, restore)
	return nil
}

func (c *talk) Rewound(restore int64) bool {
	n := len(c.restores)
	return n > 0 && c.restores[n-1] == restore
}

func place(messages int) checkpoint.Place { return json.RawMessage(fmt.Sprintf("%d", messages)) }

// target are the files of a directory whose steps can fail, and that may be in a volume.
type target struct {
	*treedir.Local
	of *workspace
}

type workspace struct {
	dir   string
	as    string // the directory that they belong to, if that is another one
	on    string // the volume with the files; empty for none
	after int    // steps that may be made; -1 for any number
	opens int
	scans int    // of the whole tree
	made  func() // is called after a step; may be nil
	seen  func() // is called once, when the tree was scanned; may be nil
	fails error  // of opening the files
}

func (w *workspace) open() (checkpoint.Files, error) {
	if w.fails != nil {
		return nil, w.fails
	}
	w.opens++
	l, err := treedir.OpenLocal(w.dir)
	return target{l, w}, err
}

func (t target) Dir() string { return cmp.Or(t.of.as, t.Local.ID()) }

func (t target) ID() string {
	if t.of.on != "" {
		return t.of.on
	}
	return t.Dir()
}

func (t target) Close() error {
	t.of.opens--
	return t.Local.Close()
}

func (t target) Make(ctx context.Context, s treedir.Step, content io.Reader) error {
	if t.of.after == 0 {
		return errBroken
	}
	t.of.after--
	if t.of.made != nil {
		defer t.of.made()
	}
	return t.Local.Make(ctx, s, content)
}

func (t target) Scan(ctx context.Context, yield func(treedir.Entry) error) error {
	t.of.scans++
	if seen := t.of.seen; seen != nil {
		t.of.seen = nil
		defer seen()
	}
	return t.Local.Scan(ctx, yield)
}

var errBroken = errors.New("the disk is broken")

// bench is a book with a workspace and a conversation.
type bench struct {
	t *testing.T
	*checkpoint.Book
	talk
	work   workspace
	stores string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, work: workspace{dir: real(t, t.TempDir()), after: -1}, stores: t.TempDir()}
	b.reopen()
	t.Cleanup(func() {
		require.NoError(t, b.Book.Close())
		require.Zero(t, b.work.opens, "files are closed")
	})
	return b
}

func real(t *testing.T, dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	return dir
}

// reopen opens the book as the next process does.
func (b *bench) reopen() {
	b.t.Helper()
	if b.Book != nil {
		require.NoError(b.t, b.Book.Close())
	}
	var err error
	b.Book, err = checkpoint.Open(b.t.Context(), b.stores, "log", "", false)
	require.NoError(b.t, err)
}

func (b *bench) take(kind checkpoint.Kind) checkpoint.Entry {
	b.t.Helper()
	e := checkpoint.Entry{Messages: b.messages, Note: checkpoint.Note{Kind: kind, Place: place(b.messages)}}
	e, err := b.Take(b.t.Context(), b.work.open, e)
	require.NoError(b.t, err)
	return e
}

// turn is a turn that changes files. It returns its start.
func (b *bench) turn(change func()) checkpoint.Entry {
	b.t.Helper()
	start := b.take(checkpoint.Start)
	b.messages += 2
	change()
	b.take(checkpoint.End)
	return start
}

// set writes files; an empty text removes one.
func (b *bench) set(pairs ...string) {
	b.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(b.work.dir, pairs[i])
		if pairs[i+1] == "" {
			require.NoError(b.t, os.Remove(name))
			continue
		}
		require.NoError(b.t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(b.t, os.WriteFile(name, []byte(pairs[i+1]), 0o644))
	}
}

// files returns the files as NAME=TEXT.
func (b *bench) files() string { return listing(b.t, b.work.dir) }

func listing(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all = append(all, rel+"="+string(text))
		return err
	}))
	return strings.Join(all, " ")
}

// look looks at the files before or after a call.
func (b *bench) look(w checkpoint.Work) {
	b.t.Helper()
	_, err := b.Look(b.t.Context(), b.work.open, w)
	require.NoError(b.t, err)
}

func (b *bench) restore(to int64) (checkpoint.Outcome, error) {
	return b.Book.Restore(b.t.Context(), b.work.open, to, b)
}

func (b *bench) mustRestore(to int64) checkpoint.Outcome {
	b.t.Helper()
	out, err := b.restore(to)
	require.NoError(b.t, err)
	return out
}

// collects tests that the book holds no tree that is in no log: nothing would be removed
// from the store as long as it is open.
func (b *bench) collects() {
	b.t.Helper()
	s, err := objstore.Open(b.stores)
	require.NoError(b.t, err)
	_, err = s.Collect(b.t.Context(), nil)
	require.NoError(b.t, errors.Join(err, s.Close()))
}

func keptNames(kept []checkpoint.Kept) (names []string) {
	for _, k := range kept {
		names = append(names, k.Name)
	}
	return names
}

func TestARestoreTakesTurnsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "u", "0")
	first := b.turn(func() { b.set("a", "1", "d/x", "1") })
	b.set("u", "user", "d/mine", "user")
	second := b.turn(func() { b.set("a", "2", "b", "2") })
	require.Equal(t, "a=2 b=2 d/mine=user d/x=1 u=user", b.files())

	out := b.mustRestore(second.N)
	require.Equal(t, "a=1 d/mine=user d/x=1 u=user", b.files())
	require.True(t, out.Undo)
	require.Empty(t, out.Kept)
	require.Equal(t, []int64{second.N, 5, 7}, []int64{out.To.N, out.From.N, out.Now.N})
	require.Equal(t, []int{2, 4, 2, 2}, []int{out.To.Messages, out.From.Messages, out.Now.Messages, b.messages})
	require.Equal(t, place(2), out.Now.Place)
	require.Equal(t, place(4), out.From.Place)
	require.Equal(t, []int64{6}, b.restores, "the number of its first line")
	require.Equal(t, checkpoint.Restored, out.Now.Kind)
	require.Equal(t, checkpoint.Before, out.From.Kind)

	redone, err := b.Redone()
	require.NoError(t, err)
	require.Equal(t, out.From.N, redone.N)
	out = b.mustRestore(redone.N)
	require.False(t, out.Undo)
	require.Equal(t, "a=2 b=2 d/mine=user d/x=1 u=user", b.files())
	_, err = b.Redone()
	require.ErrorIs(t, err, checkpoint.ErrNothingToRedo)

	undone, err := b.Undone(2)
	require.NoError(t, err)
	require.Equal(t, first.N, undone.N)
	out = b.mustRestore(first.N)
	require.Equal(t, "a=0 d/mine=user u=user", b.files())
	require.Equal(t, []checkpoint.Kept{{Name: "d/mine"}, {Name: "u"}}, out.Kept)
	_, err = b.Undone(1)
	require.ErrorIs(t, err, checkpoint.ErrNothingToUndo)
	require.False(t, b.Pending())
	_, err = b.restore(99)
	require.ErrorIs(t, err, checkpoint.ErrUnknown)
	_, err = b.restore(6)
	require.ErrorIs(t, err, checkpoint.ErrUnknown, "a line of a restore is no checkpoint")
}

// What was changed by both is named, with a conflict.
func TestARestoreNamesWhatItDoesNotChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "g", "0", "dir/x", "0")
	start := b.turn(func() { b.set("a", "1", "new", "1", "g", "", "dir/x", "", "kind", "file") })
	b.set("a", "user", "g", "user", "kind", "")
	b.set("kind/x", "user")
	out := b.mustRestore(start.N)
	require.Equal(t, "a=user dir/x=0 g=user kind/x=user", b.files())
	require.Equal(t, []string{"a", "g", "kind/x"}, keptNames(out.Kept))
	require.Equal(t, "it was changed meanwhile", out.Kept[0].Why)
	require.Equal(t, "something else is there meanwhile", out.Kept[1].Why)

	b = newBench(t)
	b.set("k", "0")
	start = b.turn(func() { b.set("k", "") })
	require.NoError(t, os.Mkdir(filepath.Join(b.work.dir, "k"), 0o755))
	require.Equal(t, []string{"k"}, keptNames(b.mustRestore(start.N).Kept), "once, although it is a directory now")
}

// What was unsure in a turn before the one that is taken back is no matter.
func TestOnlyWhatIsTakenBackIsUnsure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "b", "0")
	call := func() {
		b.look(checkpoint.Work{Ran: true})
	}
	b.turn(func() { b.set("a", "1"); call() })
	first := b.Entries()[1]
	second := b.turn(func() { b.set("b", "1"); call() })
	out := b.mustRestore(second.N)
	require.Equal(t, []string{"b"}, out.Unsure)
	require.Empty(t, b.mustRestore(out.From.N).Unsure, "brought back")
	require.Equal(t, []string{"b"}, b.mustRestore(first.N).Unsure)

	b = newBench(t)
	b.set("a", "0", "b", "0")
	start := b.turn(func() { b.set("a", "1"); call() })
	done := b.Entries()[1]
	b.mustRestore(start.N)
	b.turn(func() { b.set("b", "1"); call() })
	require.Equal(t, []string{"b"}, b.mustRestore(done.N).Unsure, "that it goes on elsewhere is no matter")
	require.Equal(t, "a=1 b=0", b.files())
}

// An error, or the death of the process, at any step: the next one makes the rest.
func TestAnInterruptedRestoreIsFinished(t *testing.T) {
	t.Parallel()
	for after := range 6 {
		b := newBench(t)
		b.set("a", "0", "b", "0")
		first := b.turn(func() { b.set("a", "1", "n1", "1") })
		b.set("u", "user")
		b.turn(func() { b.set("b", "2", "n2", "2") })
		b.work.after = after
		_, err := b.restore(first.N)
		if after >= 4 {
			require.NoError(t, err)
			require.Equal(t, "a=0 b=0 u=user", b.files())
			continue
		}
		require.ErrorIs(t, err, errBroken)
		require.True(t, b.Pending())
		require.Equal(t, 4, b.messages, "the files come first")
		_, err = b.Take(t.Context(), b.work.open, checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.Start}})
		require.ErrorIs(t, err, checkpoint.ErrUnfinished)
		_, err = b.Look(t.Context(), b.work.open, checkpoint.Work{})
		require.ErrorIs(t, err, checkpoint.ErrUnfinished)
		require.ErrorIs(t, b.Begin(t.Context(), checkpoint.Entry{}), checkpoint.ErrUnfinished)
		b.work.after = -1
		b.reopen()
		require.True(t, b.Pending())
		out, err := b.Recover(t.Context(), b.work.open, b)
		require.NoError(t, err)
		require.Equal(t, "a=0 b=0 u=user", b.files(), "after %d steps", after)
		require.Equal(t, first.N, out.To.N)
		require.True(t, out.Undo)
		require.Equal(t, []string{"u"}, keptNames(out.Kept))
		require.Equal(t, []int64{6}, b.restores)
		require.Zero(t, b.messages)
		require.False(t, b.Pending())
		out, err = b.Recover(t.Context(), b.work.open, b)
		require.NoError(t, err)
		require.Nil(t, out)
	}
}

// The next restore finishes the one before it, too.
func TestARestoreFinishesTheOneBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0")
	first := b.turn(func() { b.set("a", "1") })
	second := b.turn(func() { b.set("a", "2") })
	b.fails = errBroken
	_, err := b.restore(second.N)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, "a=1", b.files())
	require.Equal(t, 4, b.messages)
	out := b.mustRestore(first.N)
	require.Equal(t, "a=0", b.files())
	require.Equal(t, []int64{6, 9}, b.restores)
	require.Equal(t, 2, out.From.Messages, "the other one was over")

	// It fails again if that cannot be finished.
	b.fails = errBroken
	_, err = b.restore(out.From.N)
	require.ErrorIs(t, err, errBroken)
	b.fails = errBroken
	_, err = b.restore(first.N)
	require.ErrorIs(t, err, errBroken)
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Equal(t, "a=1", b.files())
}

// The file of a conversation may have lost its last line, and the log not.
func TestTheConversationLearnsOfARestoreThatItLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err, "an empty book has nothing to finish")
	b.set("a", "0")
	first := b.turn(func() { b.set("a", "1") })
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Empty(t, b.restores)
	b.mustRestore(first.N)
	b.restores, b.messages = nil, 0
	b.reopen()
	out, err := b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Nil(t, out)
	require.Len(t, b.restores, 1, "it has as many messages, and lacks the mark")
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Len(t, b.restores, 1)
	b.restores, b.messages = nil, 7
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Empty(t, b.restores, "it has gone on since")
	b.messages = 0
	b.fails = errBroken
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.ErrorIs(t, err, errBroken)
}

func TestARestoreWithoutFilesSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0")
	first := b.turn(func() { b.set("a", "1") })
	out, err := b.Book.Restore(t.Context(), nil, first.N, b)
	require.NoError(t, err)
	require.Equal(t, "no checkpoints are kept of the files of this runtime", out.NoFiles)
	require.Zero(t, b.messages, "the conversation goes back")
	require.Equal(t, "a=1", b.files())

	bare, err := b.Take(t.Context(), nil, checkpoint.Entry{Messages: 0, Note: checkpoint.Note{Kind: checkpoint.Start, Place: place(0)}})
	require.NoError(t, err)
	require.Equal(t, "the checkpoint has no files", b.mustRestore(bare.N).NoFiles)
	require.Equal(t, "a=1", b.files())

	was := b.work.dir
	b.work.dir = real(t, t.TempDir())
	b.set("a", "other")
	require.Equal(t, "the files of the checkpoint are those of "+was, b.mustRestore(first.N).NoFiles)
	require.Equal(t, "a=other", b.files())
	b.work.fails = errBroken
	_, err = b.restore(first.N)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "keep how it is now")
	b.work.fails = nil

	// A restore that was interrupted is finished elsewhere without files.
	b.work.dir = was
	b.messages = 2
	b.work.after = 0
	b.turn(func() { b.set("a", "2") })
	e, err := b.Undone(1)
	require.NoError(t, err)
	_, err = b.restore(e.N)
	require.ErrorIs(t, err, errBroken)
	b.work = workspace{dir: real(t, t.TempDir()), after: -1}
	done, err := b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Equal(t, "the files of the checkpoint are those of "+was, done.NoFiles)
	require.Empty(t, b.files())
}

// While another process changes the files, a restore that has not begun is dropped.
func TestARestoreIsDroppedWhileTheFilesAreInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0")
	first := b.turn(func() { b.set("a", "1") })
	held, err := objstore.Open(b.stores)
	require.NoError(t, err)
	defer held.Close()
	inside := make(chan struct{})
	leave := make(chan struct{})
	other := &blocked{workspace{dir: b.work.dir, after: -1}, inside, leave}
	done := make(chan error, 1)
	tree, _, err := held.Take(t.Context(), must(other.open()), nil, objstore.TakeOptions{})
	require.NoError(t, err)
	go func() {
		_, err := held.Apply(context.Background(), must(other.open()), objstore.Tree{}, tree, objstore.ApplyOptions{})
		done <- err
	}()
	<-inside
	_, err = b.restore(first.N)
	require.ErrorIs(t, err, objstore.ErrInUse)
	require.False(t, b.Pending(), "it was given up")
	require.Equal(t, 2, b.messages)
	close(leave)
	require.NoError(t, <-done)
	b.mustRestore(first.N)
	require.Equal(t, "a=0", b.files())
}

// blocked are files whose first step waits.
type blocked struct {
	workspace
	inside, leave chan struct{}
}

type blockedTarget struct {
	checkpoint.Files
	of *blocked
}

func (b *blocked) open() (checkpoint.Files, error) {
	f, err := b.workspace.open()
	return blockedTarget{f, b}, err
}

func (t blockedTarget) Make(ctx context.Context, s treedir.Step, content io.Reader) error {
	if t.of.inside != nil {
		close(t.of.inside)
		t.of.inside = nil
		<-t.of.leave
	}
	return t.Files.Make(ctx, s, content)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Calls of a turn: what differs in between is not taken back.
func TestARestoreTakesBackWhatCallsChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ran := checkpoint.Work{Ran: true}
	b.set("a", "0", "u", "0", "both", "0", "tool", "0")
	start := b.take(checkpoint.Start)
	b.messages += 4
	b.set("u", "1")
	b.look(checkpoint.Work{})
	b.set("a", "1", "both", "1")
	b.look(ran)
	b.set("both", "user", "new", "user")
	b.look(checkpoint.Work{})
	b.look(ran) // nothing has changed
	b.collects()
	b.set("a", "2", "made/by", "agent")
	b.look(ran)
	b.look(checkpoint.Work{})
	b.set("tool", "1", "u", "2")
	b.look(checkpoint.Work{Ran: true, Only: []string{"tool"}})
	b.set("u", "3")
	end, err := b.Take(t.Context(), b.work.open, checkpoint.Entry{Messages: 4, Note: checkpoint.Note{Kind: checkpoint.End, Place: place(4), Work: &checkpoint.Work{}}})
	require.NoError(t, err)
	require.Len(t, b.Entries(), 2, "calls are no checkpoints")
	require.Equal(t, int64(7), end.N)
	_, err = b.Find(2)
	require.ErrorIs(t, err, checkpoint.ErrUnknown)
	last, _ := b.Last()
	require.Equal(t, end.N, last.N)
	require.False(t, b.AtWork())
	b.reopen()

	out := b.mustRestore(start.N)
	require.Equal(t, "a=0 both=user new=user tool=0 u=3", b.files())
	require.Equal(t, []string{"both", "new", "u"}, keptNames(out.Kept))
	require.Equal(t, []bool{true, false, false}, []bool{out.Kept[0].Why != "", out.Kept[1].Why != "", out.Kept[2].Why != ""})
	require.Equal(t, []string{"a", "both", "made/by"}, out.Unsure, "nobody watched")
	out = b.mustRestore(out.From.N)
	require.Equal(t, "a=2 both=user made/by=agent new=user tool=1 u=3", b.files())
	require.Empty(t, out.Unsure)
}

// A process that dies in a call has made all that changed after it, as far as anybody
// knows: the user may have been there before the next one.
func TestTheLastCallIsTheAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "u", "0")
	start := b.take(checkpoint.Start)
	require.True(t, b.AtWork())
	b.messages += 2
	b.set("u", "1")
	b.look(checkpoint.Work{})
	require.True(t, b.AtWork())
	b.set("a", "1")
	b.reopen()
	require.True(t, b.AtWork())
	b.take(checkpoint.End)
	require.Equal(t, []string{"a"}, b.mustRestore(start.N).Unsure)
	require.Equal(t, "a=0 u=1", b.files())
}

func TestATurnLooksBeforeAndAfterCalls(t *testing.T) {
	t.Parallel()
	var works []checkpoint.Work
	working, fails := false, error(nil)
	turn := &checkpoint.Turn{
		Look: func(_ context.Context, _ checkpoint.Workspace, w checkpoint.Work) (bool, error) {
			works = append(works, w)
			return true, fails
		},
		Dirs: []string{"", "/workspace", "/home/me/p/"}, Apart: true, Working: func(context.Context) bool { return working },
	}
	ctx, cancel := context.WithCancel(t.Context())
	turn.Before(ctx)
	cancel()
	turn.After(ctx, true, nil)
	turn.Before(t.Context())
	turn.After(t.Context(), false, []string{"./a", "/workspace/b", "/home/me/p/c/d"})
	require.Equal(t, &checkpoint.Work{Apart: true}, turn.End(t.Context()))
	turn.Before(t.Context())
	turn.After(t.Context(), false, []string{"a", "/etc/passwd"})
	working = true
	turn.Before(t.Context())
	turn.After(t.Context(), false, []string{"a"})
	working = false
	turn.Before(t.Context())
	turn.After(t.Context(), false, nil)
	require.Equal(t, []checkpoint.Work{
		{Apart: true, Watch: true}, {Ran: true, Apart: true, Watch: true},
		{Apart: true, Watch: true}, {Ran: true, Only: []string{"a", "b", "c/d"}, Watch: true},
		{Apart: true, Watch: true}, {Ran: true, Watch: true},
		{Ran: true, Apart: true, Watch: true}, {Ran: true, Only: []string{"a"}, Watch: true},
		{Ran: true, Apart: true, Watch: true}, {Ran: true, Watch: true},
	}, works)
	fails = errBroken
	turn.Before(t.Context())
	turn.After(t.Context(), true, nil)
	turn.Before(t.Context())
	require.Len(t, works, 11, "after an error it looks no more")
	require.Equal(t, &checkpoint.Work{Ran: true, Apart: true}, turn.End(t.Context()), "the watch goes on")
	(*checkpoint.Turn)(nil).Before(t.Context())
	(*checkpoint.Turn)(nil).After(t.Context(), true, nil)
	require.Nil(t, (*checkpoint.Turn)(nil).End(t.Context()))
}

func TestHeadIsWhatGitHasCheckedOut(t *testing.T) {
	t.Parallel()
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"a branch":       {[]string{"HEAD", "ref: refs/heads/main\n", "refs/heads/main", one + "\n"}, one},
		"packed":         {[]string{"HEAD", "ref: refs/heads/main\n", "packed-refs", "# pack-refs\n" + two + " refs/heads/maint\n" + one + " refs/heads/main\n^" + two + "\n"}, one},
		"loose first":    {[]string{"HEAD", "ref: refs/heads/main\n", "refs/heads/main", two, "packed-refs", one + " refs/heads/main\n"}, two},
		"detached":       {[]string{"HEAD", one}, one},
		"sha256":         {[]string{"HEAD", one + "222222222222222222222222"}, one + "222222222222222222222222"},
		"too short":      {[]string{"HEAD", one[1:]}, ""},
		"no hexadecimal": {[]string{"HEAD", "g" + one[1:]}, ""},
		"upper case":     {[]string{"HEAD", "A" + one[1:]}, ""},
		"unborn":         {[]string{"HEAD", "ref: refs/heads/main\n"}, ""},
		"bad ref":        {[]string{"HEAD", "ref: ../x\n", "x", one}, ""},
		"a directory":    {[]string{"HEAD", "ref: refs/heads\n", "refs/heads/x", one}, ""},
		"none":           {[]string{"config", "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for i := 0; i < len(tt.files); i += 2 {
				b.set(".git/"+tt.files[i], tt.files[i+1])
			}
			require.Equal(t, tt.want, b.take(checkpoint.Start).Head)
		})
	}
	require.Empty(t, newBench(t).take(checkpoint.Start).Head)
}

func TestCompareTellsTheDifferences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "gone", "g", "mode", "m", "large", "0123456789", ".git/x", "0", "same", "s", "d/x", "1")
	require.NoError(t, os.Symlink("to", filepath.Join(b.work.dir, "link")))
	one := b.take(checkpoint.Start)
	b.set("a", "11", "gone", "", "new", "n", "large", "0123456789x", ".git/x", "1", "d/x", "", "e/y", "2")
	require.NoError(t, os.Chmod(filepath.Join(b.work.dir, "mode"), 0o755))
	require.NoError(t, os.Remove(filepath.Join(b.work.dir, "link")))
	require.NoError(t, os.Symlink("there", filepath.Join(b.work.dir, "link")))
	two := b.take(checkpoint.End)
	compare := func(from, to, most int64, w checkpoint.Workspace) (all []string, err error) {
		err = b.Compare(t.Context(), w, from, to, most, func(d checkpoint.Difference) error {
			all = append(all, fmt.Sprintf("%s %q %q %c %c %d %d %t %t", d.Name, d.Old, d.New, max(d.OldKind, '-'), max(d.NewKind, '-'), d.OldSize, d.NewSize, d.Mode, d.TooLarge))
			return nil
		})
		slices.Sort(all)
		return all, err
	}
	want := []string{
		`a "0" "11" f f 1 2 false false`, `d/x "1" "" f - 1 0 false false`, `e/y "" "2" - f 0 1 false false`, `gone "g" "" f - 1 0 false false`,
		`large "" "" f f 10 11 false true`, `link "to" "there" l l 0 0 false false`, `mode "m" "m" f f 1 1 true false`, `new "" "n" - f 0 1 false false`,
	}
	got, err := compare(one.N, two.N, 10, nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = compare(one.N, 0, 10, b.work.open)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = compare(one.N, two.N, 11, nil)
	require.NoError(t, err)
	require.Contains(t, got, `large "0123456789" "0123456789x" f f 10 11 false false`)
	_, err = compare(one.N, 0, 10, nil)
	require.ErrorContains(t, err, "checkpoint 0 has no files")
	_, err = compare(99, 0, 10, b.work.open)
	require.ErrorIs(t, err, checkpoint.ErrUnknown)
	b.work.fails = errBroken
	_, err = compare(0, one.N, 10, b.work.open)
	require.ErrorIs(t, err, errBroken)
	b.work.fails = nil
	require.ErrorIs(t, b.Compare(t.Context(), nil, one.N, two.N, 10, func(checkpoint.Difference) error { return errBroken }), errBroken)
}

func TestExportAndMoveFillAnEmptyWorkspace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Error(t, b.Move(t.Context(), b.work.open), "there is no checkpoint")
	b.set("a", "0", ".git/HEAD", "x")
	require.NoError(t, os.Mkdir(filepath.Join(b.work.dir, "empty"), 0o755))
	start := b.turn(func() { b.set("a", "1") })
	require.True(t, b.HasFiles(t.Context(), start))
	to := &workspace{dir: real(t, t.TempDir()), after: -1}
	require.NoError(t, b.Export(t.Context(), start.N, to.open))
	require.Equal(t, ".git/HEAD=x a=0", listing(t, to.dir))
	require.DirExists(t, filepath.Join(to.dir, "empty"))
	require.ErrorContains(t, b.Export(t.Context(), start.N+1, to.open), "restore a:", "it is not empty")
	require.Equal(t, ".git/HEAD=x a=0", listing(t, to.dir))
	require.ErrorIs(t, b.Export(t.Context(), 99, to.open), checkpoint.ErrUnknown)
	to.fails = errBroken
	require.ErrorIs(t, b.Export(t.Context(), start.N, to.open), errBroken)
	require.ErrorIs(t, b.Move(t.Context(), to.open), errBroken)
	require.Zero(t, to.opens)

	// A restore that is interrupted begins anew where the files have moved.
	b.work.after = 0
	_, err := b.restore(start.N)
	require.ErrorIs(t, err, errBroken)
	b.work = workspace{dir: real(t, t.TempDir()), after: -1}
	require.NoError(t, b.Move(t.Context(), b.work.open))
	require.Equal(t, ".git/HEAD=x a=1", b.files())
	b.reopen()
	for _, e := range b.Entries() {
		require.Equal(t, b.work.dir, e.Dir)
	}
	_, err = b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Equal(t, ".git/HEAD=x a=0", b.files())

	bare, err := b.Take(t.Context(), nil, checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.End}})
	require.NoError(t, err)
	require.False(t, b.HasFiles(t.Context(), bare))
	require.NoError(t, b.Export(t.Context(), bare.N, to.open), "it has none")
	require.ErrorContains(t, b.Move(t.Context(), b.work.open), "has no files")
	require.Zero(t, to.opens)
}

// The first checkpoint can be all that there is, and what was taken back can be redone
// elsewhere, too.
func TestAMoveKeepsAllCheckpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	move := func() {
		b.work = workspace{dir: real(t, t.TempDir()), after: -1}
		require.NoError(t, b.Move(t.Context(), b.work.open))
	}
	b.set("a", "0")
	start := b.take(checkpoint.Start)
	move()
	require.Equal(t, "a=0", b.files())
	b.messages += 2
	b.set("a", "1")
	b.take(checkpoint.End)
	b.mustRestore(start.N)
	move()
	require.Equal(t, "a=0", b.files())
	redone, err := b.Redone()
	require.NoError(t, err)
	b.mustRestore(redone.N)
	require.Equal(t, "a=1", b.files())
}

func TestSettleAddsWhatIsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	settle := func() int {
		e := checkpoint.Entry{Messages: b.messages, Note: checkpoint.Note{Kind: checkpoint.End, Place: place(b.messages)}}
		require.NoError(t, b.Settle(t.Context(), b.work.open, e))
		return len(b.Entries())
	}
	_, found := b.Last()
	require.False(t, found)
	b.set("a", "0")
	require.Equal(t, 1, settle())
	require.Equal(t, 1, settle())
	b.collects()
	b.set("a", "1")
	require.Equal(t, 2, settle())
	b.messages++
	require.Equal(t, 3, settle())
	last, found := b.Last()
	require.True(t, found)
	require.Equal(t, int64(3), last.N)
	b.work.fails = errBroken
	require.ErrorIs(t, b.Settle(t.Context(), b.work.open, checkpoint.Entry{}), errBroken)
	b.work.fails = nil
}

// volume has the files of a bench in a volume, whose content is another directory.
func (b *bench) toVolume() (host string) {
	host = b.work.dir
	in := real(b.t, b.t.TempDir())
	require.NoError(b.t, os.CopyFS(in, os.DirFS(host)))
	b.work = workspace{dir: in, as: host, on: "volume v", after: -1}
	return host
}

func TestFilesComeHomeFromAVolume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.WentAway(t.Context(), nil))
	b.set("a", "0", "both", "0")
	b.take(checkpoint.Start)
	host := b.toVolume()
	require.NoError(t, b.WentAway(t.Context(), b.work.open))
	require.NoError(t, b.WentAway(t.Context(), b.work.open), "it is known")
	away, is := b.Away()
	require.True(t, is)
	require.Equal(t, "volume v", away.On)
	b.messages += 2
	b.set("a", "1", "both", "1", "new", "1")
	require.Equal(t, int64(3), b.take(checkpoint.End).N, "it was noted once")
	b.messages += 2
	b.set("a", "lost")
	b.reopen()
	away, is = b.Away()
	require.True(t, is)
	require.Equal(t, host, away.Dir)

	// The process was killed; the directory is as it was but for what the user did.
	b.work = workspace{dir: host, after: -1}
	b.set("both", "user", "mine", "user")
	b.work.after = 0
	_, err := b.BringHome(t.Context(), b.work.open, b)
	require.ErrorIs(t, err, errBroken)
	b.work.after = -1
	b.reopen()
	home, err := b.BringHome(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Equal(t, "a=1 both=user mine=user new=1", b.files())
	require.Equal(t, []string{"both"}, keptNames(home.Kept))
	require.NotNil(t, home.Back)
	require.Equal(t, 2, b.messages)
	require.Equal(t, "volume v", home.Away.On)
	_, is = b.Away()
	require.False(t, is)
	for _, e := range b.Entries() {
		require.Empty(t, e.On)
	}
	home, err = b.BringHome(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Empty(t, home.Kept)
	require.Nil(t, home.Back)
	require.Equal(t, "a=1 both=user mine=user new=1", b.files())
}

func TestFilesThatCameHomeAreNotAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, is := b.Away()
	require.False(t, is)
	b.set("a", "0")
	b.take(checkpoint.Start)
	host := b.toVolume()
	b.set("a", "1")
	b.take(checkpoint.End)
	require.NoError(t, b.CameHome(t.Context(), "/elsewhere"))
	_, is = b.Away()
	require.True(t, is)
	require.NoError(t, os.WriteFile(filepath.Join(host, "a"), []byte("1"), 0o644))
	require.NoError(t, b.CameHome(t.Context(), host))
	_, is = b.Away()
	require.False(t, is)
	require.NoError(t, b.CameHome(t.Context(), host))

	// Nothing is taken back of the conversation where the checkpoint has all of it.
	b.turn(func() { b.set("a", "2") })
	b.work = workspace{dir: host, after: -1}
	home, err := b.BringHome(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Nil(t, home.Back)
	require.Empty(t, home.Kept)
	require.Equal(t, "a=2", b.files())
	require.Empty(t, b.restores)
}

// A conversation may begin in a volume: then what was copied there is what its first
// checkpoint has.
func TestFilesComeHomeThatWereAlwaysAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "b", "0")
	host := b.toVolume()
	b.take(checkpoint.Start)
	b.set("a", "1")
	b.take(checkpoint.End)
	b.work = workspace{dir: host, after: -1}
	b.set("b", "user")
	home, err := b.BringHome(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Empty(t, home.Kept)
	require.Equal(t, "a=1 b=user", b.files())
}

// A restore in a volume that goes with its process begins anew in the directory.
func TestARestoreOfAVolumeIsFinishedAtHome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0", "b", "0")
	first := b.turn(func() { b.set("a", "1") })
	host := b.toVolume()
	b.set("u", "user")
	b.turn(func() { b.set("b", "2") })
	b.work.after = 1
	_, err := b.restore(first.N)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, "a=1 b=0 u=user", b.files())
	b.work = workspace{dir: host, after: -1}
	b.reopen()
	b.messages++
	home, err := b.BringHome(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Nil(t, home.Back, "the restore tells")
	require.Equal(t, "a=1 b=2 u=user", b.files())
	out, err := b.Recover(t.Context(), b.work.open, b)
	require.NoError(t, err)
	require.Empty(t, out.NoFiles)
	require.Equal(t, "a=0 b=0 u=user", b.files())
}

// A repository that the agent has removed is put back, and named if others have changed
// it since. See also the tests with git in the root.
func TestALostRepositoryIsPutBackOrNamed(t *testing.T) {
	t.Parallel()
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	object := func(id string) string { return ".git/objects/" + id[:2] + "/" + id[2:] }
	lose := func(b *bench) { require.NoError(b.t, os.RemoveAll(filepath.Join(b.work.dir, ".git"))) }
	other := func(b *bench) {
		lose(b)
		b.set(".git/HEAD", "ref: refs/heads/main", ".git/refs/heads/main", two, object(two), "2")
	}
	for name, tt := range map[string]struct {
		was         string // a file .git, instead of a directory
		turn, later func(b *bench)
		back        bool
		kept        bool
	}{
		"removed":                   {turn: lose, back: true},
		"replaced":                  {turn: other, back: true},
		"replaced, and staged into": {turn: other, later: func(b *bench) { b.set(".git/index", "2") }, back: true},
		"replaced, changed":         {turn: other, later: func(b *bench) { b.set(".git/refs/heads/mine", two) }, kept: true},
		"removed, made anew":        {turn: lose, later: other, kept: true},
		"lost by others":            {turn: func(*bench) {}, later: lose, kept: true},
		"its branch is gone":        {turn: func(b *bench) { b.set(".git/refs/heads/main", "") }, back: true},
		"an object is gone":         {turn: func(b *bench) { b.set(object(one), "") }, back: true},
		"a file is there":           {turn: func(b *bench) { lose(b); b.set(".git", "gitdir: /elsewhere") }, back: true},
		"a link is there": {turn: func(b *bench) {
			lose(b)
			require.NoError(t, os.Symlink("elsewhere", filepath.Join(b.work.dir, ".git")))
		}, back: true},
		"a file was there": {was: ".git", turn: other, back: true},
		"committed":        {turn: func(b *bench) { b.set(".git/refs/heads/main", two, object(two), "2") }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.set("a", "0", "z", "0")
			if tt.was != "" {
				b.set(tt.was, "gitdir: /elsewhere")
			} else {
				b.set(".git/HEAD", "ref: refs/heads/main", ".git/refs/heads/main", one, object(one), "1", ".git/config", "mine")
			}
			was := b.files()
			start := b.turn(func() { tt.turn(b); b.set("a", "1", "z", "1") })
			if tt.later != nil {
				tt.later(b)
			}
			out := b.mustRestore(start.N)
			var want []string
			if tt.back {
				want = []string{".git"}
				if tt.later == nil {
					require.Equal(t, was, b.files())
				}
				if tt.was == "" {
					require.Equal(t, one, out.Now.Head)
				}
			}
			require.Equal(t, want, out.Repositories)
			if tt.kept {
				require.Len(t, out.Kept, 1, "it is named once")
				require.Equal(t, ".git", out.Kept[0].Name)
				require.Contains(t, out.Kept[0].Why, fmt.Sprintf("checkpoint %d has it", start.N))
			} else {
				require.Empty(t, out.Kept)
			}
		})
	}
}

// Refs in a table are not read, but that there are none any more is seen.
func TestARepositoryWithARefTableIsPutBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set(".git/HEAD", "ref: refs/heads/.invalid", ".git/reftable/tables.list", "x")
	was := b.files()
	start := b.turn(func() {
		require.NoError(t, os.RemoveAll(filepath.Join(b.work.dir, ".git")))
		b.set(".git/HEAD", "ref: refs/heads/main")
	})
	require.Equal(t, []string{".git"}, b.mustRestore(start.N).Repositories)
	require.Equal(t, was, b.files())
}

// Several undos are taken back one by one.
func TestUndosAreRedoneOneByOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.Redone()
	require.ErrorIs(t, err, checkpoint.ErrNothingToRedo)
	b.set("a", "0")
	var starts []checkpoint.Entry
	for i := range 3 {
		starts = append(starts, b.turn(func() { b.set("a", fmt.Sprint(i+1)) }))
	}
	for n := 1; n <= 4; n++ {
		e, err := b.Undone(n)
		if n == 4 {
			require.ErrorIs(t, err, checkpoint.ErrNothingToUndo)
			require.ErrorContains(t, err, "3 turns")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, starts[3-n].N, e.N)
	}
	_, err = b.Undone(0)
	require.ErrorIs(t, err, checkpoint.ErrNothingToUndo)
	for _, want := range []string{"a=2", "a=1", "a=0"} {
		e, err := b.Undone(1)
		require.NoError(t, err)
		b.mustRestore(e.N)
		require.Equal(t, want, b.files())
	}
	for _, want := range []string{"a=1", "a=2", "a=3"} {
		e, err := b.Redone()
		require.NoError(t, err)
		b.mustRestore(e.N)
		require.Equal(t, want, b.files())
	}
	_, err = b.Redone()
	require.ErrorIs(t, err, checkpoint.ErrNothingToRedo)
}

// A tool may name a file otherwise than the tree does: then all is the agent's, and unsure.
func TestAFileThatHasAnotherNameIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("real/x", "0")
	start := b.turn(func() {
		b.set("real/x", "1")
		b.look(checkpoint.Work{Ran: true, Only: []string{"link/x"}})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "real/x=0", b.files())
	require.Equal(t, []string{"real/x"}, out.Unsure)
}

// A long log loses its oldest lines, and those of calls in which nobody else changed
// anything; turns are taken back as before.
func TestALongLogKeepsWhoChangedWhat(t *testing.T) {
	t.Parallel()
	t.Run("sure", func(t *testing.T) { longLog(t, checkpoint.Work{Ran: true, Only: []string{"a", "d/e"}}) })
	t.Run("unsure", func(t *testing.T) { longLog(t, checkpoint.Work{Ran: true}) })
}

func longLog(t *testing.T, work checkpoint.Work) {
	t.Parallel()
	b := newBench(t)
	for range 985 {
		require.NoError(t, b.Begin(t.Context(), checkpoint.Entry{}))
	}
	b.set("a", "0", "u", "0")
	start := b.turn(func() {
		for i := range 4 {
			b.set("a", fmt.Sprint("a", i), "d/e", fmt.Sprint(i))
			b.look(work)
		}
		b.set("u", "user")
		b.look(checkpoint.Work{})
		b.set("a", "last", "d/e", "last")
		b.look(work)
	})
	for range 10 {
		require.NoError(t, b.Begin(t.Context(), checkpoint.Entry{}))
	}
	b.take(checkpoint.Start)
	b.reopen()
	require.Len(t, b.Entries(), 3)
	b.messages += 2
	b.take(checkpoint.End)
	b.mustRestore(start.N)
	require.Equal(t, "a=0 u=user", b.files())
}

// What a watch tells is others', and stays so in a long log. It does not tell of links.
func TestWhatAWatchTellsStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	watched := checkpoint.Work{Ran: true, Apart: true, Watch: true}
	b.look(checkpoint.Work{Watch: true}) // before there is any checkpoint
	for range 995 {
		require.NoError(t, b.Begin(t.Context(), checkpoint.Entry{}))
	}
	b.set("u", "0")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		b.set("u", "user", "d/x", "user", "d-x", "user")
		require.NoError(t, os.Symlink("u", filepath.Join(b.work.dir, "l1")))
		b.look(watched)
		require.NoError(t, os.Symlink("u", filepath.Join(b.work.dir, "l2")))
		b.look(watched)
	})
	for range 5 {
		require.NoError(t, b.Begin(t.Context(), checkpoint.Entry{}))
	}
	b.take(checkpoint.Start)
	b.reopen()
	b.messages += 2
	b.take(checkpoint.End)
	out := b.mustRestore(start.N)
	require.Equal(t, "d/x=user d-x=user u=user", b.files())
	require.ElementsMatch(t, []string{"d-x", "d/x", "u"}, keptNames(out.Kept))
	require.Equal(t, []string{"l1", "l2"}, out.Unsure)
}

// What is written through the mount that commands share with others may be theirs.
func TestAWatchTellsNothingOfCommandsOfTheSameMount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		b.set("a", "1")
		b.look(checkpoint.Work{Ran: true, Watch: true})
	})
	require.Equal(t, []string{"a"}, b.mustRestore(start.N).Unsure)
	require.Equal(t, "a=0", b.files())
}

// A repository that others have made in the place of one that a command removed stays, and
// so do more files of theirs than a line of the log has.
func TestWhatOthersMakeDuringACommandStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b.set(".git/HEAD", "ref: refs/heads/main", ".git/refs/heads/main", one, ".git/objects/11/"+one[2:], "1")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		require.NoError(t, os.RemoveAll(filepath.Join(b.work.dir, ".git")))
		b.set(".git/HEAD", "ref: refs/heads/main", ".git/refs/heads/main", two, ".git/objects/22/"+two[2:], "2")
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
	})
	theirs := b.files()
	out := b.mustRestore(start.N)
	require.Equal(t, theirs, b.files())
	require.Equal(t, []string{".git"}, keptNames(out.Kept))

	const many = 5001
	start = b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		for i := range many {
			b.set(fmt.Sprintf("d/%d", i), "user")
		}
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
	})
	theirs = b.files()
	b.mustRestore(start.N)
	require.Equal(t, theirs, b.files())
}

// What has no files cannot be brought home, wherever they are.
func TestACheckpointWithoutFilesIsNotAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.set("a", "0")
	b.toVolume()
	_, err := b.Take(t.Context(), nil, checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.Start, Place: place(0)}})
	require.NoError(t, err)
	require.NoError(t, b.WentAway(t.Context(), b.work.open))
	_, is := b.Away()
	require.False(t, is)
}
