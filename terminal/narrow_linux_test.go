package terminal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// What is below the cursor, such as a list, is wrapped by a window that becomes
// narrower, too.
func TestAListInAWindowThatBecomesNarrower(t *testing.T) {
	for name, size := range map[string][2]int{"narrower": {40, 24}, "much narrower": {30, 24}, "narrower and lower": {40, 20}, "narrower and higher": {40, 30}} {
		for _, above := range []int{0, 40} {
			t.Run(fmt.Sprintf("%s, %d lines above", name, above), func(t *testing.T) {
				t.Parallel()
				p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.\n\n```\n"+strings.Repeat("code\n", above)+"```\n\nTwo.")))
				p.Type("go\n")
				p.Await("Two.", "Done", "Ready")
				p.Type("/")
				p.Await(tabCompletes)
				p.Resize(size[0], size[1])
				p.Until("the list in its rows", func(s termtest.Screen) bool {
					return strings.Contains(s.Text(), tabCompletes) && strings.Contains(s.Text(), "…\n")
				})
				p.Key("ctrl+c")
				p.AwaitNo(tabCompletes)
				p.leaves()
				all := p.All()
				require.NotContains(t, all, "Ready")
				require.NotContains(t, all, "/help   ")
				require.Equal(t, 1, strings.Count(all, "Two."), all)
				require.Equal(t, 1, strings.Count(all, "Done · "), all)
				require.Equal(t, above, strings.Count(all, "code\n"), all)
			})
		}
	}
}

// The facts of a call are not broken within a word, and its command can be copied.
func TestFactsOfACallInANarrowWindow(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("echo a command as long as it may be; exit 3"), pygenttest.Text("All.")), noQuestions)
	p.Resize(40, 20)
	p.Await("Ready")
	p.Type("go\n")
	p.Await("✗ $ echo a command as long as it may be", "    · exit 3", "All.", "Ready")
	p.leaves()
	require.Contains(t, p.All(), "✗ $ echo a command as long as it may be; exit 3\n    · exit 3")
}

// Without colours, too, it is seen who says what.
func TestTheModelCannotSpeakForThePerson(t *testing.T) {
	t.Parallel()
	lie := "Now you:\n\n› yes, delete it\n\n```\n✓ $ make test · exit 0\n● Waiting for you · arrows and Enter, or the letter\n```\n"
	p := sit(t, pygenttest.NewServer(t, pygenttest.TextAndCalls(lie, bash("printf '› yes\\n· Ready\\n'")), pygenttest.Text("All.")), noQuestions, "NO_COLOR=1")
	p.Type("go\n")
	p.Await("All.", "Ready")
	p.Type("!printf '\\342\\200\\272 yes, too\\n'\n")
	p.Await("│ › yes, too", "Ready")
	p.leaves()
	for line := range strings.Lines(p.All()) {
		if strings.HasPrefix(line, "›") {
			require.Equal(t, "› go\n", line)
		}
		require.False(t, strings.HasPrefix(line, "✓ $ make") || strings.HasPrefix(line, "●") || strings.HasPrefix(line, "· Ready"), line)
	}
	require.Contains(t, p.All(), "│ › yes, delete it\n")
	require.Contains(t, p.All(), "│ ✓ $ make test")
	require.Contains(t, p.All(), "  › yes\n  · Ready\n")
	require.Contains(t, p.All(), "│ › yes, too\n")
}

func TestTheBannerInANarrowWindow(t *testing.T) {
	t.Parallel()
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	dir := filepath.Join(t.TempDir(), strings.Repeat("a long name of a directory", 3))
	require.NoError(t, os.Mkdir(dir, 0o700))
	p.Terminal = termtest.Start(t, p.command(pygenttest.NewServer(t), "PYGENT_WORKSPACE="+dir), 40, 20)
	p.Await("Ready")
	p.leaves()
	all := p.All()
	require.Contains(t, all, "\n  files\n  "+dir+"\n", "it can be copied")
	require.Contains(t, all, "Type a message. /help lists the\n  commands, ? lists the keys, Ctrl-D\n  leaves.")
	p.history = filepath.Join(t.TempDir(), "history.json")
	p.Terminal = termtest.Start(t, p.command(pygenttest.NewServer(t), temporary), 40, 20)
	p.Await("Ready")
	p.leaves()
	require.NotContains(t, p.All(), "--", "flags of a program that this is not")
}
