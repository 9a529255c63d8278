// Package looptext holds the texts that the loop itself sends to a model: how to
// continue after an answer, how many steps are left, why a call was not run. It
// also recognises these texts in the conversation of a resumed run.
package looptext

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reasons why a call was not run, as its result gives them.
const (
	notRun    = "not run: "
	CallLimit = notRun + "the limit of tool calls for this run is reached"
	LastCall  = notRun + "the limit of this run is reached"
	OtherPart = notRun + "another part of the same call cannot be done, and its parts are done together or not at all"
	LaterPart = notRun + "an earlier part of the same call failed; the parts before that one are done"
	Ended     = notRun + "an earlier call of the same message ended the run"
)

const (
	goOn        = "Go on. Call "
	goOnUntil   = " when the work is done, or continue to ask the user."
	toWork      = "Text alone does nothing here. "
	toWorkUntil = toWork + "If work is left, take its next step now by calling a tool. If your last answer is all that was asked for, call stop, and it counts as it is. To ask the user, call continue."
	hasToCall   = toWork + "Your next answer has to call a tool: the one that takes the next step, continue to ask the user, or stop if nothing is left to do."
	notOver     = "The run is not over: %s. See to it, or answer again to end all the same."
	written     = "Your last answer has a call of "
	asText      = " as text"
	notCalled   = ", which was not run. Call the tool itself, with nothing about it in the text."
	empty       = "Your last answer was empty. Call a tool, or say what you need."
	cutOff      = "Your last answer was cut off by %s. Go on %s."
	cutCall     = notRun + "the answer was cut off by %s, so this call may be incomplete; write %s"
	unread      = "Your last answer could not be read by your server, so no tool was called: %s. Call the tool again; its arguments must be one JSON object."
	endless     = "Your last answer repeated %q without end, so it was cut off. Do something else: call a tool, or say in one sentence what you need."
	onlyThought = "Your last answer had only reasoning, which nobody reads, and was empty otherwise. Call a tool, or say what you need, after the end of your reasoning."
	thoughtCall = "Your last answer has a call of %s in its reasoning, where nothing is run, and was empty otherwise. End your reasoning, and then call the tool itself."
	stepsLeft   = "[%d more steps are possible in this run: finish what matters most, then end it.]"
	stepLeft    = "[One more step is possible in this run: end it now, and say what is done and what is open.]"
	stepLimit   = "[This run ends after %d of your answers.]"
	noStepLimit = "[This run may take as many answers as it needs.]"
	endsHere    = "[The run ends here: "
	sumUp       = endsHere + "%s, and no tool is run any more. Answer in text now, without calling a tool. Sum up for the user what is done, what was checked and what is open.]"
	giveValue   = endsHere + "%s, and no other tool is run any more. Call %s now, with what you know.]"
	notStopped  = "not stopped: "
	notDone     = notStopped + "%s. See to it, or call stop again to stop all the same"
)

// stepsTold is how many steps before the limit the model is first told of it.
const stepsTold = 3

// Answers describes the model's last answers.
type Answers struct {
	Empty   bool   // the last one was empty
	Replies int    // answers in a row without a tool call
	Written string // the tool that the last one called as text; empty for none
	Form    string // what that call is written in; empty for plain text
	Final   string // the tool that ends the run; empty means stop
	Trouble        // with the last one

	Judged   bool     // a text may end the run, and the last one does not
	Demanded bool     // the next answer has to call a tool
	Open     []string // what still works, for which the last text did not end the run
}

// Trouble is what was wrong with an answer.
type Trouble struct {
	Told     string // what the model has to be told of it; empty for what the rest says
	Mistakes int    // answers in a row that could not be read, or had no end
	CutBy    string // what cut it off, [TokenLimit] or [ContentFilter]; empty for nothing
}

// What cuts answers off.
const (
	TokenLimit    = "the token limit"
	ContentFilter = "the provider's content filter"
)

