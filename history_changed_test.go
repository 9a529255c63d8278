package pygent_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/pygenttest"
)

// TestChangedFileIsLeftAlone lets another process change the file of a history
// before each kind of write.
func TestChangedFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	const foreign = `[{"role":"user","content":"somebody else's"}]`
	const sameSize = "[\n{\"role\":\"system\",\"content\":\"S\"},\n{\"role\":\"user\",\"content\":\"ONE\"}\n]\n"
	changes := map[string]struct {
		do   func(t *testing.T, path string)
		left string // the expected content of the file; "" for our own
	}{
		"replaced": {func(t *testing.T, path string) {
			writeFile(t, path+".new", foreign)
			require.NoError(t, os.Rename(path+".new", path))
		}, foreign},
		"replaced by as many bytes": {func(t *testing.T, path string) {
			writeFile(t, path+".new", sameSize)
			require.NoError(t, os.Rename(path+".new", path))
		}, sameSize},
		"written over":  {func(t *testing.T, path string) { writeFile(t, path, foreign) }, foreign},
		"cut off":       {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5)) }, "[\n{\"r"},
		"removed":       {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, ""},
		"removed, with": {func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) }, ""},
	}
	ours := map[string]struct {
		do   func(h *pygent.History) error
		want []pygent.Message
	}{
		"append": {
			func(h *pygent.History) error { return h.Append(pygent.UserMessage("two")) },
			[]pygent.Message{pygent.SystemMessage("s"), pygent.UserMessage("one"), pygent.UserMessage("two")},
		},
		"system message": {
			func(h *pygent.History) error { return h.SetSystem("t") },
			[]pygent.Message{pygent.SystemMessage("t"), pygent.UserMessage("one")},
		},
		"sync":  {(*pygent.History).Sync, []pygent.Message{pygent.SystemMessage("s"), pygent.UserMessage("one")}},
		"close": {(*pygent.History).Close, []pygent.Message{pygent.SystemMessage("s"), pygent.UserMessage("one")}},
	}
	for change, foreign := range changes {
		for name, our := range ours {
			t.Run(change+", then "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "dir", "history.json")
				h := openHistory(t, path)
				require.NoError(t, h.Append(pygent.SystemMessage("s"), pygent.UserMessage("one")))
				foreign.do(t, path)
				require.NoError(t, our.do(h))
				require.Len(t, h.Repairs(), 1, "it is said")
				require.Equal(t, jsonOf(t, our.want), jsonOf(t, h.Messages()))

				kept := path
				if foreign.left != "" {
					data, err := os.ReadFile(path)
					require.NoError(t, err)
					require.Equal(t, foreign.left, string(data), "the file of the other one is not touched")
					continued, err := filepath.Glob(path + ".continued-*")
					require.NoError(t, err)
					require.Len(t, continued, 1)
					kept = continued[0]
					require.Contains(t, h.Repairs()[0], kept)
				}
				want := our.want
				if name != "close" {
					want = append(want[:len(want):len(want)], pygent.UserMessage("three"))
					require.NoError(t, h.Append(want[len(want)-1]))
					require.NoError(t, h.SetSystem("last"))
					want[0] = pygent.SystemMessage("last")
					require.NoError(t, h.Close())
				}
				require.Len(t, h.Repairs(), 1, "once")
				again := openHistory(t, kept)
				require.Empty(t, again.Repairs())
				require.Equal(t, jsonOf(t, want), jsonOf(t, again.Messages()))
			})
		}
	}
}

func TestChangedFileOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.NoError(t, h.Append(pygent.UserMessage("one")))
	disk.Write("/h.json", []byte("something else"))
	disk.SetRoom(3)
	err = h.Append(pygent.UserMessage("two"))
	require.ErrorIs(t, err, pygent.ErrHistoryChanged)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, map[string]string{"/h.json": "something else"}, disk.Names())
	disk.SetRoom(-1)
	require.NoError(t, h.Append(pygent.UserMessage("three")))
	require.NoError(t, h.Close())
	require.Equal(t, "something else", disk.Names()["/h.json"])
	found := false
	for name, content := range disk.Names() {
		if strings.Contains(name, ".continued-") {
			found = true
			require.JSONEq(t, jsonOf(t, []pygent.Message{pygent.UserMessage("one"), pygent.UserMessage("two"), pygent.UserMessage("three")}), content)
		}
	}
	require.True(t, found)
}

