package form

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/x/pygent/internal/cut"
)

// Field is a field of a form, as JSON Schema describes it.
type Field struct {
	Type        string
	Title       string
	Description string
	Format      string
	Enum        []any
	EnumNames   []string
	OneOf       []Choice
	AnyOf       []Choice
}

// Choice is a value to choose.
type Choice struct {
	Const any
	Title string
}

// choices returns the values to choose from, or none if any value will do.
func (f Field) choices() []Choice {
	choices := append(f.OneOf[:len(f.OneOf):len(f.OneOf)], f.AnyOf...)
	for i, value := range f.Enum {
		c := Choice{Const: value}
		if i < len(f.EnumNames) {
			c.Title = f.EnumNames[i]
		}
		choices = append(choices, c)
	}
	return slices.DeleteFunc(choices, func(c Choice) bool { return c.Const == nil })
}

// typed is what a person types to choose the value.
func (c Choice) typed() string {
	if text, ok := c.Const.(string); ok {
		return text
	}
	text, _ := json.Marshal(c.Const) // it came from JSON
	return string(text)
}

// String shows the choice on a line.
func (c Choice) String() string {
	if c.Title == "" || c.Title == c.typed() {
		return short(c.typed())
	}
	return fmt.Sprintf("%s (%s)", short(c.typed()), short(c.Title))
}

// Secret reports whether what is typed for the field must not be shown.
func (f Field) Secret() bool { return f.Format == "password" }

// About tells a person in a line what the field is.
func (f Field) About() string { return short(f.Description) }

// short returns the beginning of a text of the form in one line.
func short(text string) string { return cut.Line(text, 200) }

// Prompt asks a person for the field.
func (f Field) Prompt(name string, required bool) string {
	words := []string{f.Type}
	if f.Type == "boolean" {
		words = []string{"yes or no"}
	}
	if shown := f.shownChoices(); shown != "" {
		words = []string{shown}
	}
	if !required {
		words = append(words, "or nothing")
	}
	return fmt.Sprintf("%s (%s): ", short(cmp.Or(f.Title, name)), strings.Join(words, ", "))
}

// maxChoices is how much of the values to choose from is shown, in bytes.
const maxChoices = 2 << 10

// shownChoices lists the values to choose from; it is empty if there are none.
func (f Field) shownChoices() string {
	choices := f.choices()
	if len(choices) == 0 {
		return ""
	}
	shown := make([]string, len(choices))
	for i, c := range choices {
		shown[i] = c.String()
	}
	return "one of " + cut.Head(strings.Join(shown, ", "), maxChoices)
}

// line describes the field to a model.
func (f Field) line(name string, required bool) string {
	wants := cmp.Or(f.shownChoices(), f.Type)
	if !required {
		wants += "; optional"
	}
	line := fmt.Sprintf("%s (%s)", short(name), wants)
	if about := strings.TrimSpace(short(f.Title) + " " + short(f.Description)); about != "" {
		line += ": " + about
	}
	return cut.Head(line, maxLine)
}

// Read reads what a person typed for a field: of values to choose from, the value
// or its title.
func (f Field) Read(text string) (value any, ok bool) {
	if choices := f.choices(); len(choices) > 0 {
		at := slices.IndexFunc(choices, func(c Choice) bool { return c.typed() == text })
		if at < 0 {
			at = slices.IndexFunc(choices, func(c Choice) bool { return c.Title == text })
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
