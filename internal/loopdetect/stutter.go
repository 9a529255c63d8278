package loopdetect

// The bounds of what is still taken for meant.
const (
	sentence  = 16 // bytes of a period from which on it says something
	leastText = 8 << 10
	leastRow  = 16 << 10
	leastFile = 64 << 10
	least     = 32 // repetitions
	step      = 1 << 10
)

// TextFinder follows one text. The zero value is for an answer or a thought.
//
// Models write such a text when they are caught in a loop: one sentence, one thought or one
// character, over and over. Only an exact period counts, so a table, a log or a list whose
// lines differ by a number is none, however long it is. What people do ask for can be
// periodic too: a ruler, rows of zeros, a fixture of equal lines. So a period has to fill far
// more than anybody reads:
//
//   - In an answer or a thought, 8 KiB of a period of 16 bytes or more, at least 32
//     times: a sentence of a hundred bytes, eighty times. A loop writes that in seconds.
//   - 16 KiB of a shorter period, since rulers and rows of digits have one.
//   - 64 KiB in the arguments of a call, whose text may be a file.
//
// The time to notice costs a few thousand tokens at most; what it saves is all the tokens
// until the limit of the answer, which some servers do not have.
type TextFinder struct {
	File bool // the text is the arguments of a call

	tail []byte // the last bytes of the text
	next int    // bytes until the next look
	fail []int  // memory of period
}

// Add adds a piece of the text. It returns what is repeated without end at the text's
// end; empty for nothing.
func (f *TextFinder) Add(piece string) (period string) {
	f.tail = append(f.tail, piece...)
	if f.next -= len(piece); f.next > 0 {
		return ""
	}
	f.next = step
	window := leastRow
	if f.File {
		window = leastFile
		f.next = leastFile / 8
	}
	if len(f.tail) >= 2*window {
		f.tail = append(f.tail[:0], f.tail[len(f.tail)-window:]...)
	}
	shorter := leastText
	if f.File {
		shorter = leastFile
	}
	for _, n := range []int{shorter, window} {
		if len(f.tail) < n {
			return ""
		}
		p := f.period(f.tail[len(f.tail)-n:])
		if p*least <= n && (p >= sentence || n == window) {
			return string(f.tail[len(f.tail)-p:])
		}
	}
	return ""
}

// period returns the smallest period of a text, by the failure function of Knuth, Morris
// and Pratt: the length without the longest beginning that is an end, too.
func (f *TextFinder) period(text []byte) int {
	if half := text[len(text)/2:]; !repeatsLast(half) {
		return len(text)
	}
	if cap(f.fail) < len(text) {
		f.fail = make([]int, len(text))
	}
	fail := f.fail[:len(text)]
	fail[0] = 0
	for i, n := 1, 0; i < len(text); i++ {
		for n > 0 && text[i] != text[n] {
			n = fail[n-1]
		}
		if text[i] == text[n] {
			n++
		}
		fail[i] = n
	}
	return len(text) - fail[len(text)-1]
}

// repeatsLast reports whether the last bytes of a text occur earlier in it, without which
// it has no short period: quickly found out for nearly every text.
func repeatsLast(text []byte) bool {
	const enough = 64
	if len(text) <= enough {
		return true
	}
	last := string(text[len(text)-enough:])
	for i := len(text) - enough - 1; i >= 0; i-- {
		if text[i] == last[0] && string(text[i:i+enough]) == last {
			return true
		}
	}
	return false
}
