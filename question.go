package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/toolschema"
)

// Question is what a model asks the user with the tool "continue", or a tool by
// [Ask].
type Question struct {
	Prompt  string   `json:"prompt,omitempty"`
	Options []string `json:"options,omitempty"` // answers to choose from; the user may give another

	// Schema asks for values instead of a text: a JSON Schema of type object whose
	// properties are strings, numbers, integers or booleans. People are shown the
	// titles of values to choose from, given by enumNames, or by oneOf with const
	// and title, as elicitation in MCP has them.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Secret says that the answer is a password or the like: events and logs do not
	// have it, and a session does not show what is typed. So it is with a string in
	// Schema whose format is "password". What the tool does with the answer is up to
	// the tool: its result goes into the history.
	Secret bool `json:"secret,omitempty"`
}

// Answer is what the user says to a [Question].
type Answer struct {
	Text     string          `json:"text,omitempty"`     // one of the options, or any other text
	Values   json.RawMessage `json:"values,omitempty"`   // an object that fits the question's Schema
	Declined bool            `json:"declined,omitempty"` // the user does not answer
}

// AskRequest is a question to the user.
type AskRequest struct {
	Question Question `json:"question"`
	From     CallInfo `json:"from"` // the tool call that asks, and the task that it belongs to
}

// AskFunc asks the user. It must honour ctx. One question of an agent and its
// tasks is asked at a time. The time it takes does not count against a
// [StepTimeout], but against [MaxTime].
type AskFunc func(ctx context.Context, r AskRequest) (Answer, error)

// ErrNobodyToAsk is returned by [Ask] if there is nobody who could answer.
var ErrNobodyToAsk = errors.New("there is nobody to ask")

// WithAsk sets who answers the questions of tools; see [Ask]. The questions of
// the agent's tasks come there, too. Default: the user at the terminal, while a
// session goes on.
func WithAsk(f AskFunc) Option { return option(func(o *options) { o.ask, o.askAbove = f, nil }) }

// Ask asks the user in the middle of a tool call, and waits for the answer. ctx
// is the context that the tool got. Events tell of the question and its answer. A
// question whose schema is not flat is an error, and so is an answer that does
// not fit the schema. Without anybody to ask, the error is [ErrNobodyToAsk]: a
// program answers by [WithAsk] or [Agent.SetAsk], and so does the user of a terminal
// session.
func Ask(ctx context.Context, q Question) (Answer, error) {
	c := toolCallOf(ctx)
	if c == nil {
		return Answer{}, ErrNobodyToAsk
	}
	form, err := parseForm(q.Schema)
	if err != nil {
		return Answer{}, fmt.Errorf("question: %w", err)
	}
	if c.agent.asker() == nil {
		return Answer{}, ErrNobodyToAsk
	}
	about := Event{Type: EventQuestion, Step: c.info.Step, Call: &c.info.Call, Question: &q}
	c.agent.emit(about)
	answer, err := c.agent.askUser(ctx, AskRequest{Question: q, From: c.info})
	if err == nil {
		answer, err = form.check(answer, q.Secret)
	}
	if err != nil {
		answer = Answer{Declined: true}
	}
	told := form.withoutSecrets(answer, q.Secret)
	about.Type, about.Question, about.Answer = EventAnswer, nil, &told
	c.agent.emit(about)
	return answer, err
}

// askUser passes a question of the agent, or of one of its tasks, on to whoever
// answers.
func (a *Agent) askUser(ctx context.Context, r AskRequest) (Answer, error) {
	if err := a.question.LockContext(ctx); err != nil {
		return Answer{}, err
	}
	defer a.question.Unlock()
	ask := a.asker()
	if ask == nil {
		return Answer{}, ErrNobodyToAsk
	}
	defer a.asking.Close()()
	answer, err := guard.Outlive(ctx, func() (Answer, error) {
		defer a.enter(&a.calling, "the answer to a question")()
		return ask(ctx, r)
	})
	a.logPanic("answer to a question", err)
	if err == nil && ctx.Err() != nil {
		err = guard.ContextError(ctx)
	}
	return answer, err
}

// SetAsk changes who answers the questions of tools, as [WithAsk] sets it, from
// the next question on. With nil nobody does. A [Face] calls it when it begins, as
// it calls [Agent.SetApproval].
func (a *Agent) SetAsk(f AskFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.ask = f
	a.asksSet++
}

