package pygent_test

import (
	"context"
	"fmt"
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

// A tool that returned ten images of 1 MiB made requests of 14 MB.
func TestRequestsDoNotGrowWithTheImagesOfTools(t *testing.T) {
	const steps, size = 12, 1 << 20
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

func TestImagesOfAResultAreBounded(t *testing.T) {
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
	h := pygent.NewHistory()
	for i := range 40 {
		require.NoError(t, h.Append(pygent.Message{Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "look"}, {ImageURL: fmt.Sprintf("https://example.com/%d.png", i)}}}))
		require.NoError(t, h.Append(pygent.AssistantMessage("I see.")))
	}
	require.Equal(t, h.Messages(), h.Conversation())
}

func TestImagesThatNoProviderTakesAreLeftOut(t *testing.T) {
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
