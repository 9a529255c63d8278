package lineinput

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadLine(t *testing.T) {
	tests := []struct {
		name, keys, want, shown string
	}{
		{"plain", "hello\n", "hello", "hello\n"},
		{"carriage return", "hello\r", "hello", "hello\n"},
		{"empty", "\n", "", "\n"},
		{"backspace", "helo\x7flo\n", "hello", "helo\b \blo\n"},
		{"the other backspace", "ab\x08\n", "a", "ab\b \b\n"},
		{"backspace on nothing", "\x7fa\n", "a", "a\n"},
		{"a character of several bytes", "grü\x7fö\n", "grö", "grü\b \bö\n"},
		{"a wide character", "日\x7f\n", "", "日\b \b\b \b\n"},
		{"a combining character", "e\u0301\x7f\n", "e", "e\u0301\n"},
		{"kill", "abc\x15d\n", "d", "abc\b \b\b \b\b \bd\n"},
		{"word", "one two  \x17x\n", "one x", "one two  \b \b\b \b\b \b\b \b\b \bx\n"},
		{"arrows do nothing", "a\x1b[A\x1b[1;5C\x1bOBb\n", "ab", "ab\n"},
		{"the escape key", "a\x1bb\n", "ab", "ab\n"},
		{"a key that is not finished", "a\x1b[\nb\n", "a", "a\n"},
		{"another", "a\x1bO\nb\n", "a", "a\n"},
		{"other control characters", "a\x01\x00b\n", "ab", "ab\n"},
		{"a tab", "a\tb\x7f\n", "a\t", "a b\b \b\n"},
		{"no end after text", "ab\x04c\n", "abc", "abc\n"},
		{"not UTF-8", "a\xffb\n", "a\xffb", "a\ufffdb\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(tt.keys), iotest.OneByteReader(strings.NewReader(tt.keys))} {
				var shown strings.Builder
				line, err := NewReader(in, 1000, func(s string) { shown.WriteString(s) }).ReadLine()
				require.NoError(t, err)
				require.Equal(t, tt.want, line)
				require.Equal(t, tt.shown, shown.String())
			}
		})
	}
}

func TestReadLineGoesOnWithWhatWasTypedAhead(t *testing.T) {
	var shown strings.Builder
	r := NewReader(strings.NewReader("one\ntwo\nthr"), 1000, func(s string) { shown.WriteString(s) })
	for _, want := range []string{"one", "two"} {
		line, err := r.ReadLine()
		require.NoError(t, err)
		require.Equal(t, want, line)
		require.True(t, strings.HasSuffix(shown.String(), want+"\n"), "only what was read is shown")
	}
	_, err := r.ReadLine()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "thr", r.Typed())
	r.Discard()
	require.Empty(t, r.Typed())
}

func TestReadLineOfAnyLength(t *testing.T) {
	const limit = 100_000
	long := strings.Repeat("0123456789", limit/10)
	r := NewReader(strings.NewReader(long+"\n"+long+"x\nshort\n"), limit, func(string) {})
	line, err := r.ReadLine()
	require.NoError(t, err)
	require.Equal(t, long, line)
	_, err = r.ReadLine()
	require.ErrorIs(t, err, ErrTooLong)
	line, err = r.ReadLine()
	require.NoError(t, err)
	require.Equal(t, "short", line)

	line, err = NewReader(strings.NewReader(long+"x\x15short\n"), limit, func(string) {}).ReadLine()
	require.NoError(t, err, "the long line was erased")
	require.Equal(t, "short", line)
}

func TestReadLineEnds(t *testing.T) {
	_, err := NewReader(strings.NewReader("\x04more\n"), 10, func(string) {}).ReadLine()
	require.ErrorIs(t, err, io.EOF)
	_, err = NewReader(iotest.ErrReader(io.ErrClosedPipe), 10, func(string) {}).ReadLine()
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// chunks returns one string for each read, like a terminal. The marks at the
// beginning of a string say what happens before it is read.
type chunks struct {
	reader *Reader
	left   []string
}

const (
	asks   = '?' // a question is shown
	begins = '!' // a question is about to be shown
	waits  = '@' // enough time passes to read it
)

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	text := c.left[0]
	c.left = c.left[1:]
	for ; text != ""; text = text[1:] {
		switch text[0] {
		case asks:
			c.reader.ExpectAnswer(true)
			c.reader.Asked()
		case begins:
			c.reader.ExpectAnswer(true)
		case waits:
			time.Sleep(AnswerDelay)
		default:
			return copy(p, text), nil
		}
	}
	return 0, nil
}

