package livearea

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// emulator is a small model of a terminal: what livearea sends, and what happens to
// it when the terminal is resized.
type emulator struct {
	t             *testing.T
	width, height int
	rows          []row // with those that have scrolled away
	y, x          int   // the cursor, with y among all rows
	full          bool  // the cursor is behind the last column
	noWrap        bool
	hidden        bool
}

// row is a row of a terminal; a wide character is followed by an empty cell.
type row struct {
	cells   []string
	wrapped bool // the line goes on in the next row
}

func newEmulator(t *testing.T, width, height int) *emulator {
	return &emulator{t: t, width: width, height: height, rows: make([]row, 1)}
}

func (s *emulator) write(text string) {
	var state byte
	for text != "" {
		seq, width, n, next := ansi.DecodeSequence(text, state, nil)
		text, state = text[n:], next
		switch {
		case width > 0:
			s.put(seq, width)
		case strings.HasPrefix(seq, "\x1b["):
			s.control(seq)
		case seq == "\r":
			s.x, s.full = 0, false
		case seq == "\n":
			s.feed()
		case seq == "\t":
			s.x, s.full = min((s.x/8+1)*8, s.width-1), false
		default:
			s.t.Fatalf("the terminal got %q", seq)
		}
	}
}

func (s *emulator) feed() {
	s.y++
	if s.y == len(s.rows) {
		s.rows = append(s.rows, row{})
	}
}

func (s *emulator) put(c string, width int) {
	if s.full || s.x+width > s.width {
		if s.noWrap {
			s.x = s.width - width
		} else {
			s.rows[s.y].wrapped = true
			s.feed()
			s.x = 0
		}
		s.full = false
	}
	r := &s.rows[s.y]
	for len(r.cells) < s.x+width {
		r.cells = append(r.cells, " ")
	}
	r.cells[s.x] = c
	if width == 2 {
		r.cells[s.x+1] = ""
	}
	if s.x += width; s.x >= s.width {
		s.x, s.full = s.width-1, true
	}
}

func (s *emulator) control(seq string) {
	n := 1
	if _, err := fmt.Sscanf(seq, "\x1b[%d", &n); err != nil {
		n = 1
	}
	switch seq[len(seq)-1] {
	case 'm':
	case 'A':
		s.y, s.full = max(s.y-n, len(s.rows)-s.height, 0), false
	case 'C':
		s.x, s.full = min(s.x+n, s.width-1), false
	case 'K':
		s.eraseRow()
	case 'J':
		s.eraseRow()
		s.rows = s.rows[:s.y+1]
	case 'h', 'l':
		on := strings.HasSuffix(seq, "h")
		switch seq[:len(seq)-1] {
		case "\x1b[?7":
			s.noWrap = !on
		case "\x1b[?25":
			s.hidden = !on
		}
	default:
		s.t.Fatalf("the terminal got %q", seq)
	}
}

func (s *emulator) eraseRow() {
	r := &s.rows[s.y]
	r.cells, r.wrapped, s.full = r.cells[:min(s.x, len(r.cells))], false, false
}

// reflow is what a terminal does with its rows when it gets another width.
type reflow int

const (
	wrapsAll    reflow = iota // as most terminals
	wrapsOthers               // all but the cursor's, as xterm.js
	cutsAll                   // as xterm
)

// resize wraps all lines again, as most terminals do. The one with the cursor
// stays as it is in one that wraps the others, and the cursor moves in the text by the
// rows that are added below it, as in xterm.js.
func (s *emulator) resize(width, height int, how reflow) {
	if how == cutsAll {
		s.cut(width, height)
		return
	}
	keep := how == wrapsOthers
	var rows []row
	var y, x, pushed int
	s.width, s.height = width, height
	for i := 0; i < len(s.rows); {
		var cells []string
		cursor, first := -1, i
		for {
			if i == s.y {
				cursor = len(cells) + s.x
			}
			cells = append(cells, s.rows[i].cells...)
			i++
			if !s.rows[i-1].wrapped || i == len(s.rows) {
				break
			}
		}
		if cursor >= 0 && keep {
			y, x = len(rows)+s.y-first, min(s.x, width-1)
			for _, r := range s.rows[first:i] {
				r.cells = r.cells[:min(len(r.cells), width)]
				rows = append(rows, r)
			}
			continue
		}
		if keep && first > s.y {
			pushed -= i - first + len(rows)
		}
		at := 0
		for {
			end := min(at+width, len(cells))
			if end < len(cells) && cells[end] == "" {
				end--
			}
			switch {
			case cursor >= at && cursor < end:
				y, x = len(rows), cursor-at
			case cursor >= at && end == len(cells):
				y, x = len(rows)+(cursor-at)/width, (cursor-at)%width
			}
			rows = append(rows, row{slices.Clone(cells[at:end]), end < len(cells)})
			if at = end; at == len(cells) {
				break
			}
		}
		if keep && first > s.y {
			pushed += len(rows)
		}
		for y >= len(rows) {
			rows = append(rows, row{})
		}
	}
	y += max(pushed, 0)
	for y >= len(rows) {
		rows = append(rows, row{})
	}
	s.rows, s.y, s.x, s.full = rows, y, x, false
}