// setAskFor has f answer questions until end is called. What SetAsk has set in the
// meantime stays.
func (a *Agent) setAskFor(f AskFunc) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, n := a.opts.ask, a.asksSet
	a.opts.ask = f
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.asksSet == n {
			a.opts.ask = before
		}
	}
}

// asker returns who answers questions, or nil.
func (a *Agent) asker() AskFunc {
	a.mu.Lock()
	ask, above := a.opts.ask, a.opts.askAbove
	a.mu.Unlock()
	if ask == nil && above != nil && above.asker() != nil {
		return above.askUser
	}
	return ask
}

// form is the schema of a question. A nil form asks for text.
type form struct {
	schema   *toolschema.Schema
	fields   map[string]formField
	required []string
}

// formField is a field of a form, as JSON Schema describes it.
type formField struct {
	Type        string
	Title       string
	Description string
	Format      string
	Enum        []any
	EnumNames   []string
	OneOf       []formChoice
	AnyOf       []formChoice
}

// formChoice is a value to choose.
type formChoice struct {
	Const any
	Title string
}

// choices returns the values to choose from, or none if any value will do.
func (f formField) choices() []formChoice {
	choices := append(f.OneOf[:len(f.OneOf):len(f.OneOf)], f.AnyOf...)
	for i, value := range f.Enum {
		c := formChoice{Const: value}
		if i < len(f.EnumNames) {
			c.Title = f.EnumNames[i]
		}
		choices = append(choices, c)
	}
	return slices.DeleteFunc(choices, func(c formChoice) bool { return c.Const == nil })
}

// typed is what a person types to choose the value.
func (c formChoice) typed() string {
	if text, ok := c.Const.(string); ok {
		return text
	}
	text, _ := json.Marshal(c.Const) // it came from JSON
	return string(text)
}

// String shows the choice on a line.
func (c formChoice) String() string {
	if c.Title == "" || c.Title == c.typed() {
		return onOneLine(c.typed())
	}
	return fmt.Sprintf("%s (%s)", onOneLine(c.typed()), onOneLine(c.Title))
}

// secret reports whether what is typed for the field must not be shown.
func (f formField) secret() bool { return f.Format == "password" }

// onOneLine returns text without line breaks, so that it cannot pass for a line of
// the program's.
func onOneLine(text string) string { return cut.Head(strings.Join(strings.Fields(text), " "), 200) }

func parseForm(schema json.RawMessage) (*form, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	parsed, err := toolschema.Parse(schema)
	if err != nil {
		return nil, err
	}
	var in struct {
		Properties map[string]formField
		Required   []string
	}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber() // large integers stay what they are
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("the schema of the form: %w", err)
	}
	for name, field := range in.Properties {
		if !slices.Contains([]string{"string", "number", "integer", "boolean"}, field.Type) {
			return nil, fmt.Errorf("the field %s of the form: want a string, a number, an integer or a boolean", name)
		}
	}
	return &form{parsed, in.Properties, in.Required}, nil
}

// check returns an answer with values that fit the form. The error does not
// repeat what is secret.
func (f *form) check(answer Answer, secret bool) (Answer, error) {
	if f == nil || answer.Declined {
		answer.Values = nil // nobody asked for them, and they may be no JSON
		return answer, nil
	}
	values, err := f.schema.Arguments(string(answer.Values))
	switch {
	case err != nil && (secret || len(f.secrets()) > 0):
		return Answer{}, errors.New("the answer cannot be used: it does not fit the form")
	case err != nil:
		return Answer{}, fmt.Errorf("the answer cannot be used: %w", err)
	}
	answer.Values = values
	return answer, nil
}

// secrets returns the names of the fields that are secret.
func (f *form) secrets() []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(f.fields)), func(name string) bool { return !f.fields[name].secret() })
}

// withoutSecrets returns an answer as events may tell it.
func (f *form) withoutSecrets(a Answer, secret bool) Answer {
	if secret {
		return Answer{Declined: a.Declined}
	}
	if f == nil || len(f.secrets()) == 0 {
		return a
	}
	if len(a.Values) == 0 { // the text is no answer to a form, and may be what was typed into a field
		return Answer{Declined: a.Declined}
	}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(a.Values, &values) // they fit the form
	for _, name := range f.secrets() {
		delete(values, name)
	}
	told, _ := json.Marshal(values)
	return Answer{Values: told, Declined: a.Declined}
}