// CutBy returns what cut off an answer with a finish reason in the words of chat
// completions; empty for nothing.
func CutBy(finishReason string) string {
	switch finishReason {
	case "length":
		return TokenLimit
	case "content_filter":
		return ContentFilter
	}
	return ""
}

// Interrupted is the result of a call that has none.
const Interrupted = "interrupted; it may have taken effect"

// WidenedBy is how servers are given a larger window than they have by default.
const WidenedBy = "Ollama: OLLAMA_CONTEXT_LENGTH; llama.cpp: -c; vLLM: --max-model-len"

// Remedy tells people what may help where something cuts answers off, after the reason.
func Remedy(cutBy string) string {
	if cutBy != TokenLimit {
		return ""
	}
	return "; raise openai.max_tokens, if it is set, or the model's window (" + WidenedBy + ")"
}

// CutCall says that a call was not run, since its answer was cut off.
func (t Trouble) CutCall() string { return fmt.Sprintf(cutCall, t.CutBy, t.howOn()) }

// howOn says how to go on after an answer that was cut off.
func (t Trouble) howOn() string {
	if t.CutBy == ContentFilter {
		return "without what it may object to"
	}
	return "in smaller pieces"
}

// OnlyThought says that an answer had only reasoning, and perhaps a call of a tool in it.
func OnlyThought(tool string) string {
	if tool != "" {
		return fmt.Sprintf(thoughtCall, tool)
	}
	return onlyThought
}

// After returns the text that follows the model's answers. It is empty if the
// last one called a tool.
func After(a Answers) string {
	switch {
	case a.Told != "":
		return a.Told
	case a.Empty:
		return empty
	case a.CutBy != "" && a.Replies > 0:
		return fmt.Sprintf(cutOff, a.CutBy, a.howOn())
	case a.Replies > 0 && a.Written != "":
		if a.Form != "" {
			a.Form = ", in " + a.Form
		}
		return written + a.Written + asText + a.Form + notCalled
	case a.Replies > 0 && len(a.Open) > 0:
		return fmt.Sprintf(notOver, strings.Join(a.Open, "; "))
	case a.Replies > 0 && a.Demanded:
		return hasToCall
	case a.Replies > 0 && a.Judged:
		return toWorkUntil
	case a.Replies > 0:
		return goOn + cmp.Or(a.Final, "stop") + goOnUntil
	}
	return ""
}

// SaysGoOn reports whether text asks the model to go on after a reply.
func SaysGoOn(text string) bool {
	return strings.HasPrefix(text, goOn) && strings.Contains(text, goOnUntil) ||
		strings.HasPrefix(text, written) && strings.Contains(text, notCalled) ||
		strings.HasPrefix(text, toWork) || strings.HasPrefix(text, notOver[:strings.Index(notOver, "%")])
}

// NeedsReasoning tells people what to check where a model's thoughts take all of its answer.
const NeedsReasoning = "check its server's reasoning parser (vLLM: --reasoning-parser; llama.cpp: --reasoning-format) and its limit of tokens"

// MostMistakes is how many answers in a row may be mistaken.
const MostMistakes = 2

// Mistake says what was wrong with an answer: it could not be read, or it repeated
// something without end.
func Mistake(why, repeats string) string {
	if repeats != "" {
		return fmt.Sprintf(endless, repeats)
	}
	return fmt.Sprintf(unread, strings.TrimRight(why, ". "))
}

// StepsLeft says how many steps of the run are left. It is empty while there
// are many.
func StepsLeft(n int) string {
	switch {
	case n > stepsTold:
		return ""
	case n == 1:
		return stepLeft
	}
	return fmt.Sprintf(stepsLeft, n)
}

// Steps says how many steps a run has that is given another number than usual; 0
// is any number. It is empty where so few are left that StepsLeft says it.
func Steps(n, taken int) string {
	switch {
	case n == 0:
		return noStepLimit
	case n-taken <= stepsTold:
		return StepsLeft(n - taken)
	}
	return fmt.Sprintf(stepLimit, n)
}

