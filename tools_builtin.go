package pygent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/callwords"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/toolschema"
)

// Bounds of what the built-in tools show a model.
const (
	// maxToolResult bounds the result of a tool call, in bytes.
	maxToolResult = 32 << 10
	// maxImage bounds the file that read_image sends, before base64.
	maxImage = 5 << 20
	// shownCommand bounds how much of a command its result repeats, since the
	// model wrote it.
	shownCommand = 400
	// maxJobWait bounds how long job_output waits.
	maxJobWait = 600 * time.Second
)

type continueInput struct {
	Prompt  string   `json:"prompt,omitempty" jsonschema:"what to ask"`
	Options []string `json:"options,omitempty" jsonschema:"answers to choose from"`
}

func askUser(_ context.Context, _ Runtime, in continueInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Prompt) == "" {
		return nil, errors.New("prompt is missing: ask the user in it, in a sentence that is clear without anything else")
	}
	return &ToolResult{
		Content:  "the user was asked; the answer follows",
		End:      StatusAwaitingUser,
		Question: &Question{Prompt: in.Prompt, Options: in.Options},
	}, nil
}

type stopInput struct {
	Summary string `json:"summary,omitempty" jsonschema:"the answer for the user, or what was done"`
}

func stopRun(_ context.Context, _ Runtime, in stopInput) (*ToolResult, error) {
	return &ToolResult{Content: "stopped", Summary: in.Summary, End: StatusStopped}, nil
}

// builtinTools are the tools every default registry starts with. The map is
// shared: clone it before changing it.
var builtinTools = sync.OnceValue(func() map[string]Tool {
	tools := map[string]Tool{}
	for _, t := range append(delegationTools(), []Tool{
		withOrWithoutJobs(builtin("bash", ToolRun, "Run a shell command in the workspace and return its output and exit code. Every command starts anew in the workspace: cd and exports do not last. Commands get no input and no terminal.", runBash)),
		ofJobs(polling(builtin("job_output", ToolRead, "Read what a background command printed since you read last, and see its state.", jobOutput))),
		ofJobs(polling(builtin("job_list", ToolRead, "List the commands in the background.", jobList))),
		ofJobs(builtin("job_kill", ToolRun, "End a background command with all its processes.", jobKill)),
		builtin("write_file", ToolEdit, "Create a text file, replace its whole content, or add to its end.", writeFile),
		builtin("edit_file", ToolEdit, "Replace text in a file: old_text by new_text, or several edits at once. old_text must be exact, and occur once unless replace_all is set.", editFile),
		builtin("download_file", ToolRead, "Read a text file, with the numbers of its lines before them, or list a directory.", downloadFile),
		builtin("read_image", ToolRead, "Look at an image file of the workspace (PNG, JPEG, GIF or WebP).", readImage),
		ofSkills(builtin(readSkillTool, ToolRead, "Read the instructions of a skill.", readSkill)),
		builtin("continue", ToolOther, "Ask the user for input or a decision, and wait for the answer.", askUser),
		builtin("stop", ToolOther, "End the work: the task is done, or cannot be done. Give the answer, or what was achieved, in summary.", stopRun),
	}...) {
		t.Idempotent = t.Idempotent || repeatable[t.Name]
		t.ReadOnly = readOnly[t.Name]
		t.ends = endsRun(t.Name)
		t.identities = []string{t.identity()}
		if t.fit != nil {
			t.identities = append(t.identities, t.fit(t, nil).identity())
		}
		tools[t.Name] = t
	}
	return tools
})

// repeatable are the tools that do no harm when they run a second time, except for
// what mayRepeat says.
// edit_file is not among them: it would not find its old text again, or would
// replace another occurrence.
var repeatable = map[string]bool{"write_file": true, "download_file": true, "read_image": true, "read_skill": true, "continue": true, "stop": true}

// mayRepeat reports whether a call of the tool may run a second time.
func (t Tool) mayRepeat(call *readCall) bool {
	if t.Name != "write_file" || !t.isBuiltin() {
		return t.Idempotent
	}
	var in writeInput
	return call.err == nil && json.Unmarshal([]byte(call.Arguments), &in) == nil && !in.Append
}

// readOnly are the tools that change nothing, including the two that end a run.
var readOnly = map[string]bool{
	"download_file": true, "read_image": true, "read_skill": true, "job_output": true, "job_list": true,
	"list_personas": true, "task_status": true, "continue": true, "stop": true,
}

// endsRun reports whether a tool is one that ends the run.
func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

// builtin makes a tool of this package. Its schema comes from a struct of this
// package too, so an error is a bug that every test would find.
func builtin[In any](name string, kind ToolKind, description string, fn func(context.Context, Runtime, In) (*ToolResult, error)) Tool {
	t, err := NewTool(name, description, fn).checked()
	if err != nil {
		panic(err)
	}
	run := t.Run
	t.Run = func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
		if toolCallOf(ctx) == nil { // a program calls it; what a run calls has been located
			located, err := pathname.InCall(name, string(args), func(given string) (string, error) { return readPath(ctx, rt, given) })
			if err != nil {
				return nil, err
			}
			args = json.RawMessage(located)
		}
		return run(ctx, rt, args)
	}
	t.Title, t.Kind = callwords.Title(name), kind
	t.Describe = func(args json.RawMessage) CallDescription {
		title, paths := callwords.Builtin(name, args)
		return CallDescription{Title: title, Paths: paths}
	}
	return t
}

// polling marks a tool that is meant to be called repeatedly.
func polling(t Tool) Tool {
	t.polls = true
	return t
}

// ofJobs marks a tool that needs background commands.
func ofJobs(t Tool) Tool {
	t.Needs = hasJobs
	return t
}

func hasJobs(rt Runtime) bool {
	_, err := jobRunner(rt)
	return err == nil
}

// withOrWithoutJobs has bash offer background commands only in a runtime that
// can run them. A tool that has got other parameters since stays as it is.
func withOrWithoutJobs(bash Tool) Tool {
	type foreground struct {
		bashCommand
	}
	without := NewTool("bash", "", func(context.Context, Runtime, foreground) (string, error) { return "", nil })
	schema, err := toolschema.Parse(without.Parameters)
	if err != nil {
		panic(err)
	}
	own := bash.Parameters
	bash.fit = func(t Tool, rt Runtime) Tool {
		if !hasJobs(rt) && bytes.Equal(t.Parameters, own) {
			t.Parameters, t.schema = without.Parameters, schema
		}
		return t
	}
	return bash
}
