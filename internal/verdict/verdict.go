// Package verdict decides how a run goes on after the model answered in text, without
// a tool call. Models that are trained on chat end their work with a text, and do not
// call a tool for it. Weak models also announce a step that they do not take, or say
// that something is done that they have not begun. So the words alone do not decide:
//
//   - A text that asks something ends the run with a question, unless it only offers more
//     once the work is done, or is the text that was asked for.
//   - Once a tool has run, a text is the end, unless it announces a step.
//   - Where the user asked for words only, as in "what is 2+2?", a text is the end, too.
//     A call that is written in it is an example, if the words were to be about calls.
//   - Where the user asked for work and no tool has run, the model is told to begin or
//     to call stop. If it answers in text again, the next request leaves it no other
//     way than a call. A third text is no progress: a script must be able to rely on a
//     run that says it is done.
//   - Where it is unclear what the user asked for, the third text is taken as it is.
package verdict

import "slices"

// Verdict says how a run goes on after an answer in text.
type Verdict int

// The verdicts.
const (
	Done   Verdict = iota // the text is the answer
	Asks                  // the text asks the user
	Nudge                 // the model is told to act, or to call stop
	Demand                // as Nudge, and its next answer has to be a call
	Stuck                 // the model does nothing but write
)

// maxDemands is how often in a run a call is demanded. A model that makes one call each
// time, and then only writes again, would otherwise go on to the limit of steps.
const maxDemands = 3

// Judge remembers what a run was asked for and what it has done. The zero Judge was
// asked for nothing. It is not safe for concurrent use.
type Judge struct {
	Demanded bool     // the next answer has to be a call
	Open     []string // what still works, for which the last text did not end the run
	Refused  bool     // an end was refused, for what still works or has failed; once in a run

	prompt  prompt // what the user said last
	worked  bool   // a tool has run since
	failed  bool   // the last one failed
	answers int    // of the model since
	texts   int    // texts in a row that did not end the run
	demands int    // in this run
	last    standing
	waits   bool // the last text was the answer, but something still works
	unmet   bool // the last text was none, whatever it said
}

// standing is what the last text is worth. No tool has run since.
type standing int

const (
	nothing standing = iota
	plans            // a plan: the answer, unless another text follows
	stands           // an answer, if perhaps not the end
)

// Hear takes in what the user says.
func (j *Judge) Hear(said string) {
	*j = Judge{prompt: readPrompt(said), demands: j.demands, Refused: j.Refused}
}

// Ran notes that a tool has run, and whether it failed.
func (j *Judge) Ran(failed bool) { j.worked, j.failed, j.last = true, failed, nothing }

// Answered notes an answer of the model, and whether it calls a tool.
func (j *Judge) Answered(calls bool) {
	if j.answers++; calls {
		j.texts = 0
	}
}

// Text is an answer without a call.
type Text struct {
	Text    string
	HasCall bool   // a call is written in the text
	Quotes  string // the tool of a call that the text quotes, if it does
	CanStop bool   // the model is given a tool that ends the run
}

// Judge says how the run goes on after a text.
func (j *Judge) Judge(t Text) Verdict {
	j.waits, j.unmet = false, false
	planned := Plans(t.Text)
	t.HasCall = t.HasCall && !j.Explains(t.Text, t.Quotes)
	unfinished := t.HasCall || Announces(t.Text) || planned && !AsksUser(t.Text) && !j.prompt.plan && j.prompt.asked != Words
	switch {
	case !unfinished:
		j.last = stands
	case planned && !t.HasCall:
		j.last = plans
	default:
		j.last = nothing
	}
	answers := j.worked || j.prompt.asked == Words
	switch {
	case !unfinished && j.asks(t.Text):
		return Asks
	case !unfinished && answers:
		return Done
	}
	j.texts++
	j.unmet = true
	switch {
	case j.texts == 1:
		return Nudge
	case !t.CanStop && !unfinished: // it has no other way to say so
		return Done
	case t.CanStop && j.texts == 2 && j.demands < maxDemands:
		j.demands++
		j.Demanded = true
		return Demand
	}
	if j.prompt.asked == Unclear && !unfinished {
		return Done
	}
	return Stuck
}

// Explains reports whether a text shows a call of the tool that it quotes because the user
// asked how one is made.
func (j *Judge) Explains(text, quotes string) bool {
	return quotes != "" && !j.worked && j.prompt.isOfCalls(quotes) && !slices.ContainsFunc(proseSentences(text), announces)
}

// Waits notes a text that was an answer, but did not end the run because something
// still works.
func (j *Judge) Waits() { j.texts, j.waits = j.texts+1, true }

// asks reports whether the question at the end of a text has to be answered.
func (j *Judge) asks(text string) bool {
	switch {
	case !AsksUser(text):
		return false
	case j.worked:
		return !Offers(text) && (j.failed || !j.prompt.leaves(text))
	case j.prompt.asked == Words:
		return !Offers(text) && !j.prompt.isText(text)
	}
	return true
}

// Keeps reports whether a text that a call follows may still be the answer: it is no plan
// of that call, and was not judged to be no answer.
func (j *Judge) Keeps(text string) bool {
	return j.waits || !j.unmet && !Announces(text) && !Plans(text)
}

// PutsOff reports whether a text takes up the work that was asked for in words only.
func (j *Judge) PutsOff(text string) bool { return j.prompt.asked == Work && Announces(text) }

// Owes reports whether the user asked a question, so that a run without an answer is none.
func (j *Judge) Owes() bool { return j.prompt.owed && j.prompt.asked != Work }

// Unbegun reports whether work was asked for, and the model's first answer takes none up.
func (j *Judge) Unbegun() bool { return j.prompt.asked == Work && !j.worked && j.answers <= 1 }

// Stands reports whether the last text was an answer, and no tool has run since: then a
// text that follows says only that it was the last.
func (j *Judge) Stands() bool { return j.last == stands }

// Answers reports whether the last text, and no tool has run since, is the answer if the
// model stops now. What it says of its stop is not: it was told that the text counts.
func (j *Judge) Answers() bool { return j.last != nothing }