func TestAnswersAreTyped(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads []string
		want  string
		err   error
	}{
		{"key by key", []string{"?@y", "e", "s", "\n"}, "yes", nil},
		{"fast fingers", []string{"?@ye", "s", "\r"}, "yes", nil},
		{"corrected", []string{"?@n", "\x7f", "y", "\n"}, "y", nil},
		{"arrows", []string{"?@\x1b[D", "y", "\x1b[C", "\n"}, "y", nil},
		{"enter alone", []string{"?@\n"}, "", nil},
		{"the rest of a line", []string{"wh", "?@y", "\n"}, "", ErrBegun},
		{"a line begun anew", []string{"wh", "?@\x15", "y", "\n"}, "y", nil},
		{"all at once", []string{"?@y\n"}, "", ErrPasted},
		{"all at once, with a carriage return", []string{"?@y\r"}, "", ErrPasted},
		{"several lines", []string{"?@rm -rf x\ny\n"}, "", ErrPasted},
		{"a line end in the middle", []string{"?@rm\ry", "\n"}, "", ErrPasted},
		{"the end of a word with its line end", []string{"?@y", "es\n"}, "", ErrPasted},
		{"a line end and more", []string{"?@y", "\ny"}, "", ErrPasted},
		{"marked", []string{"?@" + pasteBegins + "y" + pasteEnds}, "", ErrPasted},
		{"marked, key by key", []string{"?@\x1b", "[", "2", "0", "0", "~", "y", "\n", "y", "\x1b", "[", "2", "0", "1", "~"}, "", ErrPasted},
		{"marked, with keys inside", []string{"?@" + pasteBegins, "y\x1b[A\x04\x03", pasteEnds}, "", ErrPasted},
		{"a mark that does not end", []string{"?@" + pasteBegins, "y", "\n"}, "", io.EOF},
		{"before it could be read", []string{"?y", "e", "s", "\n"}, "", ErrTooSoon},
		{"before it was put", []string{"!@y", "\n"}, "", ErrTooSoon},
		{"begun before it could be read", []string{"?y", "@e", "s", "\n"}, "", ErrTooSoon},
		{"a line end before it could be read", []string{"?\n"}, "", ErrTooSoon},
		{"erased too late", []string{"?y", "@\x7f", "n", "\n"}, "", ErrTooSoon},
		{"begun anew once it could be read", []string{"?y", "@\x15", "n", "\n"}, "n", nil},
		{"begun anew before it could be read", []string{"?x\x15y", "@\n"}, "", ErrTooSoon},
		{"the end of the input before it could be read", []string{"?\x04", "@y", "\n"}, "y", nil},
		{"arrows before it could be read", []string{"?\x1b[D", "@y", "\n"}, "y", nil},
		{"pasted before it could be read", []string{"?y\n"}, "", ErrPasted},
		{"marked before it could be read", []string{"?" + pasteBegins + "y", "@" + pasteEnds}, "", ErrPasted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &chunks{left: tt.reads}
				r := NewReader(in, 1000, func(string) {})
				in.reader = r
				line, err := r.ReadLine()
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.want, line)
				if err != io.EOF {
					require.Empty(t, r.Typed(), "nothing is left to the next answer")
				}
			})
		})
	}
}

func TestAPasteAnswersWhereItMay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads []string
		want  string
		err   error
	}{
		{"all at once", []string{"?@sk-1\n"}, "sk-1", nil},
		{"its end typed", []string{"?@sk-1", "\n"}, "sk-1", nil},
		{"marked", []string{"?@" + pasteBegins + "sk-1" + pasteEnds, "\n"}, "sk-1", nil},
		{"marked, with its end", []string{"?@" + pasteBegins + "sk-1\n" + pasteEnds}, "sk-1", nil},
		{"the first of several lines", []string{"?@sk-1\nrm -rf x\n"}, "sk-1", nil},
		{"before the question could be read", []string{"?sk-1\n"}, "", ErrTooSoon},
		{"the rest of a line", []string{"wh", "?@y\n"}, "", ErrBegun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &chunks{left: append(tt.reads, "?@y\n")}
				r := NewReader(in, 1000, func(string) {})
				in.reader = r
				r.TakePastes(true)
				line, err := r.ReadLine()
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.want, line)
				r.TakePastes(false)
				r.ExpectAnswer(true)
				_, err = r.ReadLine()
				require.ErrorIs(t, err, ErrPasted, "the next question takes none, and nothing of this one")
			})
		})
	}
}