// cut cuts all rows.
func (s *emulator) cut(width, height int) {
	for i := range s.rows {
		s.rows[i].cells = s.rows[i].cells[:min(len(s.rows[i].cells), width)]
	}
	s.width, s.height, s.x, s.full = width, height, min(s.x, width-1), false
}

// lines returns the text of the terminal, with the lines as they were before it
// wrapped them.
func (s *emulator) lines() []string {
	var lines []string
	var line strings.Builder
	for _, r := range s.rows {
		line.WriteString(strings.Join(r.cells, ""))
		if !r.wrapped {
			lines = append(lines, strings.TrimRight(line.String(), " "))
			line.Reset()
		}
	}
	return lines
}

func TestDraw(t *testing.T) {
	s, a := newEmulator(t, 20, 6), New(20, 6)
	s.write(a.Draw("", View{Rows: []string{"working", "> he"}, Row: 1, Col: 4}))
	require.Equal(t, []string{"working", "> he"}, s.lines())
	require.Equal(t, []int{1, 4}, []int{s.y, s.x})

	s.write(a.Draw("one\n\ntwo, which is longer than a row of the terminal", View{Rows: []string{"working"}}))
	require.Equal(t, []string{"one", "", "two, which is longer than a row of the terminal", "working"}, s.lines())

	s.write(a.Draw("", View{Rows: []string{"working", "more", "> "}, Row: 2, Col: 2}))
	s.write(a.Draw("", View{Rows: []string{"working", "> "}, Row: 1, Col: 2, NoCursor: true}))
	require.Equal(t, []string{"one", "", "two, which is longer than a row of the terminal", "working", ">"}, s.lines())
	require.True(t, s.hidden)
	require.Empty(t, a.Draw("", View{Rows: []string{"working", "> "}, Row: 1, Col: 2, NoCursor: true}), "nothing has changed")

	s.write(a.Remove("bye\n"))
	require.Equal(t, []string{"one", "", "two, which is longer than a row of the terminal", "bye", ""}, s.lines())
	require.False(t, s.hidden)
	require.False(t, s.noWrap)
}

func TestRowsNeverWrapAndLeaveRoomAbove(t *testing.T) {
	s, a := newEmulator(t, 5, 3), New(5, 3)
	s.write(a.Draw("above", View{Rows: []string{"a", "12345", "日本語日本語", "123456789"}, Row: 3, Col: 40}))
	require.Equal(t, []string{"above", "日本…", "1234…"}, s.lines())
	require.Equal(t, 4, s.x)
	s.write(a.Draw("", View{Rows: []string{"a", "b", "c", "d"}, Row: 1}))
	require.Equal(t, []string{"above", "a", "b"}, s.lines(), "the cursor's row is kept")
	s.write(a.Draw("", View{Rows: []string{"a\tb", ""}, Row: 9}))
	require.Equal(t, []string{"above", "a   …", ""}, s.lines())
}

func TestTerminalsThatWrapTheRows(t *testing.T) {
	long := strings.Repeat("1234567890", 3)
	for name, tt := range map[string]struct {
		how  reflow
		opts []Option
	}{
		"all of them":        {},
		"but the cursor's":   {wrapsOthers, []Option{KeepsCursorRow}},
		"of wide characters": {},
	} {
		t.Run(name, func(t *testing.T) {
			row := long
			if name == "of wide characters" {
				row = strings.Repeat("日本語", 5)
			}
			s, a := newEmulator(t, 30, 10), New(30, 10, tt.opts...)
			s.write(a.Draw("first", View{Rows: []string{row, "> " + long[:25]}, Row: 1, Col: 27}))
			for _, width := range []int{13, 7, 40, 30} {
				s.resize(width, 10, tt.how)
				a.Resize(width, 10)
				v := View{Rows: []string{"status", "> x"}, Row: 1, Col: 3}
				s.write(a.Draw("", v))
				require.Equal(t, []string{"first", "status", "> x"}, s.lines(), "%d columns", width)
				s.resize(30, 10, tt.how)
				a.Resize(30, 10)
				s.write(a.Draw("", View{Rows: []string{row, "> " + long[:25]}, Row: 1, Col: 27}))
			}
		})
	}
}

