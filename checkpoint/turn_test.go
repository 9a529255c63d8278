package checkpoint_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/sandbox"
)

// heldRuntime is a runtime whose next checkpoint of files, once it has begun, waits
// until let is called: it holds the lock of the store, as one who tidies up there does.
type heldRuntime struct {
	pygent.Runtime
	t     *testing.T
	store string

	mu   sync.Mutex // guards what follows
	next bool
	lock *os.File
}

func (h *heldRuntime) Unwrap() pygent.Runtime { return h.Runtime }

// OpenWorkTree is how an agent comes to the files.
func (h *heldRuntime) OpenWorkTree() (*sandbox.WorkTree, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next {
		h.next = false
		f, err := os.OpenFile(filepath.Join(h.store, "lock"), os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		h.lock = f
		if err := filelock.Lock(f); err != nil {
			return nil, err
		}
	}
	rt, _ := pygent.RuntimeAs[interface {
		OpenWorkTree() (*sandbox.WorkTree, error)
	}](h.Runtime)
	return rt.OpenWorkTree()
}

// hold holds up the next checkpoint.
func (h *heldRuntime) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = true
}

// free holds up none.
func (h *heldRuntime) free() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = false
}

// let lets it go on.
func (h *heldRuntime) let() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lock != nil {
		require.NoError(h.t, filelock.Close(h.lock))
		h.lock = nil
	}
}

// openHeld opens an agent as openKeeper does, on a runtime whose checkpoints can be
// held up.
func openHeld(t *testing.T, base string) (*keeper, *heldRuntime) {
	t.Helper()
	return openHeldAt(t, base, func(*heldRuntime) {})
}

// openHeldAt is openHeld with something to do before there is an agent.
func openHeldAt(t *testing.T, base string, before func(*heldRuntime)) (*keeper, *heldRuntime) {
	t.Helper()
	k := &keeper{t: t, dir: filepath.Join(base, "work"), base: base}
	require.NoError(t, os.MkdirAll(k.dir, 0o755))
	local, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(k.dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Cleanup()) })
	held := &heldRuntime{Runtime: local, t: t, store: filepath.Join(base, "trees")}
	before(held)
	k.Agent, err = pygent.New(pygent.WithRuntime(held), pygent.WithModel(obedient()),
		pygent.WithHistoryFile(filepath.Join(base, "history.json")), checkpoint.Keep(held.store), pygent.OnEvent(k.events.add))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	t.Cleanup(held.let)
	return k, held
}

// ofType returns the events of a type, and those before and after the first of them.
func (l *eventList) ofType(want pygent.EventType) (events []pygent.Event, before, after pygent.EventType) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.all {
		switch {
		case e.Type == want:
			events = append(events, e)
			if len(events) == 1 && i > 0 {
				before = l.all[i-1].Type
			}
		case len(events) > 0 && after == "":
			after = e.Type
		}
	}
	return events, before, after
}

func TestARunTellsThatItWaitsForACheckpoint(t *testing.T) {
	t.Parallel()
	k, held := openHeld(t, t.TempDir())
	held.hold()
	_, err := k.RunUntilStop(t.Context(), "echo 1 > a", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventKeeping {
			held.let()
		}
	}))
	require.NoError(t, err)
	told, before, after := k.events.ofType(pygent.EventKeeping)
	require.NotEmpty(t, told)
	require.Equal(t, pygent.EventMessage, before)
	require.Equal(t, pygent.EventToolCall, after)
	require.Equal(t, "saving the files of the workspace", told[0].Text)
	require.Equal(t, &pygent.ProgressInfo{Text: told[0].Text}, told[0].Progress)
	require.Equal(t, []pygent.CheckpointKind{"start", "end"}, kinds(k))

	k.turn("echo 2 > a")
	again, _, _ := k.events.ofType(pygent.EventKeeping)
	require.Equal(t, told, again, "nothing is told of a checkpoint that is there in time")
	k.undo(1)
	require.Equal(t, map[string]string{"a": "1\n"}, k.files())
}

// interrupt makes a turn, and interrupts it once it waits for the checkpoint.
func (k *keeper) interrupt(script string) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	result, err := k.RunUntilStop(ctx, script, pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventKeeping {
			cancel()
		}
	}))
	require.ErrorIs(k.t, err, context.Canceled)
	require.Equal(k.t, pygent.StatusCancelled, result.Status)
	require.Empty(k.t, k.files(), "no call has run")
}

// hasKeptFiles requires that there are checkpoints of these kinds, all of them with files.
func (k *keeper) hasKeptFiles(want ...pygent.CheckpointKind) {
	k.t.Helper()
	require.Equal(k.t, want, kinds(k))
	for _, c := range k.Checkpoints() {
		require.True(k.t, c.Files, c.ID)
	}
}

