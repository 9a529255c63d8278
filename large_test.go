//go:build !race

// These tests measure memory, or move so much that the race detector makes them take a
// minute; what may race in them runs with it in other tests.

package pygent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
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
	model, err := openai.New(openai.BaseURL(server.URL()), openai.Key("k"))
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
		_, err := agent.Say(chat.UserMessage("", part))
		require.NoError(t, err)
	}
	_, err := agent.Say(chat.UserMessage("", part)) // 45 MiB as data URLs
	require.ErrorContains(t, err, "are queued already")
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
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		for _, strict := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
			if api == openai.Responses && (strict == pygenttest.Gemini || strict == pygenttest.Mistral) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", api, strict), func(t *testing.T) { runLong(t, api, strict) })
		}
	}
}
