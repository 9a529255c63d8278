package checkpoint_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

const (
	awayEnv     = "PYGENT_TEST_AWAY"
	awayKillEnv = "PYGENT_TEST_AWAY_KILL"
)

// inAVolume are the options of an agent whose files are in a volume of the engine.
func inAVolume() []pygent.Option {
	return []pygent.Option{
		pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image()), pygent.WithSharedFiles(false),
	}
}

// TestAwayChild works in a volume and is killed after its second turn, in it, or in
// its first one. Without its environment variable it does nothing.
func TestAwayChild(t *testing.T) {
	t.Parallel()
	base, when, _ := strings.Cut(os.Getenv(awayEnv), "|")
	if base == "" {
		return
	}
	usual := obedient()
	model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == chat.RoleTool && (when == "in the first turn" || when == "in the second turn" && said(req.Messages) == 2) {
			die(t)
		}
		return usual.Chat(ctx, req)
	})
	k := openKeeper(t, base, append(inAVolume(), pygent.WithModel(model))...)
	k.turn("echo 1 > a; echo 1 > b; mkdir d; echo 1 > d/f; rm gone; chmod 600 given; echo 1 > both")
	k.turn("echo 2 > a; echo 2 > b; rm d/f; echo 2 > new; echo 2 > both")
	die(t)
}

// said counts what the user said.
func said(messages []pygent.Message) (n int) {
	for _, m := range messages {
		if m.Role == chat.RoleUser {
			n++
		}
	}
	return n
}

// TestFilesThatWereInAVolumeComeBack has a process that is killed while its files are
// in a volume. The directory, which nobody has changed since, or only the user, then
// gets what the last checkpoint has.
func TestFilesThatWereInAVolumeComeBack(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	pruneVolumes(t)
	first := contents{"a": "1\n", "b": "1\n", "d/f": "1\n", "given": "0", "both": "1\n", "mine": "0"}
	second := contents{"a": "2\n", "b": "2\n", "new": "2\n", "given": "0", "both": "2\n", "mine": "0"}
	for when, want := range map[string]struct {
		files contents
		said  int
	}{
		"after the second turn": {second, 2},
		"in the second turn":    {first, 1},
		"in the first turn":     {contents{"gone": "0", "given": "0", "both": "0", "mine": "0"}, 0},
	} {
		for _, edits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, edits %v", when, edits), func(t *testing.T) {
				base := t.TempDir()
				work := filepath.Join(base, "work")
				require.NoError(t, os.Mkdir(work, 0o755))
				for _, name := range []string{"gone", "given", "both", "mine"} {
					require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte("0"), 0o644))
				}
				dieAway(t, base, when)
				require.Equal(t, contents{"gone": "0", "given": "0", "both": "0", "mine": "0"}, (&keeper{t: t, dir: work}).files(), "the directory is what it was")
				files := maps.Clone(want.files)
				if edits {
					for _, name := range []string{"both", "mine", "added"} {
						require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte("user"), 0o644))
						files[name] = "user"
					}
				}
				k := openKeeper(t, base)
				require.Equal(t, files, k.files())
				require.Len(t, k.said(), want.said)
				if want.said > 0 {
					info, err := os.Stat(filepath.Join(work, "given"))
					require.NoError(t, err)
					require.EqualValues(t, 0o600, info.Mode().Perm())
				}
				k.turn("echo 3 > a") // which tells
				require.Equal(t, 1, k.events.saying("they are back in "+work+", as they were on "))
				require.Equal(t, edits, k.events.saying("kept both: ") == 1)
				if when != "after the second turn" {
					require.Equal(t, 1, k.events.count(func(e pygent.Event) bool {
						return e.Type == pygent.EventRestored && strings.Contains(e.Text, "what it did is in the volume alone") && e.Restored.Message != nil
					}))
				}
				k.undo(1)
				require.Equal(t, files["a"], k.files()["a"])
				if want.said > 0 {
					k.undo(want.said)
					require.Empty(t, k.said())
				}
				require.NoError(t, k.Close())
				again := openKeeper(t, base)
				again.turn("true")
				require.Zero(t, again.events.saying("they are back in"), "once is enough")
			})
		}
	}
}

// TestFilesThatAVolumeGaveBackAreNotFetchedAgain ends a process as usual.
func TestFilesThatAVolumeGaveBackAreNotFetchedAgain(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	base := t.TempDir()
	k := openKeeper(t, base, inAVolume()...)
	k.turn("echo 1 > a")
	require.NoError(t, k.Close())
	k.write("a", "user")
	k = openKeeper(t, base)
	k.turn("true")
	require.Equal(t, contents{"a": "user"}, k.files())
	require.Zero(t, k.events.saying("volume"))
}

// TestFilesOfAVolumeDoNotGoToAnotherDirectory goes on elsewhere, and then where the
// files belong.
func TestFilesOfAVolumeDoNotGoToAnotherDirectory(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	pruneVolumes(t)
	base := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(base, "work"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(base, "work", "gone"), nil, 0o644))
	dieAway(t, base, "after the second turn")
	other := t.TempDir()
	k := openKeeper(t, base, pygent.WithWorkspace(other))
	require.Empty(t, testkit.NamesIn(t, other))
	require.NoError(t, k.Close())
	k = openKeeper(t, base)
	require.Equal(t, "2\n", k.files()["a"])
}