// names returns the names of the fields, those first that have to be filled in.
func (f *form) names() []string {
	names := slices.Sorted(maps.Keys(f.fields))
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(strconv.FormatBool(!slices.Contains(f.required, a)), strconv.FormatBool(!slices.Contains(f.required, b)))
	})
	return names
}

// answerQuestions has the user of a session answer questions, if a person is at
// the terminal and the options name nobody.
func (s *session) answerQuestions() (end func()) {
	if !s.talk.Person() || s.agent.asker() != nil {
		return func() {}
	}
	return s.agent.setAskFor(s.answer)
}

// answer asks the user a question. An empty answer declines.
func (s *session) answer(ctx context.Context, r AskRequest) (Answer, error) {
	ctx, end, err := s.whileAsked(ctx, r.From.Task)
	if err != nil {
		return Answer{}, err
	}
	defer end()
	q := console.Question{Head: r.From.Call.Name + " asks:", Text: r.Question.Prompt, Prompt: "answer, or nothing: ", Hidden: r.Question.Secret}
	if r.From.Task != "" {
		q.Head = fmt.Sprintf("%s of %s asks:", r.From.Call.Name, s.taskLabel(ctx, r.From.Task))
	}
	form, err := parseForm(r.Question.Schema)
	if err != nil {
		return Answer{}, err
	}
	if form != nil {
		return s.fillIn(ctx, q, form, r.Question.Secret)
	}
	for i, option := range r.Question.Options {
		q.Text += fmt.Sprintf("\n%d. %s", i+1, onOneLine(option))
	}
	text, err := s.console.Question(ctx, q)
	if n, notNumber := strconv.Atoi(text); notNumber == nil && n >= 1 && n <= len(r.Question.Options) {
		text = r.Question.Options[n-1]
	}
	return Answer{Text: text, Declined: text == ""}, err
}

// fillIn asks for the fields of a form one by one. An empty answer leaves a field
// out, or declines where there has to be one.
func (s *session) fillIn(ctx context.Context, q console.Question, f *form, secret bool) (Answer, error) {
	values := map[string]any{}
	for _, name := range f.names() {
		field, required := f.fields[name], slices.Contains(f.required, name)
		q.Prompt, q.Hidden = field.prompt(name, required), secret || field.secret()
		q.Text = strings.Trim(q.Text+"\n"+onOneLine(field.Description), "\n")
		for {
			text, err := s.console.Question(ctx, q)
			if err != nil {
				return Answer{}, err
			}
			if text == "" && required {
				return Answer{Declined: true}, nil
			}
			value, ok := field.read(text)
			if ok && text != "" {
				values[name] = value
			}
			if ok || text == "" {
				break
			}
			q.Head, q.Text = "That is no "+field.Type+" that fits here.", ""
		}
		q.Head, q.Text = "", ""
	}
	encoded, err := json.Marshal(values)
	return Answer{Values: encoded}, err
}

func (f formField) prompt(name string, required bool) string {
	words := []string{f.Type}
	if f.Type == "boolean" {
		words = []string{"yes or no"}
	}
	if choices := f.choices(); len(choices) > 0 {
		var shown []string
		for _, c := range choices {
			shown = append(shown, c.String())
		}
		words = []string{"one of " + cut.Head(strings.Join(shown, ", "), maxChoices)}
	}
	if !required {
		words = append(words, "or nothing")
	}
	return fmt.Sprintf("%s (%s): ", onOneLine(cmp.Or(f.Title, name)), strings.Join(words, ", "))
}

// maxChoices is how much of the values to choose from is shown, in bytes.
const maxChoices = 2 << 10

// read reads what a person typed for a field: of values to choose from, the value
// or its title.
func (f formField) read(text string) (value any, ok bool) {
	if choices := f.choices(); len(choices) > 0 {
		at := slices.IndexFunc(choices, func(c formChoice) bool { return c.typed() == text })
		if at < 0 {
			at = slices.IndexFunc(choices, func(c formChoice) bool { return c.Title == text })
		}
		if at < 0 {
			return nil, false
		}
		return choices[at].Const, true
	}
	switch f.Type {
	case "string":
		return text, true
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return true, true
		case "n", "no", "false":
			return false, true
		}
		return nil, false
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
