package verdict

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Request says what a prompt asks for.
type Request int

// What a prompt can ask for.
const (
	Words   Request = iota // an answer that takes no work: a greeting, a question, something to say
	Unclear                // perhaps work, perhaps only a look at the workspace
	Work                   // something to do
)

// Asked returns what a prompt asks for. What is piped in comes after a blank line, and is
// what the prompt is about. So only the first paragraph counts.
func Asked(prompt string) Request {
	first, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(prompt, "\r\n", "\n")), "\n\n")
	switch n := len(strings.Fields(first)); {
	case n == 0:
		return Words
	case n == 1 && imperative.MatchString(first): // of what?
		return Unclear
	case n == 1:
		return Words
	case imperative.MatchString(first):
		return Work
	}
	asked := polite.ReplaceAllString(first, "")
	words := saying.MatchString(asked) || asked == first && asking.MatchString(first)
	switch {
	case words && len(first) <= maxTalk && !looking.MatchString(first):
		return Words
	case !words && asked != first:
		return Work
	}
	return Unclear
}

// prompt is what the judge has to know of what the user said.
type prompt struct {
	asked Request
	plan  bool   // a plan is asked for
	given bool   // a text is asked for that is made of one that stands there, as a translation
	owed  bool   // it asks a question, or to be told something
	words string // its first paragraph, in lower case
}

func readPrompt(said string) prompt {
	said = strings.TrimSpace(strings.ReplaceAll(said, "\r\n", "\n"))
	first, rest, _ := strings.Cut(said, "\n\n")
	return prompt{
		asked: Asked(said),
		plan:  wantsPlan.MatchString(first),
		given: saying.MatchString(polite.ReplaceAllString(first, "")) && (rest != "" || quotes.MatchString(first)),
		owed:  asking.MatchString(first) && !polite.MatchString(first) || telling.MatchString(first),
		words: strings.ToLower(first),
	}
}

// isOfCalls reports whether words are asked for about how a tool is called, or what a call
// looks like.
func (p prompt) isOfCalls(tool string) bool {
	return p.asked == Words && (ofCalls.MatchString(p.words) || regexp.MustCompile(`\b`+regexp.QuoteMeta(strings.ToLower(tool))+`\b`).MatchString(p.words))
}

var ofCalls = regexp.MustCompile(`\b(tools?|functions?|json|xml|syntax|schema|format|markup|template)\b`)

var (
	wantsPlan = regexp.MustCompile(`(?i)\b(plan|steps|roadmap|outline|proposal|strategy|approach)\b`)
	quotes    = regexp.MustCompile("[:\"“”«»„`\n]|\\B'|\\?.")
)

// leaves reports whether the question at the end of a text offers what the prompt did not
// ask for, after a sentence that says what was done. The answer can be no.
func (p prompt) leaves(text string) bool {
	sentences := proseSentences(text)
	if len(sentences) < 2 {
		return false
	}
	match := optional.FindStringSubmatch(sentences[len(sentences)-1])
	switch {
	case match == nil || theWork.MatchString(match[0]):
		return false
	case p.asked != Work:
		return true
	}
	verb := strings.ToLower(match[1])
	return verb == "" || !regexp.MustCompile(`\b`+regexp.QuoteMeta(verb)+`\b`).MatchString(p.words)
}

var (
	// optional matches an offer, and what the model would do. Permission is asked for in
	// other words (should I, may I), and what is to be chosen has an "or".
	optional = regexp.MustCompile(`(?i)^\W*(?:(?:and|so|now|if you like|by the way),? )?(?:would you like|do you want|(?:do you )?want)\b(?: (?:me|us) to (?:\w+ly )?(\w+))?[^?]*\?\W*$`)
	// theWork matches an offer to do what the run is about, or one of several things.
	theWork = regexp.MustCompile(`(?i)\bto (proceed|continue|go (on|ahead)|start|begin|apply|implement|make|do|try|retry)\b|\bor\b|\b(which|what|how|instead)\b`)
)

