package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestASessionIsSavedAndGoesOn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.Call("bash", map[string]any{"cmd": "echo kept > note.txt"}), pygenttest.Text("The note is written."),
		pygenttest.Text("Still here."), pygenttest.Call("stop", map[string]any{"summary": "By run."}))
	base := t.TempDir()
	dir := filepath.Join(base, "my snap")
	env := []string{"PYGENT_CONFIRM_BASH=0"}
	cmd := command(t, append(server.Env(), env...), "--no-docker", "-e", "PYGENT_PERSONA_NAME=Ada", "--model", "large-1")
	p := atTerminal(t, cmd)
	p.Await("› ")
	p.Type("write a note\r")
	p.Await("The note is written.", "Done", "Ready")
	p.Type("/save '" + dir + "'\r")
	p.printed("saved to")
	p.printed("messages,") // where the line may break
	p.printed("1 file of")
	p.printed("pygent --load")
	p.Type("/save '" + dir + "'\r")
	p.printed("exists already; choose another")
	p.Type("/save '" + dir + "' --force\r")
	p.Until("the second save", func(termtest.Screen) bool { return strings.Count(p.All(), "Continue from it:") == 2 })
	p.Key("ctrl+d")
	p.answers("d")
	require.NoError(t, p.Wait(), p.All())
	require.Equal(t, "my snap", only(t, base))

	p = atTerminal(t, command(t, append(server.Env(), env...), "--no-docker", "--load", dir))
	p.Await("› ")
	p.printed("loaded the snapshot")
	p.printed("Ada")
	p.printed("continues after 4 messages; the model said last: The note is")
	p.Type("are you here?\r")
	p.Await("Still here.", "Done", "Ready")
	requests := server.Requests()
	require.Equal(t, "large-1", requests[len(requests)-1].Chat.Model)
	p.Type("/cmd cat note.txt\r")
	p.printed("kept")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())

	got := finish(t, command(t, append(server.Env(), "PYGENT_SNAPSHOT="+dir), "--no-docker", "--model", "small-1", "run", "and now?"))
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "By run.")
	require.Contains(t, got.stderr, "4 messages; the model said last: The note is written.")
	requests = server.Requests()
	require.Equal(t, "small-1", requests[len(requests)-1].Chat.Model, "the flag is stronger")
}

func only(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0].Name()
}
