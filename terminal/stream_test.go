package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
)

// counter counts what is written.
type counter struct{ bytes, writes int }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes, c.writes = c.bytes+len(p), c.writes+1
	return len(p), nil
}

// drawn returns a session that draws on a screen of 80 columns and 24 rows.
func drawn(tb testing.TB) (*session, *counter) {
	tb.Setenv("XDG_STATE_HOME", tb.TempDir())
	written := &counter{}
	return newSession(tb.Context(), pygent.FaceSession{}, &tty{out: screen.New(written)}), written
}

// answer is a text of a size as models write it: paragraphs, lists and code.
func answer(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "Paragraph %d explains **what** `f%d` does, and why it is as long as this one is.\n\n- one\n- two\n\n```go\nfunc f%d() int {\n\treturn %d\n}\n```\n\n", i, i, i, i)
	}
	return b.String()[:size]
}

// play streams a text in pieces of 20 bytes, with a frame after each three of them:
// a fast model writes a hundred in a second, and there are 30 frames.
func play(s *session, text string) {
	const piece, framesEvery = 20, 3
	for i := 0; len(text) > 0; i++ {
		n := min(piece, len(text))
		s.streamText(text[:n])
		s.display.changed = true // as an event does
		text = text[n:]
		if i%framesEvery == 0 {
			s.display.drawn = time.Time{}
			s.draw()
		}
	}
	s.finishText()
	s.display.drawn = time.Time{}
	s.draw()
}

func BenchmarkStream(b *testing.B) {
	block := "```\n" + strings.Repeat("a line of one long block\n", 200<<10/25)
	for name, text := range map[string]string{
		"10000 pieces":            answer(200 << 10),
		"1 MiB":                   answer(1 << 20),
		"10000 pieces, one block": block,
	} {
		b.Run(name, func(b *testing.B) {
			written := 0
			for b.Loop() {
				s, count := drawn(b)
				play(s, text)
				written = count.bytes
			}
			b.ReportMetric(float64(written)/float64(len(text)), "written-B/B")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(text)/20), "µs/piece")
		})
	}
}

// What is written grows with the text, and not with its square.
func TestWhatIsWrittenGrowsWithTheText(t *testing.T) {
	perByte := func(size int) float64 {
		s, count := drawn(t)
		play(s, answer(size))
		return float64(count.bytes) / float64(size)
	}
	small, large := perByte(8<<10), perByte(128<<10)
	require.Less(t, large, 1.2*small)
	require.Less(t, large, 30.0, "bytes to the terminal for one of the text")
}
