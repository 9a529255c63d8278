package mediabudget_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/mediabudget"
)

func image(n int) string { return "data:image/png;base64," + strings.Repeat("A", n) }

func TestImagesOfAResultAreChosen(t *testing.T) {
	small, large := image(4), image(mediabudget.MaxImage)
	for name, tt := range map[string]struct {
		urls []string
		room int
		want int
		note string
	}{
		"none":      {nil, 0, 0, ""},
		"all":       {[]string{small, small}, 100, 2, ""},
		"too many":  {strings.Split(strings.Repeat("https://a ", 10), " ")[:10], 1000, 8, "[images 9 to 10 are left out: a result shows at most 8]"},
		"too large": {[]string{large, small}, 100, 1, "[image 1 is left out: with 5505024 bytes it is too large; make a smaller copy]"},
		"no room":   {[]string{small, small}, len(small), 1, "[image 2 is left out: with 3 bytes it is too large to be shown beside the others; look at it alone]"},
	} {
		t.Run(name, func(t *testing.T) {
			shown, note := mediabudget.Choose(tt.urls, tt.room)
			require.Len(t, shown, tt.want)
			require.Equal(t, tt.note, note)
		})
	}
}

func TestWhatWasThereIsSaid(t *testing.T) {
	require.Equal(t, "[an image was here (image/png, 3 bytes); it is left out now, so look at it again if you need it]", mediabudget.Instead(image(4)))
	require.Equal(t, "[the image https://example.com/a.png was here; it is left out now]", mediabudget.Instead("https://example.com/a.png"))
	require.Contains(t, mediabudget.Instead("data:broken"), "data:broken")
}

func TestImagesGoInBatches(t *testing.T) {
	var w mediabudget.Window
	shown := 0
	changes := 0
	for range 100 {
		drop := w.Add("https://example.com/a.png")
		shown += 1 - drop
		require.LessOrEqual(t, shown, mediabudget.MaxImages)
		require.Positive(t, shown)
		if drop > 0 {
			changes++
		}
	}
	require.LessOrEqual(t, changes, 100/(mediabudget.MaxImages/2))

	w = mediabudget.Window{}
	require.Zero(t, w.Add(image(mediabudget.MaxBytes)), "the newest is never dropped")
	require.Equal(t, 1, w.Add(image(mediabudget.MaxBytes/4)))
	copied := w
	require.Equal(t, 1, copied.Add(image(mediabudget.MaxBytes)))
	require.Zero(t, w.Add(image(4)))
}