func TestALineAloneFromATerminalThatSendsLinesIsTyped(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads []string
		more  bool
		want  string
		err   error
	}{
		{"a line", []string{"?@yes\n"}, false, "yes", nil},
		{"with a carriage return", []string{"?@yes\r"}, false, "yes", nil},
		{"with both", []string{"?@yes\r\n"}, false, "yes", nil},
		{"key by key", []string{"?@y", "\n"}, false, "y", nil},
		{"before it could be read", []string{"?y\n"}, false, "", ErrTooSoon},
		{"several lines", []string{"?@make\ny\n"}, false, "", ErrPasted},
		{"several with carriage returns", []string{"?@make\ry\r"}, false, "", ErrPasted},
		{"a line of several", []string{"?@make\n"}, true, "", ErrPasted},
		{"a line that erases itself", []string{"?@never\x15y\n"}, false, "", ErrPasted},
		{"one that erases its keys", []string{"?@no\x7f\x7fy\n"}, false, "", ErrPasted},
		{"the end of a line", []string{"?@y", "es\n"}, false, "", ErrPasted},
		{"the rest of a line", []string{"wh", "?@y\n"}, false, "", ErrBegun},
		{"marked", []string{"?@" + pasteBegins + "y" + pasteEnds + "\n"}, false, "", ErrPasted},
		{"marked, a line", []string{"?@" + pasteBegins, "y\n", pasteEnds}, false, "", ErrPasted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &chunks{left: tt.reads}
				r := NewReader(in, 1000, func(string) {})
				r.TakeWholeLines(func() bool { return tt.more })
				in.reader = r
				line, err := r.ReadLine()
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.want, line)
			})
		})
	}
}

func TestAnswerAsksUntilSomebodyHasReadTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &chunks{left: []string{
			"say wh", "?at", "\n", // a message, in the middle of which the question comes
			"y", "\n", // the next one
			"@y\n", "@yes", "\n", "never read",
		}}
		var shown strings.Builder
		r := NewReader(in, 1000, func(s string) { shown.WriteString(s) })
		in.reader = r
		answer, err := Answer(func() (string, error) {
			r.ExpectAnswer(true)
			r.Asked()
			return r.ReadLine()
		}, func(why string) { shown.WriteString(why + "\n") })
		require.NoError(t, err)
		require.Equal(t, "yes", answer)
		require.Equal(t, `say what
(that line was begun before the question; type the answer)
y
(that was typed before the question could be read; type the answer)
y
(that came all at once, as a paste does; type the answer)
yes
`, shown.String())

		_, err = Answer(func() (string, error) { return "", io.EOF }, nil)
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestARefusedPasteEndsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &chunks{left: []string{"?@a", pasteBegins + "y" + pasteEnds}}
		var shown strings.Builder
		r := NewReader(in, 1000, func(s string) { shown.WriteString(s) })
		in.reader = r
		_, err := r.ReadLine()
		require.ErrorIs(t, err, ErrPasted)
		require.Equal(t, "a\n", shown.String())
	})
}

func TestLinesThatComeTooSoon(t *testing.T) {
	asked := time.Now()
	require.True(t, TooSoon(asked, asked))
	require.True(t, TooSoon(asked, asked.Add(AnswerDelay-1)))
	require.False(t, TooSoon(asked, asked.Add(AnswerDelay)))
}

func TestPastesAreTextWhereNothingIsAsked(t *testing.T) {
	r := NewReader(strings.NewReader("y\n"+pasteBegins+"a b"+pasteEnds+"\nc\n"), 1000, func(string) {})
	r.ExpectAnswer(true)
	r.ExpectAnswer(false)
	for _, want := range []string{"y", "a b", "c"} {
		line, err := r.ReadLine()
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add("hello\x7f\n\x1b[A日\x17\x15\n")
	f.Fuzz(func(t *testing.T, keys string) {
		r := NewReader(strings.NewReader(keys), 100, func(string) {})
		for {
			line, err := r.ReadLine()
			if err != nil && err != ErrTooLong {
				return
			}
			require.LessOrEqual(t, len(line), 100)
			require.NotContains(t, line, "\n")
		}
	})
}

func TestWhatIsTypedCanBeHidden(t *testing.T) {
	var shown strings.Builder
	in, keys := io.Pipe()
	r := NewReader(in, 1000, func(s string) { shown.WriteString(s) })
	r.Hide(true)
	typed := make(chan string, 2)
	go func() {
		_, _ = keys.Write([]byte("sec"))
		_, _ = keys.Write([]byte("x"))
		typed <- r.Typed() // the last key may not be processed yet, but those before it are
		_, _ = keys.Write([]byte("\x7fret\n"))
	}()
	line, err := r.ReadLine()
	require.NoError(t, err)
	require.Equal(t, "secret", line)
	require.Empty(t, <-typed)
	require.Equal(t, "\n", shown.String())

	r.Hide(false)
	go func() { _, _ = keys.Write([]byte("open\n")) }()
	line, err = r.ReadLine()
	require.NoError(t, err)
	require.Equal(t, "open", line)
	require.Equal(t, "\nopen\n", shown.String())
}