func (k *keeper) hasNotWarned() {
	k.t.Helper()
	require.Zero(k.t, k.events.count(func(e pygent.Event) bool { return e.Type == pygent.EventWarning }))
}

func TestAWaitForACheckpointIsInterrupted(t *testing.T) {
	t.Parallel()
	k, held := openHeld(t, t.TempDir())
	held.hold()
	k.interrupt("echo 1 > a")
	held.let()
	k.turn("echo 2 > b")
	k.write("mine", "user")
	k.hasKeptFiles("start", "end", "start", "end")
	k.undo(1)
	require.Equal(t, map[string]string{"mine": "user"}, k.files())
	k.undo(1)
	require.Equal(t, map[string]string{"mine": "user"}, k.files())
	require.Empty(t, k.said())
	k.hasNotWarned()
}

func TestAnAgentThatIsClosedLeavesTheCheckpointToTheNext(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	k, held := openHeld(t, base)
	held.hold()
	k.interrupt("echo 1 > a")
	require.NoError(t, k.Close())
	k.hasNotWarned()
	held.let()

	k = openKeeper(t, base)
	k.hasKeptFiles("start", "end")
	k.turn("echo 2 > b")
	k.undo(1)
	require.Empty(t, k.files())
	require.Equal(t, 1, strings.Count(strings.Join(k.said(), "\n"), "echo 1"))
}

func TestARestoreTellsThatItWaitsForACheckpoint(t *testing.T) {
	t.Parallel()
	k, held := openHeld(t, t.TempDir())
	k.turn("echo 1 > a")
	before, _, _ := k.events.ofType(pygent.EventKeeping)
	require.Empty(t, before)
	held.hold()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := k.RunUntilStop(ctx, "echo 2 > a", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventKeeping {
			cancel()
		}
	}))
	require.ErrorIs(t, err, context.Canceled)
	waits := len(first(k.events.ofType(pygent.EventKeeping)))
	done := make(chan error, 1)
	go func() {
		_, err := k.Undo(t.Context(), 2)
		done <- err
	}()
	require.Eventually(t, func() bool { return len(first(k.events.ofType(pygent.EventKeeping))) > waits }, 20*time.Second, 5*time.Millisecond)
	held.let()
	require.NoError(t, <-done)
	require.Empty(t, k.files())
}

func first[T any](a T, _, _ pygent.EventType) T { return a }

// A process that ends closes its agent while the agent is at work.
func TestAnAgentThatIsClosedAtWorkLeavesTheCheckpointToTheNext(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	k, held := openHeld(t, base)
	k.write("mine", "user")
	held.hold()
	var once sync.Once
	closed := make(chan error, 1)
	_, err := k.RunUntilStop(t.Context(), "echo 1 > a", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventKeeping {
			once.Do(func() { go func() { closed <- k.Close() }() })
		}
	}))
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
	require.NoError(t, <-closed)
	k.hasNotWarned()
	held.let()

	k = openKeeper(t, base)
	k.hasKeptFiles("start", "end")
	k.turn("echo 2 > b")
	k.hasNotWarned()
	k.undo(2)
	require.Equal(t, map[string]string{"mine": "user"}, k.files())
}

// After a turn that was killed there are two checkpoints to make, and then the one at the
// start of the next turn. Whoever waits sees the files once.
func TestTheFilesOfAKilledTurnAreCountedOnce(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	k, held := openHeld(t, base)
	held.hold()
	k.interrupt("echo 1 > a")
	require.NoError(t, k.Close())
	held.let()
	for _, name := range []string{"a", "b", "c"} {
		k.write(name, name)
	}

	k, held = openHeldAt(t, base, (*heldRuntime).hold)
	var far []pygent.ProgressInfo
	_, err := k.RunUntilStop(t.Context(), "echo 2 > a", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		switch {
		case e.Type == pygent.EventToolCall:
			held.free()
		case e.Type == pygent.EventKeeping:
			far = append(far, *e.Progress)
			held.hold() // the next one
			held.let()
		}
	}))
	require.NoError(t, err)
	require.Equal(t, []pygent.CheckpointKind{"start", "end", "start", "end"}, kinds(k))
	const words = "saving the files of the workspace"
	// On a busy machine the next checkpoint is waited for so long that it is told as well.
	require.Equal(t, []pygent.ProgressInfo{{Text: words}, {Text: words, Current: 3, Total: 3}}, slices.Compact(far))
	k.undo(1)
	require.Equal(t, map[string]string{"a": "a", "b": "b", "c": "c"}, k.files())
}
