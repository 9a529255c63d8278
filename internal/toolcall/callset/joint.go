package callset

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/x/pygent/internal/cut"
)

// Joint makes one result of those of the calls that one stands for: a model gets exactly one
// for each call.
type Joint struct {
	Left int // how many results are missing

	note         string // what to tell besides
	titles, said []string
	bad          string
}

// Join makes one result of n, with a note. One of those that are joined already may stand for
// several itself. A single one without a note stays as it is.
func (j *Joint) Join(n int, note string) {
	switch {
	case j.Left > 0:
		j.Left += n - 1
		j.note = cmp.Or(note, j.note)
	case n > 1 || note != "":
		*j = Joint{Left: n, note: note}
	}
}

// Good is the outcome of a call that did what it should.
const Good = "ok"

// Add takes the next result: what the call does, what it says, and its outcome. With the last
// one it returns the whole, of about max bytes at most, and the first outcome that was not good.
func (j *Joint) Add(title, text, outcome string, max int) (whole, all string, done bool) {
	j.titles, j.said = append(j.titles, title), append(j.said, text)
	if outcome != Good {
		j.bad = cmp.Or(j.bad, outcome)
	}
	if j.Left--; j.Left > 0 {
		return "", "", false
	}
	if len(j.said) > 1 {
		for i, text := range j.said {
			j.said[i] = "[" + cut.Line(j.titles[i], maxTitle) + "]\n" + cut.Middle(strings.TrimSuffix(text, "\n"), max/len(j.said))
		}
	}
	if j.note != "" {
		j.said = append(j.said, "["+j.note+"]")
	}
	return strings.Join(j.said, "\n"), cmp.Or(j.bad, Good), true
}

// maxTitle is how much of a title is shown, in bytes.
const maxTitle = 200

// ID returns the id of one of n calls that another stands for, before they are joined. The
// last one has its own; those before it are numbered after the calls that are done, so that
// a call inside the last one has an id of its own, too.
func (j *Joint) ID(id string, nth, n int) string {
	if nth == n-1 {
		return id
	}
	done := 0
	if j.Left > 0 {
		done = len(j.said)
	}
	return fmt.Sprintf("%s.%d", id, done+nth+1)
}

// Index returns a number for one of the calls that the call of a number stands for. No other
// call of the message has it, and it is the same whenever the message is read.
func Index(of, nth int) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d", of, nth)
	return int(h.Sum64() >> 2)
}