func dieAway(t *testing.T, base, when string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestAwayChild$", "-test.v")
	child.Env = append(os.Environ(), awayEnv+"="+base+"|"+when)
	out, err := child.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Equal(t, -1, child.ProcessState.ExitCode(), "%s", out)
}

// pruneVolumes removes at the end what killed processes of this test binary have left
// on the engine.
func pruneVolumes(t *testing.T) {
	t.Cleanup(func() {
		where := pygent.WithDocker(pygent.DockerRequired)
		require.Eventually(t, func() bool { // a container ends by itself, and then its volume is free
			found, err := pygent.Leftovers(context.Background(), where)
			require.NoError(t, err)
			ours := slices.DeleteFunc(found, func(l pygent.Leftover) bool { return !l.Ours || l.Kind == "directory" })
			return pygent.Prune(context.Background(), ours, where) == nil
		}, time.Minute, 50*time.Millisecond)
	})
}

// inVolumeMark is a file that says that the process has its files in a volume.
func inVolumeMark(base string) string { return filepath.Join(base, "in-volume") }

// TestAwayKillChild is the process that TestAKilledVolumeIsOldOrNew kills.
func TestAwayKillChild(t *testing.T) {
	t.Parallel()
	base := os.Getenv(awayKillEnv)
	if base == "" {
		return
	}
	k := openKeeper(t, base, append(inAVolume(), pygent.WithModel(testkit.TurnWriter()), pygent.WithTools(testkit.WriteTurn()))...)
	inVolume := func() {
		testkit.Bash(t, k.Runtime(), "true")
		require.NoError(t, os.WriteFile(inVolumeMark(base), nil, 0o644))
	}
	if rand.IntN(3) > 0 { // else it may be killed while the files move, or before
		inVolume()
	}
	fmt.Println("open")
	for {
		k.turn(fmt.Sprint("turn ", time.Now().UnixNano()))
		inVolume()
		switch rand.IntN(4) {
		case 0:
			_, _ = k.Undo(t.Context(), 1+rand.IntN(2))
		case 1:
			_, _ = k.Undo(t.Context(), 1)
			_, _ = k.Redo(t.Context())
		}
	}
}

// TestAKilledVolumeIsOldOrNew kills a process that works, undoes and redoes in a volume
// of an engine, at random moments. The next one must find files and conversation of
// one moment in the directory. PYGENT_VOLUME_KILLS sets how often.
func TestAKilledVolumeIsOldOrNew(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	pruneVolumes(t)
	base := t.TempDir()
	kills := testkit.Kills("PYGENT_VOLUME_KILLS", 3)
	back, restored := 0, 0
	for round := range kills {
		testkit.KillChild(t, "TestAwayKillChild", awayKillEnv+"="+base, testkit.KillWithin)
		inDirectory := os.Remove(inVolumeMark(base)) != nil
		k := openKeeper(t, base, pygent.WithModel(testkit.TurnWriter()), pygent.WithTools(testkit.WriteTurn()))
		mixed := inDirectory && k.cutOff()
		if mixed {
			// What the turn has written into the directory itself stays, as it does without a
			// container. The next turn writes all anew, and its undo brings the mixture back.
			k.turn("turn again")
		}
		requireOneMoment(t, k, round)
		said := k.said()
		if len(said) > 0 {
			done := k.undo(1)
			require.Empty(t, done.Kept, "round %d", round)
			require.Len(t, k.said(), len(said)-1, "round %d", round)
			if !mixed {
				requireOneMoment(t, k, round)
			}
			k.redo()
			requireOneMoment(t, k, round)
		}
		k.turn("turn " + strconv.Itoa(round))
		requireOneMoment(t, k, round)
		back += k.events.saying("they are back in")
		restored += k.events.saying("what it did is in the volume alone")
		require.NoError(t, k.Close())
	}
	t.Logf("the files of %d of %d kills came back from a volume, %d of them before a turn that was interrupted", back, kills, restored)
}

// cutOff reports whether the last turn was killed before it had written its files.
func (k *keeper) cutOff() bool {
	said, conversation := k.said(), k.History().Conversation()
	if len(said) == 0 {
		return false
	}
	told := conversation[len(conversation)-1].Text()
	return told != "done" && told != "written "+strings.TrimPrefix(said[len(said)-1], "turn ")
}

// requireOneMoment requires that the files are those of the last turn that is told.
func requireOneMoment(t *testing.T, k *keeper, round int) {
	t.Helper()
	require.Empty(t, leftovers(k.dir), "round %d", round)
	said, words := k.said(), map[string]bool{}
	for _, text := range k.files() {
		words[text] = true
	}
	if len(said) == 0 {
		require.Empty(t, words, "round %d", round)
		return
	}
	conversation := k.History().Conversation()
	require.NoError(t, pygenttest.CheckConversation(conversation))
	last := strings.TrimPrefix(said[len(said)-1], "turn ")
	if k.cutOff() {
		// The process was killed before the turn had anything in a volume.
		last = ""
		if len(said) > 1 {
			last = strings.TrimPrefix(said[len(said)-2], "turn ")
		}
	}
	want := map[string]bool{last: true}
	if last == "" {
		want = map[string]bool{}
	}
	require.Equal(t, want, words, "round %d: %v", round, said)
}
