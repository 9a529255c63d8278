package pygent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// camera is a tool that returns images of a size, in bytes of their URLs.
func camera(images, size int) pygent.Tool {
	return pygent.NewTool("camera", "Take pictures", func(context.Context, pygent.Runtime, struct {
		N int `json:"n,omitempty"`
	}) (*pygent.ToolResult, error) {
		const head = "data:image/png;base64,"
		return &pygent.ToolResult{Content: "click", Images: slices.Repeat([]string{head + strings.Repeat("A", size-len(head))}, images)}, nil
	})
}

func TestImagesOfAResultAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	for name, tt := range map[string]struct {
		images, size, shown int
		says                string
	}{
		"few":       {2, 100, 2, "click"},
		"many":      {20, 100, 8, "click\n[images 9 to 20 are left out: a result shows at most 8]"},
		"large":     {1, 7<<20 + 1, 0, "image 1 is left out: with 5505006 bytes it is too large; make a smaller copy]"},
		"all large": {3, 3 << 20, 2, "[image 3 is left out: "},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("camera", nil)), pygent.WithTools(camera(tt.images, tt.size)))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.says)
			messages := agent.History().Messages()
			if tt.shown == 0 {
				require.False(t, messages[len(messages)-1].HasImages())
				return
			}
			require.Len(t, messages[len(messages)-1].Parts, tt.shown+1)
		})
	}
}

func TestImagesOfTheUserAreNeverLeftOut(t *testing.T) {
	t.Parallel()
	h := pygent.NewHistory()
	for i := range 40 {
		require.NoError(t, h.Append(pygent.Message{Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "look"}, {ImageURL: fmt.Sprintf("https://example.com/%d.png", i)}}}))
		require.NoError(t, h.Append(pygent.AssistantMessage("I see.")))
	}
	require.Equal(t, h.Messages(), h.Conversation())
}

func TestImagesThatNoProviderTakesAreLeftOut(t *testing.T) {
	t.Parallel()
	tool := pygent.NewTool("bad", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "x", Images: []string{"plot.png", "file:///etc/passwd"}}, nil
	})
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("bad", nil), stop), pygent.WithTools(tool))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for _, m := range agent.History().Conversation() {
		for _, p := range m.Parts {
			require.Empty(t, p.ImageURL)
		}
	}
}

const (
	wavURL = "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="
	pdfURL = "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="
)

// printer is a tool that returns files.
func printer(files ...pygent.Part) pygent.Tool {
	return pygent.NewTool("printer", "Print", func(context.Context, pygent.Runtime, struct {
		N int `json:"n,omitempty"`
	}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "printed", Files: files}, nil
	})
}

func TestFilesOfAResultAreShown(t *testing.T) {
	t.Parallel()
	for api, want := range map[pygent.OpenAIProtocol][]string{
		pygent.OpenAIChat:      {`"type":"file"`, `"type":"input_audio"`, `"data":"UklGRgAAAABXQVZFZm10IA=="`, `"format":"wav"`},
		pygent.OpenAIResponses: {`"type":"input_file"`, "[recording left out: the model does not accept recordings]"},
	} {
		t.Run(string(api), func(t *testing.T) {
			server := pygenttest.NewServer(t, pygenttest.Call("printer", map[string]any{}), pygenttest.Call("stop", map[string]any{}))
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(api)),
				pygent.WithTools(printer(pygent.Part{FileName: "a.pdf", FileURL: pdfURL}, pygent.Part{AudioURL: wavURL},
					pygent.Part{ImageURL: "data:image/png;base64,AAAA"}, pygent.Part{Text: "and a note"})))
			_, outputs := told(t, agent)
			require.Equal(t, "printed\nand a note", outputs[0].Content)
			require.Equal(t, []string{"data:image/png;base64,AAAA"}, outputs[0].Images)
			require.Equal(t, pdfURL, outputs[0].Files[0].FileURL, "faces get the data")
			require.Equal(t, wavURL, outputs[0].Files[1].AudioURL)
			messages := agent.History().Messages()
			require.Equal(t, "The files that the tools gave:", messages[4].Text())
			require.Len(t, messages[4].Parts, 4)
			requests := server.Requests()
			body := string(requests[len(requests)-1].Body)
			for _, part := range want {
				require.Contains(t, body, part)
			}
		})
	}
}

func TestFilesOfResultsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	large := pygent.Part{FileURL: "data:application/pdf;base64," + strings.Repeat("A", 3<<20)}
	for name, tt := range map[string]struct {
		files []pygent.Part
		shown int
		says  string
	}{
		"many":       {slices.Repeat([]pygent.Part{{AudioURL: wavURL}}, 20), 8, "printed\n[files 9 to 20 are left out: a result shows at most 8]"},
		"large":      {[]pygent.Part{large, large, large}, 2, "[file 3 is left out: with "},
		"of no kind": {[]pygent.Part{{FileURL: "data:application/zip;base64,AAAA"}, {FileURL: "file:///etc/passwd"}}, 0, "[file 2 is left out: want a data URL"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("printer", nil)), pygent.WithTools(printer(tt.files...)))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.says)
			messages := agent.History().Messages()
			if tt.shown == 0 {
				require.Equal(t, pygent.RoleTool, messages[len(messages)-1].Role)
				return
			}
			require.Len(t, messages[len(messages)-1].Parts, tt.shown+1)
		})
	}
}

func TestRequestsDoNotGrowWithTheFilesOfTools(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const steps = 10
	script := make([]pygenttest.Reply, steps)
	for i := range script {
		script[i] = pygenttest.Call("printer", map[string]any{"n": i})
	}
	model := pygenttest.NewScriptedModel(append(script, pygenttest.Call("stop", map[string]any{}))...)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(printer(pygent.Part{FileURL: "data:application/pdf;base64," + strings.Repeat("A", 2<<20)})))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(steps+1))
	require.NoError(t, err)
	size, gone := 0, 0
	for _, m := range agent.History().Conversation() {
		for _, p := range m.Parts {
			size += len(p.FileURL)
			if strings.Contains(p.Text, "[a file was here (application/pdf, 1572864 bytes)") {
				gone++
			}
		}
	}
	require.LessOrEqual(t, size, 9<<20)
	require.Positive(t, gone)
}

// largeImage is an image that takes many tokens and few bytes.
func largeImage(t *testing.T, side int) string {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.Black})))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// Images that a tool gave last must not fill a small window for ever.
func TestImagesForWhichTheWindowHasNoRoomAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		side, window, shown int
	}{
		"two large ones in a small window":  {1024, 4_200, 1},
		"two small ones in a small window":  {400, 4_200, 2},
		"two large ones in a larger window": {1024, 9_000, 2},
		"no room for any":                   {1024, 2_600, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url := largeImage(t, tt.side)
			look := pygent.NewTool("look", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
				return &pygent.ToolResult{Content: "see", Images: []string{url, url}}, nil
			})
			model := pygenttest.NewScriptedModel(pygenttest.Call("look", map[string]any{}), callBash("true"), stop, stop)
			history, err := pygent.LoadHistory(t.Context(), &pygenttest.MemoryStore{})
			require.NoError(t, err)
			agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(look), pygent.WithContextWindow(int64(tt.window)), pygent.WithHistory(history))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			sent := model.Requests()[1].Messages
			require.NoError(t, pygenttest.CheckConversation(sent))
			require.Equal(t, tt.shown, strings.Count(jsonOf(t, sent), url))
			require.Equal(t, 2-tt.shown, strings.Count(jsonOf(t, sent), "is not shown: the context window has no room for it"))
			require.Equal(t, "see", sent[len(sent)-2].Text(), "the exchange stays whole")
			_, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(jsonOf(t, history.Messages()), url), "the history keeps them")
		})
	}
}
