//go:build !race

// These tests measure memory, or move so much that the race detector makes them take a
// minute; what may race in them runs with it in other tests.

package pygent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestDelegationIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 100,001 files")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	rt := localRuntime(t)
	made := bash(t, rt, `mkdir many big && head -c 1100000000 /dev/zero >big/a && cd many && seq 1 100001 | xargs touch`, pygent.BashTimeout(5*time.Minute))
	require.Zero(t, made.ExitCode, "%s", made)
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	for what, want := range map[string]string{
		"many": "more than 100000 files",
		"big":  "limit of 1 GiB; name only the files that are needed",
	} {
		_, err := m.StartTask(t.Context(), "go", rt, pygent.WithTaskFiles(what))
		require.ErrorIs(t, err, pygent.ErrCopyTooLarge, what)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, filepath.WalkDir(temp, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "tar-") {
			t.Errorf("%s is left", path)
		}
		return nil
	}))
}

// A tool that returned ten images of 1 MiB made requests of 14 MB.
func TestRequestsDoNotGrowWithTheImagesOfTools(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	const steps, size = 7, 2 << 20
	script := make([]pygenttest.Reply, steps)
	for i := range script {
		script[i] = pygenttest.Call("camera", map[string]any{"n": i})
	}
	server := pygenttest.NewServer(t, append(script, pygenttest.Call("stop", map[string]any{}))...)
	model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIKey("k"))
	require.NoError(t, err)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithModelName("m"), pygent.WithTools(camera(1, size)))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(steps+1))
	require.NoError(t, err)

	rewritten := 0
	var before string
	for i, req := range server.Requests() {
		require.NoError(t, req.Err)
		body := string(req.Body)
		require.LessOrEqual(t, len(body), 9<<20, i)
		if len(body) < len(before) {
			rewritten++
			require.Contains(t, body, "[an image was here (image/png, ")
		}
		before = body
	}
	require.LessOrEqual(t, rewritten, steps/4+1)
	kept := 0
	for _, m := range agent.History().Messages() {
		if m.HasImages() {
			kept++
		}
	}
	require.Equal(t, steps, kept, "the history keeps them all")
}

func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads answers of many megabytes")
	}
	for _, c := range hostileAnswers {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, pygent.OpenAIHTTPClient(respond(c.body)), pygent.OpenAIAPI(c.api))
			var err error
			took := allocated(func() { _, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {}) })
			require.Less(t, took>>20, c.mib)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 10_000)
			if errors.Is(err, pygent.ErrAnswerTooLarge) {
				require.False(t, apiError(t, err).Retryable)
				require.ErrorContains(t, err, "is that a model server?")
			}
		})
	}
}

// What the model needs no more is kept by the file alone, and the record is whole
// nevertheless. No other test may run while memory is measured.
func TestALongRunKeepsOldTextsInItsFileAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	var early uint64
	h := longHistory(t, filepath.Join(t.TempDir(), "history.json"), awaySteps, func(n int) {
		if n == awaySteps/3 {
			early = heap()
		}
	})
	late := heap()
	require.Less(t, int64(late)-int64(early), int64(awaySteps*awayResult/4), "%d results of %d bytes came in between", awaySteps*2/3, awayResult)
	requireWhole(t, h.Messages(), awaySteps)
	require.NoError(t, h.Close())
}

// A hostile file that is opened keeps memory in proportion to its size, most where each
// 30 bytes are a message, and what is allocated on the way grows with its size and not
// with the square of that. No other test may run while memory is measured.
func TestHostileFilesTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large files")
	}
	const size = 1 << 20
	const keeps, allocates = 16, 256 // times the file
	for name, unit := range map[string]string{
		"nested":           `{"role":[`,
		"nested in fields": `{"role":{"role":`,
		"begun":            `{"role":"`,
		"in lines":         "\n{\"role\":[",
		"numbers":          `1,`,
		"braces":           `{ `,
		"long end":         `{"role":"user","content":"x"},`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.json")
			writeFile(t, path, `[{"role":"user","content":"x"},`+strings.Repeat(unit, size/len(unit))+strings.Repeat(" ", size))
			var h *pygent.History
			var err error
			before := heap()
			took := allocated(func() { h, err = pygent.OpenHistory(path) })
			require.Less(t, int64(heap())-int64(before), int64(keeps*2*size))
			require.Less(t, took, uint64(allocates*2*size))
			if name == "numbers" {
				require.ErrorIs(t, err, pygent.ErrNotHistory)
				return
			}
			require.NoError(t, err)
			if name != "long end" {
				require.Equal(t, 1, h.Len())
			}
			require.NoError(t, h.Close())
		})
	}
}

// TestDamagedBytesCostOneMessage zeroes bytes at many places in files of every
// layout, and looks for the messages that it did not touch.
func TestDamagedBytesCostOneMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("damages a file at every byte")
	}
	t.Parallel()
	msgs := tricky()
	for layout, write := range layouts {
		for _, tt := range []struct{ length, stride, lose int }{{1, 3, 1}, {40, 17, 2}} {
			t.Run(fmt.Sprintf("%s, %d bytes", layout, tt.length), func(t *testing.T) {
				data, length := write(t, msgs), tt.length
				for at := 0; at+length <= len(data); at += tt.stride {
					torn := bytes.Clone(data)
					copy(torn[at:], make([]byte, length))
					checkDamaged(t, torn, msgs, tt.lose)
				}
			})
		}
	}
}

