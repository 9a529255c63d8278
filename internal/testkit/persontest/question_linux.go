package persontest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
)

// AwaitQuestion waits until keys answer the question that is shown. The session says
// how they do only then.
func AwaitQuestion(x *termtest.Terminal) termtest.Screen {
	return x.Until("question that listens", func(s termtest.Screen) bool {
		text := s.Text()
		return strings.Contains(text, "arrows and Enter") || strings.Contains(text, "Enter answer") || strings.Contains(text, "type an answer")
	})
}

// typesEvery is how often somebody presses a key who types blindly.
const typesEvery = 50 * time.Millisecond

// TypeBlindly presses a key again and again, as somebody does who looks elsewhere, until
// the screen has a text. So a key comes just after a question, however long the test
// takes to see that.
func TypeBlindly(t testing.TB, x *termtest.Terminal, key, until string) {
	t.Helper()
	for soon := Soon(t); !strings.Contains(x.Screen().Text(), until); time.Sleep(typesEvery) {
		require.NoError(t, soon.Err(), x.Screen().Text())
		x.Type(key)
	}
}
