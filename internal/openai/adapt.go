package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// adaptation is what a model's server was found not to accept. Values are
// shared between calls: they are copied to be changed.
type adaptation struct {
	dropped     map[string]bool   // parameters
	renamed     map[string]string // parameters, from the name set to the name sent
	stripped    map[string]bool   // fields of messages
	bridged     map[string]bool   // roles after which no user may speak at once
	left        media             // kinds of content
	shortIDs    bool              // of calls: nine letters and digits
	thoughts    bool              // calls go with reasoning, if only an empty one
	signed      bool              // calls go with Gemini's signature, if only a stand-in
	emptySchema bool              // for tools without parameters, instead of none
	responses   bool              // the model wants the Responses API
	noResponses bool              // the server does not have it
	noEffort    bool              // tools are taken only without reasoning
	noSystem    bool              // there is no system role
	noReasoning bool              // reasoning of the Responses API is not taken back
	mustCall    bool              // the answer has to call a tool; of one call, and never learned
}

// and returns both adaptations together.
func (a adaptation) and(b adaptation) adaptation {
	return adaptation{
		dropped:     union(a.dropped, b.dropped),
		renamed:     union(a.renamed, b.renamed),
		stripped:    union(a.stripped, b.stripped),
		bridged:     union(a.bridged, b.bridged),
		left:        a.left | b.left,
		shortIDs:    a.shortIDs || b.shortIDs,
		thoughts:    a.thoughts || b.thoughts,
		signed:      a.signed || b.signed,
		emptySchema: a.emptySchema || b.emptySchema,
		responses:   a.responses || b.responses,
		noResponses: a.noResponses || b.noResponses,
		noEffort:    a.noEffort || b.noEffort,
		noSystem:    a.noSystem || b.noSystem,
		noReasoning: a.noReasoning || b.noReasoning,
		mustCall:    a.mustCall || b.mustCall,
	}
}

// change is one further adaptation, with its description for people.
type change struct {
	adaptation
	notice  string
	lasting bool // it holds for later calls too
}

// known returns what was learned of the model called name.
func (c *Client) known(name string) adaptation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.learned[name]
}

// learn adds to what is known about the model called name. Other calls may have
// learned something else meanwhile.
func (c *Client) learn(name string, a adaptation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learned[name] = c.learned[name].and(a)
}