// What another program does to the file loses nothing that is still in memory, and
// of the rest, what the model was last sent stays.
func TestOldTextsOfAFileThatOthersChange(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	const steps = 20 // enough for several compactions
	tests := map[string]struct {
		change func(t *testing.T, path string)
		lost   bool // what only the file had
	}{
		"removed":   {change: func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }},
		"replaced":  {change: replaceFile},
		"truncated": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 10)) }, true},
	}
	if runtime.GOOS == "windows" {
		delete(tests, "removed") // an open file cannot be
		delete(tests, "replaced")
	}
	for name, test := range tests {
		for _, then := range []string{"append", "system"} {
			t.Run(name+", then "+then, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "history.json")
				h := longHistory(t, path, steps, func(int) {})
				count, sent := h.Len(), jsonOf(t, h.Conversation())
				test.change(t, path)
				msgs := h.Messages()
				require.Len(t, msgs, count)
				require.True(t, sent == jsonOf(t, h.Conversation()))
				if then == "append" {
					require.NoError(t, h.Append(pygent.UserMessage("more")))
				} else {
					require.NoError(t, h.SetSystem("another"))
				}
				check := func(h *pygent.History) {
					msgs := h.Messages()
					require.GreaterOrEqual(t, len(msgs), count)
					if !test.lost {
						requireWhole(t, msgs, steps)
						return
					}
					said := jsonOf(t, msgs)
					require.True(t, strings.Contains(said, "left out to save room"))
					require.True(t, strings.Contains(said, jsonOf(t, awayText(steps))[1:1000]), "the end was in memory")
				}
				check(h)
				require.NotEmpty(t, h.Repairs())
				if test.lost {
					require.Contains(t, strings.Join(h.Repairs(), "\n"), "old messages are not in the file any more")
				}
				require.NoError(t, h.Close())

				files, err := filepath.Glob(path + ".continued-*[0-9]")
				require.NoError(t, err)
				if len(files) == 0 {
					files = []string{path}
				}
				again, err := pygent.OpenHistory(files[0])
				require.NoError(t, err)
				defer again.Close()
				require.Empty(t, again.Repairs())
				require.True(t, jsonOf(t, h.Conversation()) == jsonOf(t, again.Conversation()), "the model is sent the same")
				check(again)
			})
		}
	}
}

// The record is whole while it is open, when it is closed, and when it is opened again.
func TestOldTextsAreReadFromTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	const steps = awaySteps / 3
	path := filepath.Join(t.TempDir(), "history.json")
	h := longHistory(t, path, steps, func(int) {})
	require.NoError(t, h.SetSystem("another"))
	requireWhole(t, h.Messages(), steps)
	require.NoError(t, h.Append(pygent.UserMessage("more")))
	require.NoError(t, h.Close())
	requireWhole(t, h.Messages(), steps)
	require.Empty(t, h.Repairs())

	again, err := pygent.OpenHistory(path)
	require.NoError(t, err)
	defer again.Close()
	require.Empty(t, again.Repairs())
	require.True(t, jsonOf(t, h.Messages()) == jsonOf(t, again.Messages()))
	require.True(t, jsonOf(t, h.Entries()) == jsonOf(t, again.Entries()))
	require.True(t, jsonOf(t, h.Conversation()) == jsonOf(t, again.Conversation()))
}

func TestConfigManyFaultsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads thousands of faults")
	}
	t.Parallel()
	s := newSources(t)
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "nonsense_%d = 1\n", i)
	}
	s.file(b.String())
	_, err := s.Load()
	require.Equal(t, 21, strings.Count(err.Error(), "\n")+1)
	require.ErrorContains(t, err, "and 4,980 more faults")
}

func TestFilesCountInWhatWaitsToBeHeard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel())
	part := pygent.Part{FileName: "big.pdf", FileURL: "data:application/pdf;base64," + strings.Repeat("A", 15<<20)}
	for range 2 {
		_, err := agent.Say(pygent.UserMessage("", part))
		require.NoError(t, err)
	}
	_, err := agent.Say(pygent.UserMessage("", part)) // 45 MiB as data URLs
	require.ErrorContains(t, err, "no room")
}

func TestMentionedFilesHaveBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	ws := t.TempDir()
	image := []byte(pngFile + strings.Repeat("x", 5<<20-len(pngFile)))
	var text strings.Builder
	for _, name := range strings.Fields("a b c d e f g h") {
		require.NoError(t, os.WriteFile(filepath.Join(ws, name), image, 0o600))
		text.WriteString("@" + name + " ")
	}
	agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel())
	parts, _, err := agent.AttachMentioned(t.Context(), text.String())
	require.NoError(t, err)
	require.Len(t, parts, 8)
	require.NotEmpty(t, parts[2].ImageURL)
	require.Contains(t, parts[7].Text, "the file h does not go along: there is no room for it in this message")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = agent.AttachMentioned(ctx, "@a")
	require.ErrorIs(t, err, context.Canceled)
}

func TestRandomConversationsStayLegalWhateverIsCompacted(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { squeeze(t, seed) })
	}
}

func TestALongRunStaysInItsWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		for _, strict := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
			if api == pygent.OpenAIResponses && (strict == pygenttest.Gemini || strict == pygenttest.Mistral) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", api, strict), func(t *testing.T) { runLong(t, api, strict) })
		}
	}
}