// isText reports whether a question is the text that was asked for, and not one about it.
func (p prompt) isText(text string) bool { return p.given || !clarifies.MatchString(text) }

// clarifies matches a question to the user about what is asked for.
var clarifies = regexp.MustCompile(`(?i)\b(would you|do you|did you|could you|can you|are you (asking|looking|referring)|should I|shall I|may I|can I|what (kind|sort|type)|which|please)\b`)

// maxTalk is the length of the longest prompt, in bytes, that is taken for a question.
const maxTalk = 400

var (
	// imperative matches a request to do something to files or programs.
	imperative = regexp.MustCompile(`(?i)(^\W*|[.!?;:,]\s+|\b(and|then|also|please|you)\s+)(add|apply|append|archive|build|bump|change|check|clean|clone|commit|compile|configure|convert|copy|count|create|debug|delete|deploy|download|edit|execute|extract|fetch|find|fix|format|generate|implement|improve|insert|install|integrate|lint|list|look|make|measure|merge|migrate|modify|move|open|optimi[sz]e|port|prepare|profile|publish|put|rebase|reformat|refactor|remove|rename|repair|replace|reproduce|resolve|revert|review|rewrite|run|save|scan|search|set|solve|sort|split|start|store|test|train|uninstall|update|upgrade|verify|write)\b`)
	// looking matches what only a look at the workspace can tell of.
	looking = regexp.MustCompile(`(?i)\b(workspace|repo|repository|project|director(y|ies)|folders?|files?|codebase|source|tests?|builds?|branch(es)?|commits?|diff|logs?|readme|here|(this|the|our|my) (code|program|script|app|application|package|module|function|class|bug|error))\b|[\w~.-]*/[\w.-]+|\b[\w-]+\.[a-z]{1,5}\b|` + "`")
	// polite matches how a request is put as a question.
	polite = regexp.MustCompile(`(?i)^\W*((can|could|would|will|won't|why don't) (you|we)( please)?|please|(how|what) about)\b`)
	// saying matches a request for words.
	saying = regexp.MustCompile(`(?i)^\W*(please )?(say|tell|explain|describe|define|translate|greet|answer|reply|respond|repeat|recite|name|hi|hello|hey|thanks|thank you|good (morning|afternoon|evening)|go on|continue|bye)\b`)
	// telling matches those of them that an answer without words does not meet.
	telling = regexp.MustCompile(`(?i)^\W*(please )?(say|tell|explain|describe|define|translate|answer|reply|respond|recite|name)\b`)
	// asking matches a question. One in a language that is not known here is unclear.
	asking = regexp.MustCompile(`(?i)^\W*((and|so|but|ok(ay)?),? )?(what|what's|whats|who|who's|whose|whom|which|when|where|why|how|is|are|am|was|were|does|do|did|has|have|had|can|could|should|would|may|must|was|wer|wie|wann|wo|warum|welche[rs]?|ist|sind|qu'est-ce|que|quoi|qui|quel(le)?s?|quand|où|pourquoi|comment|combien|qué|quién|cuál|cuándo|dónde|cómo|cuánto)\b`)
)

// AsksUser reports whether a text ends with a question, perhaps with a list of answers
// to choose from after it, or tells the user to choose.
func AsksUser(text string) bool {
	lines := proseOf(text)
	if sentences := sentencesOf(text); len(sentences) > 0 && toldToChoose.MatchString(sentences[len(sentences)-1]) {
		return true
	}
	if len(lines) == 0 {
		return false
	}
	last := lines[len(lines)-1]
	for _, line := range slices.Backward(lines) {
		if !option.MatchString(line) {
			last = line
			break
		}
	}
	last = strings.TrimRightFunc(last, func(r rune) bool {
		return unicode.IsSpace(r) || r == '*' || r == '_' || r == '"' || r == '”' || r == '»' || r == ')' || r == '`'
	})
	end, _ := utf8.DecodeLastRuneInString(last)
	return strings.ContainsRune("?？؟⁇", end)
}