// union returns what is in either, without a copy where one has all.
func union[K comparable, V any](a, b map[K]V) map[K]V {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make(map[K]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// adapt returns what to change in the request after err. ok is false if nothing
// that caused the refusal can be changed. Each change is made only once, so the
// attempts end. Changes that lose nothing are tried before those that leave
// something out.
func (c *call) adapt(err error) (change, bool) {
	var api *Error
	if !errors.As(err, &api) || api.ContextTooLarge {
		return change{}, false
	}
	if mistake := MistakeOf(api); mistake != nil {
		return c.demandLess(mistake)
	}
	if change, ok := c.otherAPI(api); ok {
		return change, true
	}
	if change, ok := c.otherForm(api); ok {
		return change, true
	}
	if rejected, lasting := c.rejectsMedia(api); rejected != 0 {
		return change{adaptation{left: rejected}, fmt.Sprintf("left %ss out: the model does not accept them", rejected), lasting}, true
	}
	refused := api.Status == http.StatusBadRequest || api.Status == http.StatusUnprocessableEntity
	noHost := api.Status == http.StatusNotFound // as a router says that has no server for the parameters
	if refused {
		if change, ok := c.leaveOut(api); ok {
			return change, true
		}
	}
	return c.demandNothing(api, refused || noHost)
}

// demandNothing returns the request without the demand for a call, which no server has to
// know. Some that refuse it do not say so, and some fail at it as at a fault of their own:
// with a status of 5xx, or by breaking the connection. An overload has other reasons.
func (c *call) demandNothing(api *Error, refused bool) (change, bool) {
	fails := api.Status == http.StatusNotImplemented || hungUp(api.Err) || api.Retryable && !IsOverload(api.Status, api.Err)
	named := indexWord(api.Message, toolChoice) >= 0
	switch {
	case !c.demands():
		return change{}, false
	case refused || named:
		a, notice := c.withoutParam(toolChoice)
		return change{a, notice, false}, true
	case fails:
		return change{adaptation{dropped: map[string]bool{toolChoice: true}}, "demanded no call any more: the server failed when it had to give one", false}, true
	}
	return change{}, false
}

// demandLess returns the request without the demand for a call that the model did not heed,
// which Groq has for an error: what it says then counts. Other mistakes need no change.
func (c *call) demandLess(m *Mistake) (change, bool) {
	if !c.demands() || !strings.Contains(strings.ToLower(m.Why), "tool choice is required") {
		return change{}, false
	}
	return change{adaptation{dropped: map[string]bool{toolChoice: true}}, "demanded no call any more: the model makes none", false}, true
}

// demands reports whether the call demands that the answer calls a tool.
func (c *call) demands() bool { return c.adaptation.mustCall && !c.adaptation.dropped[toolChoice] }

// leaveOut returns the request without the parameter, or the field of earlier
// messages, that the server does not know.
func (c *call) leaveOut(api *Error) (change, bool) {
	field := c.namedField(api)
	if param := c.namedParam(api); param != "" && field == "" && c.mayGo(param, api) {
		a, notice := c.withoutParam(param)
		return change{a, notice, true}, true
	}
	if field != "" && notTaken(api) {
		notice := fmt.Sprintf("left %s out of earlier messages: the server does not accept it", field)
		return change{adaptation{stripped: map[string]bool{field: true}}, notice, true}, true
	}
	return change{}, false
}

// namedParam returns the optional parameter of the request that the error names
// first, or "" if it names none.
func (c *call) namedParam(api *Error) string {
	sent, err := c.client.sent(c.adaptation, c.emit != nil)
	if err != nil {
		return ""
	}
	if len(c.req.Tools) == 0 {
		maps.DeleteFunc(sent, func(name string, _ json.RawMessage) bool { return slices.Contains(onlyWithTools, name) })
	}
	if named := paramOf(api); named != "" {
		top, _, _ := strings.Cut(named, ".")
		if _, ok := sent[top]; ok {
			return top
		}
	}
	first, at := "", len(api.Message)
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if i := indexWord(api.Message, name); i >= 0 && i < at {
			first, at = name, i
		}
	}
	return first
}

// withoutParam leaves a parameter out. The limit of tokens is first sent under
// its other name.
func (c *call) withoutParam(name string) (adaptation, string) {
	others := map[string]string{"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
	if other := others[name]; other != "" && len(c.adaptation.renamed) == 0 && !c.inResponses() {
		if _, given := c.client.params[other]; !given {
			return adaptation{renamed: map[string]string{name: other}},
				fmt.Sprintf("sent %s as %s: the server does not accept it otherwise", name, other)
		}
	}
	return adaptation{dropped: map[string]bool{name: true}},
		fmt.Sprintf("dropped parameter %s: the server does not accept it", name)
}

// namedField returns the unknown field of a sent message that the error names,
// the longest if several match.
func (c *call) namedField(api *Error) string {
	if c.inResponses() {
		return "" // no unknown field goes there
	}
	text := api.Message + " " + paramOf(api)
	shape := c.client.shape(c.name, c.adaptation)
	longest := ""
	look := func(fields []field) {
		for _, f := range fields {
			if len(f.name) > len(longest) && !slices.Contains(shape.without, f.name) && indexWord(text, f.name) >= 0 {
				longest = f.name
			}
		}
	}
	for i := range c.req.Messages.Len() {
		msg := c.req.Messages.At(i)
		look(msg.fields)
		for _, call := range msg.calls {
			look(call.fields)
		}
	}
	return longest
}

// indexWord finds word in s where no letter, digit or underscore is next to it.
func indexWord(s, word string) int {
	inWord := func(b byte) bool {
		return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for at := 0; word != ""; {
		i := strings.Index(s[at:], word)
		if i < 0 {
			break
		}
		start, end := at+i, at+i+len(word)
		if (start == 0 || !inWord(s[start-1])) && (end == len(s) || !inWord(s[end])) {
			return start
		}
		at = end
	}
	return -1
}
