package thought_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/thought"
)

func TestThoughtsAreToldFromTheAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ whole, thoughts, text string }{
		"tags":                       {"<think>\nHm.\n</think>\n\nHello.", "Hm.", "Hello."},
		"a capital":                  {"<Think>\nHm.\n</Think>\n\nHello.", "Hm.", "Hello."},
		"capitals":                   {"<THINK>Hm.</THINK>Hello.", "Hm.", "Hello."},
		"a capital, alone":           {"Hm.\n</Think>\nHello.", "Hm.", "Hello."},
		"capitals, closed otherwise": {"<Think>Hm.</think>Hello.", "Hm.", "Hello."},
		"a capital, longer":          {"<Thinking>Hm.</Thinking>Hello.", "Hm.", "Hello."},
		"space before":               {"\n<think>Hm.</think>Hello.", "Hm.", "Hello."},
		"twice":                      {"<think>a</think>\n<think>b</think>\nHello.", "a\n\n\nb", "Hello."},
		"unclosed":                   {"<think>\nHm. I should", "Hm. I should", ""},
		"nothing after":              {"<think>Hm.</think>\n", "Hm.", ""},
		"empty":                      {"<think>\n\n</think>\n\nHello.", "", "Hello."},
		"Magistral":                  {"[THINK]Hm.[/THINK]Hello.", "Hm.", "Hello."},
		"Kimi":                       {"◁think▷Hm.◁/think▷Hello.", "Hm.", "Hello."},
		"Seed":                       {"<seed:think>Hm.</seed:think>Hello.", "Hm.", "Hello."},
		"Cohere":                     {"<|START_THINKING|>Hm.<|END_THINKING|>Hello.", "Hm.", "Hello."},
		"Gemma":                      {"<|channel>thought\nHm.<channel|>Hello.", "Hm.", "Hello."},
		"gpt-oss":                    {"<|channel|>analysis<|message|>Hm.<|end|>Hello.", "Hm.", "Hello."},
		"gpt-oss, whole":             {"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.", "Hm.", "Hello."},
		"gpt-oss, no Hm":             {"<|channel|>final<|message|>Hello.", "", "Hello."},
		"MiniMax":                    {"<thinking>Hm.</thinking>\nHello.", "Hm.", "Hello."},
		"closing tag alone":          {"Okay, they greet me.\n</think>\n\nHello.", "Okay, they greet me.", "Hello."},
		"alone at the end":           {"Okay, they greet me.\n</think>", "Okay, they greet me.", ""},

		"no tags":           {"Hello.", "", "Hello."},
		"about tags":        {"The tag `</think>` ends thoughts.", "", "The tag `</think>` ends thoughts."},
		"quoted in a fence": {"Like this:\n```\nHm.\n</think>\n```\nDone.", "", "Like this:\n```\nHm.\n</think>\n```\nDone."},
		"both, further on":  {"It prints\n<think>\nHm.\n</think>\nfirst.", "", "It prints\n<think>\nHm.\n</think>\nfirst."},
		"another tag":       {"<thinker>Hm.</thinker>", "", "<thinker>Hm.</thinker>"},
		"space alone":       {" \n", "", " \n"},
	} {
		t.Run(name, func(t *testing.T) {
			before, text := thought.Split(c.whole)
			require.Equal(t, c.text, text)
			require.Equal(t, c.whole, before+text)
			require.Equal(t, c.thoughts, thought.Inside(before))
		})
	}
}

// TestPiecesAreSplitLikeTheWhole cuts each answer at each place. A stream cannot know of a
// closing tag that stands alone.
func TestPiecesAreSplitLikeTheWhole(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{
		"<think>\nHm.\n</think>\n\nHello.", "<think>a</think>\n<think>b</think>\nHello.", "<think>\nHm. I </thi", "<think>Hm.</think>\n",
		"◁think▷Hm.◁/think▷Hello.", "<|channel>thought\nHm.<channel|>Hello.", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.", "<|channel|>final<|message|>Hello.", "Hello <think>.", "<thin", " \n", "  Hello.", "<thinker>", "",
	} {
		for size := 1; size <= len(whole)+1; size++ {
			var s thought.Splitter
			var text, thoughts strings.Builder
			add := func(t, h string) { text.WriteString(t); thoughts.WriteString(h) }
			for i := 0; i < len(whole); i += size {
				add(s.Add(whole[i:min(i+size, len(whole))]))
			}
			add(s.End())
			before, want := thought.Split(whole)
			require.Equal(t, want, text.String(), "%q by %d", whole, size)
			require.Equal(t, strings.Join(strings.Fields(thought.Inside(before)), ""), strings.Join(strings.Fields(thoughts.String()), ""), "%q by %d", whole, size)
		}
	}
}

// A part of a character is no part of a tag, whatever the tag's own characters are.
func TestPiecesOfThoughtsHaveWholeCharacters(t *testing.T) {
	t.Parallel()
	var s thought.Splitter
	for _, c := range []struct{ piece, thoughts string }{
		{"◁think▷我看看文件", "我看看文件"}, {"é", "é"}, {"。◁", "。"}, {"x◁/THINK", "◁x"}, {"▷Hello.", ""},
	} {
		_, thoughts := s.Add(c.piece)
		require.Equal(t, c.thoughts, thoughts)
	}
}

func TestAStreamMayBeginWithinThoughts(t *testing.T) {
	t.Parallel()
	var s thought.Splitter
	s.Inside("</think>")
	text, thoughts := s.Add("Okay.\n</th")
	require.Empty(t, text)
	require.Equal(t, "Okay.\n", thoughts)
	text, thoughts = s.Add("ink>\n\nHello.")
	require.Equal(t, "Hello.", text)
	require.Empty(t, thoughts)
}

func TestATextMaySayNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "\u200b\u200d", "\ufeff", "\u00a0\u3000", "\x00\x07", "\u2060\ufe0f", "\u3164", "<|im_end|>", "</s>\n<|endoftext|>"} {
		require.True(t, thought.IsNothing(text), "%q", text)
	}
	for _, text := range []string{"a", ".", "👍", "é", "\u200bOK", "<|im_start|>", "<s>", "OK<|im_end|>"} {
		require.False(t, thought.IsNothing(text), "%q", text)
	}
}

func TestTheTagThatClosesThoughtsIsKnown(t *testing.T) {
	t.Parallel()
	for whole, want := range map[string]string{
		"Hm.\n</think>\n\nHello.": "</think>", "Hm.\n[/THINK]\nHello.": "[/THINK]", "<think>Hm.</think>Hello.": "", "Hello.": "",
	} {
		before, _ := thought.Split(whole)
		require.Equal(t, want, thought.Closing(before), whole)
	}
}

func TestAnAnswerThatBeginsWithinThoughtsIsSplit(t *testing.T) {
	t.Parallel()
	for whole, want := range map[string]struct {
		cutOff       bool
		before, text string
	}{
		"Hm.[/THINK] Hello.": {false, "Hm.[/THINK] ", "Hello."},
		"Hm. I sh":           {true, "Hm. I sh\n[/THINK]", ""},
		"Hello.":             {false, "", "Hello."},
		" ":                  {true, "", " "},
	} {
		before, text := thought.SplitInside(whole, "[/THINK]", want.cutOff)
		require.Equal(t, want.before, before, whole)
		require.Equal(t, want.text, text, whole)
	}
}