// toldToChoose matches a question without its mark.
var toldToChoose = regexp.MustCompile(`(?i)^\W*(please )?((let me know|tell me) (which|whether|how you|what you (want|need|prefer|mean))|(please )(choose|confirm|specify|clarify))\b`)

// option matches an answer to choose from.
var option = regexp.MustCompile(`^([-*•]|\(?[0-9a-zA-Z][.)])\s`)

// Offers reports whether the question at the end of a text only offers more, as "anything
// else?" does after work that is done.
func Offers(text string) bool {
	sentences := sentencesOf(text)
	return len(sentences) > 0 && offer.MatchString(sentences[len(sentences)-1])
}

var offer = regexp.MustCompile(`(?i)\b(anything|something) (else|more|further)\b|\b(how|what) (can|may|could|else can) I\b.*\b(help|assist|do)\b|\bcan I (help|assist)\b|\b(would you like|do you want|want me to|shall I|should I|may I|can I)\b.*\b(also|else|further|additional(ly)?|more|next)\b`)

// Plans reports whether a text is a plan.
func Plans(text string) bool {
	lines := proseOf(text)
	return len(lines) > 1 && plan.MatchString(lines[0])
}

// Announces reports whether a text ends by announcing a step, which a model that took it
// would not say in a text of its own.
func Announces(text string) bool {
	lines := proseOf(text)
	if len(lines) == 0 {
		return false
	}
	if strings.HasSuffix(strings.TrimRight(lines[len(lines)-1], "*_ "), ":") || len(lines) == 1 && plan.MatchString(lines[0]) {
		return true
	}
	sentences := sentencesOf(text)
	if len(sentences) == 0 {
		return false
	}
	return announces(sentences[0]) && len(sentences) <= 3 || announces(sentences[len(sentences)-1])
}

func announces(sentence string) bool {
	return announcement.MatchString(sentence) && !noStep.MatchString(sentence)
}

var (
	plan         = regexp.MustCompile(`(?i)^[#*\s]*((here('s| is) )?(the|my) )?(plan( of action)?|next steps?)\b[^.]{0,40}:?[*\s]*$`)
	announcement = regexp.MustCompile(`(?i)^\W*((ok(ay)?|sure|great|right|alright|all right|certainly|of course|now|next|first|then|so|and|perfect|good)[,.!:]* +)*((I['’]ll|I will|I am going to|I['’]m going to|I['’]m about to|let me|let['’]s|ich werde|je vais|voy a|vou)\b|(now|next|first|then),? I (need|have|want) to\b|让我|我将|我会|接下来)`)
	noStep       = regexp.MustCompile(`(?i)\b(let me know|(I['’]ll|I will) (be|wait|leave|stop|not|never|need)|if you|once you|when you|unless|let['’]s (say|assume))\b`)
)

// proseOf returns the lines of a text that are not blank. A block of code is one line
// that says nothing.
func proseOf(text string) []string {
	var lines []string
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			if code = !code; code {
				lines = append(lines, "```")
			}
			continue
		}
		if line != "" && !code {
			lines = append(lines, line)
		}
	}
	return lines
}

// sentencesOf returns the sentences of the last line of a text that is prose.
func sentencesOf(text string) []string {
	lines := proseOf(text)
	for len(lines) > 0 && option.MatchString(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return nil
	}
	return sentencesIn(lines[len(lines)-1])
}

// proseSentences returns the sentences of a text, without its code.
func proseSentences(text string) []string { return sentencesIn(strings.Join(proseOf(text), "\x00")) }

func sentencesIn(text string) []string {
	var sentences []string
	for s := range strings.SplitAfterSeq(sentenceEnd.ReplaceAllString(text, "$1\x00"), "\x00") {
		if s = strings.Trim(s, "\x00 "); s != "" {
			sentences = append(sentences, s)
		}
	}
	return sentences
}

var sentenceEnd = regexp.MustCompile(`([.!?。！？]+)(\s+|$)`)
