package persontest

import (
	"strings"

	"github.com/x/pygent/internal/termtest"
)

// AwaitQuestion waits until keys answer the question that is shown. The session says
// how they do only then.
func AwaitQuestion(x *termtest.Terminal) termtest.Screen {
	return x.Until("question that listens", func(s termtest.Screen) bool {
		text := s.Text()
		return strings.Contains(text, "arrows and Enter") || strings.Contains(text, "Enter answers") || strings.Contains(text, "type an answer")
	})
}
