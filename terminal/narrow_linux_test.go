package terminal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/termtest"
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
				p.Await("Tab takes it")
				p.Resize(size[0], size[1])
				p.Until("the list in its rows", func(s termtest.Screen) bool {
					return strings.Contains(s.Text(), "Tab takes it") && strings.Contains(s.Text(), "…\n")
				})
				p.Key("ctrl+c")
				p.AwaitNo("Tab takes it")
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
