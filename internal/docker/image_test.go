package docker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
)

func TestPullProgressIsTold(t *testing.T) {
	const progress = `{"status":"Pulling from library/x","id":"1"}
{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"a"}
{"status":"Extracting","progressDetail":{"current":10,"total":100},"id":"a"}
`
	var events []sandbox.Event
	emit := func(e sandbox.Event) { events = append(events, e) }
	require.NoError(t, followPull(strings.NewReader(progress), "x", emit))
	require.Equal(t, []sandbox.Event{{Kind: sandbox.Pull, Text: "pulling x", Current: 10, Total: 100}}, events)

	// What is there at once, or not begun, says no more than that it pulls, which was said.
	events = nil
	for _, at := range []string{"0", "100"} {
		require.NoError(t, followPull(strings.NewReader(`{"status":"Downloading","progressDetail":{"current":`+at+`,"total":100},"id":"a"}`), "x", emit))
	}
	require.Empty(t, events)

	require.EqualError(t, followPull(strings.NewReader(progress+`{"error":"no space left"}`), "x", emit), "no space left")
	require.Error(t, followPull(strings.NewReader(`{"status":`), "x", emit))
}
