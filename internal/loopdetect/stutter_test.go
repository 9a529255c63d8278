package loopdetect_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/loopdetect"
)

// found adds a text in pieces of a size, and returns what is repeated and after how many
// bytes that was noticed.
func found(f loopdetect.TextFinder, text string, size int) (period string, after int) {
	for i := 0; i < len(text); i += size {
		end := min(i+size, len(text))
		if period := f.Add(text[i:end]); period != "" {
			return period, end
		}
	}
	return "", len(text)
}

func TestLoopsAreNoticed(t *testing.T) {
	t.Parallel()
	before := "I look at the files first. Then I write the test.\n"
	paragraph := strings.Repeat("Wait, let me check whether the file is there. ", 3) + "It is. Hmm, but then the test should pass. Let me look again.\n\n"
	for name, c := range map[string]struct {
		file   bool
		text   string
		within int
	}{
		"a sentence":           {false, before + strings.Repeat("I check the file again. ", 1000), 10 << 10},
		"a thought":            {false, strings.Repeat(paragraph, 200), 12 << 10},
		"a word":               {false, before + strings.Repeat("no ", 10000), 18 << 10},
		"a character":          {false, before + strings.Repeat("!", 40000), 18 << 10},
		"another script":       {false, before + strings.Repeat("我再检查一次文件。", 2000), 10 << 10},
		"arguments":            {true, `{"path":"a","content":"` + strings.Repeat(`x = 1\n`, 30000), 80 << 10},
		"after a long text":    {false, differing(200_000) + strings.Repeat("I check the file again. ", 1000), 212_000},
		"arguments, character": {true, `{"cmd":"` + strings.Repeat("0", 200_000), 80 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7, 24, 4000} {
				period, after := found(loopdetect.TextFinder{File: c.file}, c.text, size)
				require.NotEmpty(t, period)
				require.LessOrEqual(t, after, c.within+size)
			}
		})
	}
}

// differing is a log whose lines differ.
func differing(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2026-11-28 17:00:%02d INFO request %d handled in 3 ms\n", i%60, i)
	}
	return b.String()
}

// TestWhatIsMeantIsNoLoop has texts that repeat much and are meant.
func TestWhatIsMeantIsNoLoop(t *testing.T) {
	t.Parallel()
	lines := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		file bool
		text string
	}{
		"a log":                       {false, differing(500_000)},
		"a table":                     {false, lines(5000, "| row %d | yes | yes | no | 0 | 0 | 0 |\n")},
		"an empty table":              {false, strings.Repeat("|  |  |  |  |  |\n", 300)},
		"a ruler":                     {false, strings.Repeat("=", 10_000)},
		"a matrix of zeros":           {false, strings.Repeat("0, ", 4000)},
		"the same code line":          {false, strings.Repeat("    assert.NoError(t, err)\n", 200)},
		"the same log line":           {false, strings.Repeat("WARN connection refused, retrying\n", 200)},
		"numbers":                     {false, lines(100_000, "%d\n")},
		"one line, then another":      {false, strings.Repeat(strings.Repeat("[ok] all tests passed\n", 150)+"---\nnext\n", 40)},
		"a fixture of equal lines":    {true, strings.Repeat(`{\"user\":\"a\",\"id\":1}\n`, 2000)},
		"a file of zeros":             {true, strings.Repeat(`0x00, `, 9000)},
		"an image in base64":          {true, strings.Repeat("A", 60_000)},
		"a table of a test":           {true, lines(20_000, `{\"case\", %d, true},\n`)},
		"a long file of blank blocks": {true, strings.Repeat(strings.Repeat(" ", 5000)+`x\n`, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{3, 24, 4000} {
				period, _ := found(loopdetect.TextFinder{File: c.file}, c.text, size)
				require.Empty(t, period)
			}
		})
	}
}

// TestRandomTextsAreNoLoops builds texts of few words, which repeat by chance.
func TestRandomTextsAreNoLoops(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		for b.Len() < 60_000 {
			b.WriteString([]string{"true, ", "false, ", "nil, "}[random.IntN(3)])
		}
		period, _ := found(loopdetect.TextFinder{}, b.String(), 1+random.IntN(100))
		require.Empty(t, period, "seed %d", seed)
	}
}

func BenchmarkAdd(b *testing.B) {
	text := differing(1 << 20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		found(loopdetect.TextFinder{}, text, 8)
	}
}
