package faces

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/looptext"
)

// BashCall is what a model gives to the tool bash.
type BashCall struct {
	Cmd        string  `json:"cmd"`
	Timeout    float64 `json:"timeout"`
	Cwd        string  `json:"cwd"`
	Background bool    `json:"background"`
}

// CommandOf returns the command of a call of bash that has no other arguments.
func CommandOf(call pygent.ToolCall) (c BashCall, ok bool) {
	d := json.NewDecoder(strings.NewReader(call.Arguments))
	d.DisallowUnknownFields()
	return c, call.Name == "bash" && d.Decode(&c) == nil && c.Cmd != ""
}

// ArgumentsText shows the arguments of a call in their order, with their texts as they
// are. What is no object is returned as it is.
func ArgumentsText(args string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &fields) != nil {
		return args
	}
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(args))
	_, _ = d.Token() // the brace: it is an object
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return args
		}
		var text string
		if json.Unmarshal(value, &text) == nil {
			if strings.Contains(text, "\n") {
				text = "\n" + text
			}
			fmt.Fprintf(&b, "%v: %s\n", name, text)
			continue
		}
		var indented bytes.Buffer
		_ = json.Indent(&indented, value, "", "  ")
		fmt.Fprintf(&b, "%v: %s\n", name, indented.String())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// RanInterrupted reports whether an event tells that a call was interrupted while it ran.
// Then its content is for the model, and not for people.
func RanInterrupted(e pygent.Event) bool {
	return e.Type == pygent.EventToolDone && e.Output.Outcome == pygent.OutcomeInterrupted && !looptext.Refuses(e.Output.Content)
}

// Failed reports whether a call did not do what it should.
func Failed(r *pygent.ToolResult) bool {
	b := r.Bash
	return r.IsError || r.Outcome == pygent.OutcomeFailed || b != nil && (b.ExitCode != 0 && !b.GoesOn || b.TimedOut)
}

// ResultText is the result of a call for people. What else the model is told of one that was
// interrupted is not part of it.
func ResultText(e pygent.Event) string {
	r := e.Output
	switch b := r.Bash; {
	case RanInterrupted(e) && b == nil:
		return r.Display
	case RanInterrupted(e):
		return b.Output
	case b == nil || r.IsError:
		return cmp.Or(r.Display, r.Content)
	case b.Note != "":
		return b.Output + "\n" + b.Note
	default:
		return b.Output
	}
}

// Summary is a call in a few words, for people.
func Summary(e pygent.Event) string {
	if e.Tool != nil && e.Tool.Summary != "" {
		return e.Tool.Summary
	}
	summary, _ := callsummary.Of(e.Call.Name, e.Call.Arguments)
	return summary
}

// SteersGit reports whether a request is about a call that can change what git runs.
func SteersGit(r pygent.ApprovalRequest) bool { return strings.Contains(r.Why, approval.WritesGit) }
