package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// appendTo adds a line to a file of the workspace, as a user does.
func (k *keeper) appendTo(name, line string) {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(k.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(k.t, err)
	_, err = f.WriteString(line)
	require.NoError(k.t, err)
	require.NoError(k.t, f.Close())
}

// What the user changes while the model is asked, or while a call is, is the user's.
func TestUndoKeepsWhatOthersChangedBetweenCalls(t *testing.T) {
	t.Parallel()
	var k *keeper
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("write_file", map[string]any{"path": "a", "content": "agent 1\n"}),
		testkit.CallBash("echo 2 >> a; echo new > b; rm gone"),
		pygenttest.Call("edit_file", map[string]any{"path": "both", "old_text": "0", "new_text": "agent"}),
		testkit.CallBash("mv moved.user moved; cat mine >/dev/null"),
		pygenttest.Text("done"),
	)
	step := 0
	asked := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		step++
		k.appendTo("notes", fmt.Sprintf("user %d\n", step))
		k.write(fmt.Sprint("mine", step), "user")
		switch step {
		case 3:
			k.appendTo("a", "user\n")
			k.write("moved.user", "user")
		case 4:
			k.appendTo("both", "user\n")
		}
		return model.Chat(ctx, req)
	})
	k = openKeeper(t, t.TempDir(), pygent.WithModel(asked))
	k.write("notes", "0\n")
	k.write("both", "0\n")
	k.write("gone", "g")
	k.turn("go")
	done := k.undo(1)
	require.Equal(t, contents{
		"notes": "0\nuser 1\nuser 2\nuser 3\nuser 4\nuser 5\n", "both": "agent\nuser\n", "gone": "g", "moved.user": "user",
		"a": "agent 1\n2\nuser\n", "mine1": "user", "mine2": "user", "mine3": "user", "mine4": "user", "mine5": "user",
	}, k.files())
	require.Subset(t, kept(done), []string{"a", "both", "notes", "mine2", "mine5", "moved.user"})
	for _, f := range done.Kept {
		require.Equal(t, f.Path == "a" || f.Path == "both", f.Why != "", "%v", f)
	}
	k.redo()
	require.Equal(t, "user", k.files()["mine1"])
	require.NotContains(t, k.files(), "gone")
}

// While a command runs, the kernel tells what others write, if this process may ask.
func TestUndoKeepsWhatOthersChangedWhileACommandRan(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pygent.Option{
		"local": nil, "docker": {pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if opts != nil {
				testkit.RequireDocker(t)
			}
			k := openKeeper(t, t.TempDir(), opts...)
			if os.Geteuid() != 0 {
				t.Skip("only root may watch writers")
			}
			k.write("notes", "0\n")
			k.write("theirs", "0\n")
			require.NoError(t, os.WriteFile(filepath.Join(k.base, "outside"), []byte("user"), 0o600))
			result := make(chan error, 1)
			go func() {
				_, err := k.RunUntilStop(t.Context(), "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo 1 > theirs; echo 1 > made; rm go", pygent.WithEndOnReply())
				result <- err
			}()
			require.Eventually(t, func() bool { _, err := os.Lstat(filepath.Join(k.dir, "begun")); return err == nil }, time.Minute, 5*time.Millisecond)
			k.appendTo("notes", "user\n")
			k.write("mine.tmp", "user")
			require.NoError(t, os.Rename(filepath.Join(k.dir, "mine.tmp"), filepath.Join(k.dir, "mine")))
			// What the kernel does not tell is named.
			require.NoError(t, os.Rename(filepath.Join(k.base, "outside"), filepath.Join(k.dir, "moved")))
			require.NoError(t, os.Symlink("notes", filepath.Join(k.dir, "link")))
			k.write("go", "")
			require.NoError(t, <-result)
			done := k.undo(1)
			require.Equal(t, contents{"notes": "0\nuser\n", "mine": "user", "theirs": "0\n"}, k.files())
			require.Equal(t, []string{"mine", "notes"}, kept(done))
			require.Equal(t, []string{"begun", "link", "made", "moved", "theirs"}, done.Unsure)
			k.redo()
			require.Equal(t, contents{"notes": "0\nuser\n", "mine": "user", "theirs": "1\n", "made": "1\n", "begun": "", "moved": "user", "link": "0\nuser\n"}, k.files())
		})
	}
}

// Two that work in one directory say so, and neither takes back what the other did.
func TestTwoSessionsInOneDirectoryKnowOfEachOther(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	const words = "1 other session works in this directory"
	one := openKeeper(t, base)
	one.turn("echo 1 > one")
	require.Zero(t, one.events.saying(words))
	two := openKeeper(t, base, pygent.WithHistoryFile(filepath.Join(base, "two.json")))
	two.turn("echo 2 > two")
	require.Equal(t, 1, two.events.saying(words), "at the start")
	one.turn("echo 3 >> one")
	require.Equal(t, 1, one.events.saying(words), "at the next turn")
	one.undo(2)
	require.Equal(t, contents{"two": "2\n"}, two.files())
	one.redo()
	two.undo(1)
	require.Equal(t, contents{"one": "1\n3\n"}, two.files())
}

// With a writer beside that stops at nothing, turns are taken back and brought back: no
// line of the writer's is ever lost.
func TestNothingOfAWriterBesideIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a hundred turns")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	k := openKeeper(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan map[string]string, 1)
	go func() {
		all := map[string]string{}
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprintf("w%d", n%7)
			if n%3 == 0 {
				name = fmt.Sprintf("new%d", n)
			}
			line := fmt.Sprintf("writer %d\n", n)
			all[name] += line
			f, err := os.OpenFile(filepath.Join(k.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			time.Sleep(time.Duration(n%30) * time.Millisecond) // it is a load, which has files open, and nothing waits for it
			if err == nil {
				_, err = f.WriteString(line)
			}
			if err != nil || f.Close() != nil {
				break
			}
		}
		written <- all
	}()
	random := rand.New(rand.NewPCG(1, 2))
	turns := 0
	for range 100 {
		switch n := random.IntN(4); {
		case n == 0 && turns > 0:
			back := 1 + random.IntN(min(turns, 3))
			k.undo(back)
			turns -= back
		default:
			k.turn(fmt.Sprintf("echo %d >> agent%d; echo 1 > made%d; sleep 0.0%d; rm -f made%d", random.IntN(1000), random.IntN(5), random.IntN(9), random.IntN(3), random.IntN(9)))
			turns++
		}
	}
	stop()
	all := <-written
	require.Greater(t, len(all), 7, "the writer began files of its own and appended to each of the seven")
	for back := min(turns, 20); back > 0; back-- {
		k.undo(1)
	}
	files := k.files()
	for name, text := range all {
		require.Equal(t, text, files[name], name)
	}
}