// SumUp asks for a summary, because a limit of the run is reached. If a tool ends
// the run with a value, it asks for that instead.
func SumUp(limit, final string) string {
	if final != "" {
		return fmt.Sprintf(giveValue, limit, final)
	}
	return fmt.Sprintf(sumUp, limit)
}

// AsksToSumUp reports whether text contains a request for a summary.
func AsksToSumUp(text string) bool { return strings.Contains(text, endsHere) }

// NotRun says that a call was not run, and why.
func NotRun(cause error) string { return fmt.Sprintf(notRun+"%v", cause) }

// NotStopped refuses a call of stop and lists what is still open.
func NotStopped(open []string) string { return fmt.Sprintf(notDone, strings.Join(open, "; ")) }

// Refuses reports whether the result of a call says that the call was not run,
// or that it was refused as a stop.
func Refuses(result string) bool {
	return strings.HasPrefix(result, notRun) || strings.HasPrefix(result, notStopped)
}

// NotBegun refuses a stop with which a run begins that was asked for work.
const NotBegun = notStopped + "no tool has run yet, and the user asked for work. Do it now; if there is nothing to do, call stop again and say why"

// NoAnswer is why a stop is refused that comes without the words that the user asked for.
const NoAnswer = "the user asked for words and has got none: give them as summary"

// NoValue refuses a stop in a run that ends with a value, which the tool final
// takes.
func NoValue(final string) string {
	return fmt.Sprintf(notStopped+"this run ends with an answer: call %s to give it", final)
}

// Failed lists the tools whose calls failed in an answer, each once, with the
// number of its failures.
func Failed(tools []string) string {
	return "in the same answer " + strings.Join(counted(tools), ", ") + " failed"
}

// WhatFailed says, after a refusal, what the calls were for that failed: commands with
// their exit codes, and files.
func WhatFailed(what []string) string {
	if len(what) == 0 {
		return ""
	}
	return ". What failed: " + strings.Join(counted(what), ", ")
}

// counted returns each word once, sorted, with the number of times that it is there.
func counted(words []string) (list []string) {
	count := map[string]int{}
	for _, word := range words {
		count[word]++
	}
	for _, word := range slices.Compact(slices.Sorted(slices.Values(words))) {
		if count[word] > 1 {
			word = fmt.Sprintf("%s (%d times)", word, count[word])
		}
		list = append(list, word)
	}
	return list
}

// InARow returns two texts for calls that all failed, one after the other: a note for the
// model, and a reason for ending the run.
func InARow(calls int) (note, reason string) {
	reason = fmt.Sprintf("%d calls in a row failed", calls)
	return "[" + reason + "; find out why before the next one, or say what keeps you from the work]", reason
}

// Repeated returns two texts for calls that gave the same results several times
// in a row: a note for the model, and a reason for ending the run.
func Repeated(tool string, calls, times int) (note, reason string) {
	what := fmt.Sprintf("this is the same call with the same result, %d times in a row", times)
	reason = fmt.Sprintf("%s gave the same result %d times in a row", tool, times)
	if calls > 1 {
		what = fmt.Sprintf("the last %d calls failed in the same way %d times in a row", calls, times)
		reason = what
	}
	return "[" + what + "; try something else]", reason
}

// InTurn is Repeated for calls in turn of which some went well.
func InTurn(calls, times int) (note, reason string) {
	reason = fmt.Sprintf("the last %d calls gave the same results %d times in a row", calls, times)
	return "[" + reason + "; try something else, or wait longer between them if you wait for something]", reason
}

// Changed says who changed the arguments of a call before it ran.
func Changed(who, arguments string) string {
	return "[" + who + " changed the arguments of this call; it ran with " + arguments + "]"
}

// OnALine appends a note to text on a line of its own. An empty note adds
// nothing.
func OnALine(text, note string) string {
	if note == "" {
		return text
	}
	return text + "\n" + note
}
