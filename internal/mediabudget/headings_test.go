package mediabudget_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/mediabudget"
)

func TestHeadingsOfWhatToolsGaveAreKnownAgain(t *testing.T) {
	for heading, want := range map[string]string{
		mediabudget.OfResults(false):                "The images that the tools gave:",
		mediabudget.OfResults(true):                 "The files that the tools gave:",
		mediabudget.OfResult(false, "camera", "c1"): "Images in the result of camera (c1):",
		mediabudget.OfResult(true, "print", "c2"):   "Files in the result of print (c2):",
	} {
		require.Equal(t, want, heading)
		require.True(t, mediabudget.IsHeading(heading))
	}
	for _, text := range []string{"", "Look at these:", "The images that the tools gave: none", " The files that the tools gave:", "images in the result of camera (c1):"} {
		require.False(t, mediabudget.IsHeading(text), text)
	}
}