// play plays a session of random texts and sizes, and checks what the terminal
// shows after each draw.
func play(t *testing.T, r *rand.Rand) {
	width, height := 2+r.IntN(30), 2+r.IntN(12)
	how := wrapsAll
	var opts []Option
	if r.IntN(2) == 0 {
		how, opts = wrapsOthers, append(opts, KeepsCursorRow)
	}
	s, a := newEmulator(t, width, height), New(width, height, opts...)
	var printed []string
	for range 40 {
		if r.IntN(4) == 0 {
			width = 2 + r.IntN(30)
			if r.IntN(3) == 0 {
				height += r.IntN(4) // rows that a lower terminal pushes out of sight cannot be erased
			}
			tall := 0
			for _, row := range a.shown.Rows {
				n, _ := wrapped(row, 0, width)
				tall += n
			}
			height = max(height, tall+1)
			s.resize(width, height, how)
			a.Resize(width, height)
		}
		finished := ""
		for range r.IntN(3) {
			line := strings.TrimRight(text(r, 70), " ")
			printed, finished = append(printed, strings.TrimRight(ansi.Strip(line), " ")), finished+line+"\n"
		}
		v := View{Row: r.IntN(5), Col: r.IntN(30), NoCursor: r.IntN(5) == 0}
		for range r.IntN(6) {
			v.Rows = append(v.Rows, text(r, 40))
		}
		s.write(a.Draw(finished, v))
		want := slices.Clone(printed)
		for _, row := range a.fit(v).Rows {
			want = append(want, strings.TrimRight(ansi.Strip(row), " "))
		}
		require.Equal(t, want, s.lines())
		require.Equal(t, len(s.rows)-len(a.shown.Rows)+a.shown.Row, s.y)
		require.Equal(t, a.shown.Col, s.x)
		require.Equal(t, v.NoCursor, s.hidden)
	}
}

// text makes a line of up to so many columns.
func text(r *rand.Rand, most int) string {
	var b strings.Builder
	for n := r.IntN(most + 1); Width(b.String()) < n; {
		b.WriteString([]string{"a", "bc", " ", "日", "é", "\x1b[31m", "\x1b[m", "x"}[r.IntN(8)])
	}
	return Clean(b.String())
}

func FuzzDraw(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { play(t, rand.New(rand.NewPCG(a, b))) })
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                   "plain\ttext\n",
		"\x1b[1;31mred\x1b[m":             "\x1b[1;31mred\x1b[m",
		"\x1b[38:2::1:2:3mred":            "\x1b[38:2::1:2:3mred",
		"\x1b[2J\x1b]0;title\x07":         "␛[2J␛]0;title␇",
		"\x1b[3\x1b[4m":                   "␛[3\x1b[4m",
		"\x1b[" + strings.Repeat("1", 80): "␛[" + strings.Repeat("1", 80),
		"a\rb\u009b2J":                    "a␍b<U+009B>2J",
	} {
		require.Equal(t, want, Clean(in))
		require.Equal(t, want, Clean(want), "twice is once")
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[1m\x1b[31\x1b[K")
	f.Fuzz(func(t *testing.T, text string) {
		got := Clean(text)
		require.True(t, utf8.ValidString(got))
		var state byte
		for got != "" {
			seq, width, n, next := ansi.DecodeSequence(got, state, nil)
			got, state = got[n:], next
			if width == 0 && seq[0] < ' ' && seq != "\n" && seq != "\t" {
				require.Equal(t, len(seq), styleLength(seq), "%q", seq)
			}
		}
	})
}

func TestWrapKeepsStyles(t *testing.T) {
	require.Equal(t, []string{"\x1b[31mhello", "\x1b[31mworld", "\x1b[31mfoo\x1b[m bar", "baz"}, Wrap("\x1b[31mhello world foo\x1b[m bar baz", 8))
	require.Equal(t, []string{""}, Wrap("", 8))
	for _, row := range Wrap(strings.Repeat("日本 語 ", 30), 7) {
		require.LessOrEqual(t, Width(row), 7)
	}
}
