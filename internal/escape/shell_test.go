package escape

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAShellReadsAWordAsItWas(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/srv/a-b_c.git", Word("/srv/a-b_c.git"), "no quotes where none are needed")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	for _, word := range []string{"", "a b", "it's", `"$HOME"`, "~/x", "a;b", "ü ☃", "`id`", `back\slash`, "*", "!x", "a\nb", "#"} {
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+Word(word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
}
