// Package verdict decides how a run goes on after the model answered in text, without
// a tool call. Models that are trained on chat end their work with a text, and do not
// call a tool for it. Weak models also announce a step that they do not take, or say
// that something is done that they have not begun. So the words alone do not decide:
//
//   - A text that asks something ends the run with a question.
//   - Once a tool has run, a text is the end, unless it announces a step.
//   - Where the user asked for words only, as in "what is 2+2?", a text is the end, too.
//   - Where the user asked for work and no tool has run, the model is told to begin or
//     to call stop. If it answers in text again, the next request leaves it no other
//     way than a call. A third text is no progress: a script must be able to rely on a
//     run that says it is done.
//   - Where it is unclear what the user asked for, the third text is taken as it is.
package verdict

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

	asked   Request // what the user asked for
	worked  bool    // a tool has run since
	texts   int     // texts in a row that did not end the run
	demands int     // in this run
	stands  bool    // the last text was an answer, if perhaps not the end
}

// Hear takes in what the user says.
func (j *Judge) Hear(prompt string) {
	*j = Judge{asked: Asked(prompt), demands: j.demands, Refused: j.Refused}
}

// Ran notes that a tool has run.
func (j *Judge) Ran() { j.worked, j.stands = true, false }

// Called notes an answer that calls a tool.
func (j *Judge) Called() { j.texts = 0 }

// Text is an answer without a call.
type Text struct {
	Text    string
	HasCall bool // a call is written in the text
	CanStop bool // the model is given a tool that ends the run
}

// Judge says how the run goes on after a text.
func (j *Judge) Judge(t Text) Verdict {
	unfinished := t.HasCall || Announces(t.Text)
	j.stands = !unfinished
	answers := j.worked || j.asked == Words
	switch {
	case !unfinished && AsksUser(t.Text) && !(answers && Offers(t.Text)):
		return Asks
	case !unfinished && answers:
		return Done
	}
	j.texts++
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
	if j.asked == Unclear && !unfinished {
		return Done
	}
	return Stuck
}

// Waits notes a text that was an answer, but did not end the run because something
// still works.
func (j *Judge) Waits() { j.texts++ }

// Idle reports whether work was asked for and none was done.
func (j *Judge) Idle() bool { return j.asked == Work && !j.worked }

// Stands reports whether the last text was an answer, and no tool has run since: then what
// follows, such as the summary of a stop, says only that it was the last.
func (j *Judge) Stands() bool { return j.stands }
