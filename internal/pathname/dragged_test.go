package pathname_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
)

func TestDraggedImages(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	plain, blank := filepath.Join(home, "a.png"), filepath.Join(home, "My Shot (1).JPG")
	for _, name := range []string{plain, blank, filepath.Join(home, "notes.txt")} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(home, "dir.png"), 0o700))
	escaped := strings.NewReplacer(" ", `\ `, "(", `\(`, ")", `\)`).Replace(blank)
	for text, want := range map[string][]string{
		"":                                   nil,
		"look at " + plain + " and " + plain: {plain},
		escaped + " what is this":            {blank},
		"'" + blank + "' \"" + plain + "\"":  {blank, plain},
		"see\nfile://" + (&url.URL{Path: filepath.ToSlash(blank)}).EscapedPath() + "\n": {blank},
		"~/a.png":                                {plain},
		"a.png, don't":                           nil,
		home + "/none.png":                       nil,
		home + "/notes.txt " + home + "/dir.png": nil,
		"it's /x.png \\":                         nil,
	} {
		require.Equal(t, want, pathname.Dragged(text), text)
	}
}

func FuzzDragged(f *testing.F) {
	f.Add(`'/a b.png' /c\ d.png "`)
	f.Fuzz(func(t *testing.T, text string) { pathname.Dragged(text) })
}
