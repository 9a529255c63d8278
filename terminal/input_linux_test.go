package terminal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestPastesAndLines(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three.")))
	p.Paste("a\nb")
	p.Key("ctrl+j")
	p.Type(`c\` + "\n" + "d 日本")
	p.Await("› a", "  b", "  c", "  d 日本")
	require.Equal(t, 8, p.Screen().X, "the cursor is behind wide characters")
	p.Type("\n")
	p.Await("One.", "Ready")
	long := strings.Repeat("0123456789 ünï 日本\n", 1<<20/27)
	p.Paste(long)
	p.Await("[pasted ", " lines]")
	p.Type("!\n")
	p.Await("Two.", "Ready")
	p.Send("unmarked\rpaste\r")
	p.Await("Three.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "a\nb\nc\nd 日本", msgs[1].Text())
	require.Equal(t, long+"!", msgs[3].Text())
	require.Equal(t, "unmarked\npaste", msgs[5].Text())
}

func TestTheHistoryOfInput(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three."))
	p := sit(t, server)
	p.Type("first\n")
	p.Await("One.", "Ready")
	p.Type("second\n")
	p.Await("Two.", "Ready")
	p.leaves()
	info, err := os.Stat(filepath.Join(p.state, "pygent", "input-history.jsonl"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	p.Terminal = termtest.Start(t, p.command(server), 80, 24)
	p.Await("Ready")
	p.Type("draft")
	p.Key("up")
	p.Await("› second")
	p.Key("up")
	p.Await("› first")
	p.Key("down", "down")
	p.Await("› draft")
	p.Key("up", "up", "enter")
	p.Await("Three.", "Ready")
	p.leaves()
}

// A line may be so slow that the pieces of a character come long after each other.
func TestACharacterInPiecesIsTyped(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.")))
	p.Send("a\xe6\x97")
	p.pauses()
	p.Send("\xa5b\x1b[200~c\xe6")
	p.pauses()
	p.Send("\x97\xa5d\x1b[201~")
	p.Await("› a日bc日d")
	p.Key("enter")
	p.Await("One.", "Ready")
	require.Equal(t, "a日bc日d", p.leaves()[1].Text())
}