// After a failed write of our own, the file does not look as if others had
// changed it.
func TestOwnFailureIsNoForeignChange(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.NoError(t, h.Append(pygent.UserMessage("one")))
	for failing := range 8 {
		disk.OffAfter(failing / 2) // fail at each of: the write, the truncation, the closing bracket
		disk.SetRoom(10 * (failing % 2))
		_ = h.Append(pygent.UserMessage("more"))
		disk.OffAfter(-1)
		disk.SetRoom(-1)
		require.NoError(t, h.Append(pygent.UserMessage("and")))
		require.Empty(t, h.Repairs())
		require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	}
	require.NoError(t, disk.Link("/h.json", "/alias"), "the lock on the old file must not be in the way")
	for failing := range 8 {
		disk.OffAfter(failing) // the same for a replacement of the file
		_ = h.SetSystem(strings.Repeat("s", failing+1))
		_ = h.Append(pygent.UserMessage("more"))
		disk.OffAfter(-1)
		require.NoError(t, h.Append(pygent.UserMessage("and")))
		require.Empty(t, h.Repairs())
		require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	}
	require.NoError(t, h.Close())
}

func TestAgentTellsThatItsHistoryWasReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	var warnings []string
	model := pygenttest.NewScriptedModel(
		pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			writeFile(t, path, "mine now")
			return pygenttest.Text("one")
		}), pygenttest.Text("two"))
	agent := newAgent(t, model, pygent.WithHistoryFile(path), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], path+".continued-")
	_, err = agent.Step(t.Context(), "go on")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
}

func TestAgentTellsThatItsHistoryWasReplacedAfterItsLastRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	warnings := make(chan string, 10)
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("one")), pygent.WithHistoryFile(path), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings <- e.Text
		}
	}))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	writeFile(t, path, "mine now")
	require.NoError(t, agent.Close())
	require.Len(t, warnings, 1)
	require.Contains(t, <-warnings, path+".continued-")
}

func TestRunOnAFullDiskSaysSoOnce(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("one"), pygenttest.Text("two")), pygent.WithHistory(h))
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)

	disk.SetRoom(0)
	result, err := agent.RunUntilStop(t.Context(), "go on")
	require.EqualError(t, err, "append to history: write /h.json: no space left on device")
	require.Equal(t, err.Error(), result.Reason)

	disk.SetRoom(-1)
	_, err = agent.Step(t.Context(), "and on")
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	require.Contains(t, disk.Names()["/h.json"], `"go on"`)
}

func TestSystemMessageOnAFullDiskIsSaidOnce(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	disk.SetRoom(100)
	agent := newAgent(t, pygenttest.NewScriptedModel(), pygent.WithHistory(h))
	_, err = agent.Step(t.Context(), "go")
	require.EqualError(t, err, "set system message: write /h.json.tmp: no space left on device")
}

func TestHistoryIsOpenOnceUnderAllNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, hard, soft, both := filepath.Join(dir, "h.json"), filepath.Join(dir, "hard.json"), filepath.Join(dir, "soft.json"), filepath.Join(dir, "both.json")
	h := openHistory(t, path)
	require.NoError(t, h.Append(pygent.UserMessage("one")))
	require.NoError(t, os.Link(path, hard))
	require.NoError(t, os.Symlink("h.json", soft))
	require.NoError(t, os.Symlink("hard.json", both))
	inUse := func() {
		t.Helper()
		for _, name := range []string{path, hard, soft, both} {
			_, err := pygent.OpenHistory(name)
			require.ErrorIs(t, err, pygent.ErrHistoryInUse, name)
			require.NoFileExists(t, hard+".lock")
		}
	}
	inUse()
	if runtime.GOOS != "windows" {
		require.NoError(t, h.SetSystem("the file is another one now"))
		inUse()
		require.NoError(t, h.SetSystem("and again"))
		inUse()
	}
	require.NoError(t, h.Close())
	for _, name := range []string{path, hard, soft, both} {
		require.NoError(t, openHistory(t, name).Close())
	}
}

// A link may point to a file that does not exist yet.
func TestHistoryBehindADanglingLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link.json"), filepath.Join(dir, "file.json")
	require.NoError(t, os.Symlink("file.json", link))
	h := openHistory(t, link)
	require.NoError(t, h.Append(pygent.UserMessage("one")))
	require.NoError(t, h.SetSystem("s"))
	require.NoError(t, h.Close())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type(), "the link is still one")
	require.Equal(t, 2, openHistory(t, file).Len())
}

func TestErrorsOfOpeningNameThePathOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "h.json", "x.json")
	writeFile(t, filepath.Join(dir, "h.json"), "a file")
	_, err := pygent.OpenHistory(path)
	require.Error(t, err)
	_, err = pygent.OpenHistory(filepath.Join(dir, "h.json"))
	require.EqualError(t, err, "open history "+filepath.Join(dir, "h.json")+": not a history of chat messages: no JSON array")
}
