package pygent

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
)

// Bounds of what the built-in tools show a model.
const (
	// maxToolResult bounds the result of a tool call, in bytes.
	maxToolResult = 32 << 10
	// maxFileResult bounds the piece of a file that one call of download_file shows.
	maxFileResult = 256 << 10
	// maxImage bounds the file that read_image sends, before base64.
	maxImage = 5 << 20
	// shownCommand bounds how much of a command is repeated in its result: the
	// model wrote it and knows it.
	shownCommand = 400
)

// builtinTools are the tools every default registry starts with. The map is
// shared: clone it before changing it.
var builtinTools = sync.OnceValue(func() map[string]Tool {
	tools := map[string]Tool{}
	for _, t := range append(delegationTools(), []Tool{
		builtin("bash", "Run a shell command in the workspace and return its output and exit code. Every command starts anew in the workspace: cd and exports do not last. Commands get no input and no terminal.", runBash),
		polling(builtin("job_output", "Read what a background command printed from offset on, and see its state. wait gives it time to print something new.", jobOutput)),
		polling(builtin("job_list", "List the commands in the background.", jobList)),
		builtin("job_kill", "End a background command with all its processes.", jobKill),
		builtin("write_file", "Create a text file in the workspace, or replace its whole content.", writeFile),
		builtin("edit_file", "Replace a piece of text in a file of the workspace. old_text must occur exactly once, white space included: add lines around it until it does.", editFile),
		builtin("download_file", "Read a text file of the workspace.", downloadFile),
		builtin("read_image", "Look at an image file of the workspace (PNG, JPEG, GIF or WebP).", readImage),
		builtin("continue", "Ask the user for input or a decision, and wait for the answer.", askUser),
		builtin("stop", "End the work: the task is done, or cannot be done. Give the answer, or what was achieved, in summary.", stopRun),
	}...) {
		t.Idempotent = t.Idempotent || repeatable[t.Name]
		t.ReadOnly = readOnly[t.Name]
		t.ends = t.Name == "continue" || t.Name == "stop"
		tools[t.Name] = t
	}
	return tools
})

// repeatable are the tools that do no harm when they run a second time. An
// edit is not: it would not find its old text, or find it once more.
var repeatable = map[string]bool{"write_file": true, "download_file": true, "read_image": true, "continue": true, "stop": true}

// readOnly are the tools that change nothing, nor do the two that end a run.
var readOnly = map[string]bool{
	"download_file": true, "read_image": true, "job_output": true, "job_list": true,
	"list_personas": true, "task_status": true, "continue": true, "stop": true,
}

// builtin makes a tool of this package. Its schema comes from a struct of this
// package too, so an error is a mistake in the source that every test meets.
func builtin[In any](name, description string, fn func(context.Context, Runtime, In) (*ToolResult, error)) Tool {
	t, err := typedTool(name, description, fn)
	if err != nil {
		panic(err)
	}
	return t
}

// polling marks a tool that is rightly called again and again.
func polling(t Tool) Tool {
	t.polls = true
	return t
}

type bashInput struct {
	Cmd     string  `json:"cmd" jsonschema:"the command, or a whole script"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"time limit in seconds, at most 600; default 30"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"directory to run in, relative to the workspace"`

	Background bool `json:"background,omitempty" jsonschema:"do not wait: return a job id for job_output and job_kill; without a time limit unless timeout is given"`
}

func runBash(ctx context.Context, rt Runtime, in bashInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Cmd) == "" {
		return nil, errors.New("cmd is empty")
	}
	if in.Timeout < 0 {
		return nil, errors.New("timeout must not be negative")
	}
	// Bounded before it becomes a Duration, which a large number would overflow.
	seconds := min(in.Timeout, MaxBashTimeout.Seconds())
	timeout := time.Duration(seconds * float64(time.Second))
	if in.Background {
		return startJob(ctx, rt, in.Cmd, BashTimeout(timeout), BashDir(in.Cwd))
	}
	r, err := rt.Bash(ctx, in.Cmd, BashTimeout(timeout), BashDir(in.Cwd))
	if err != nil && r.Output == "" {
		return nil, err
	}
	r.Command = in.Cmd
	display := r.String()
	compared := r
	compared.FullPath, compared.Duration = "", 0
	if len(r.Command) > shownCommand {
		r.Command = headOf(r.Command, shownCommand) + " …"
	}
	result := &ToolResult{Content: r.String(), Display: display, failed: r.ExitCode != 0 || r.TimedOut, compared: compared.String()}
	if err != nil {
		note := fmt.Sprintf("\n[did not finish: %v]", err)
		result.Content, result.Display, result.IsError = result.Content+note, display+note, true
	}
	return result, nil
}

type writeInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func writeFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	if err := rt.WriteFile(ctx, in.Path, []byte(in.Content)); err != nil {
		return nil, err
	}
	return &ToolResult{Content: fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path)}, nil
}

type editInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	OldText string `json:"old_text" jsonschema:"the exact text to replace; it must occur exactly once"`
	NewText string `json:"new_text" jsonschema:"what to put in its place"`
}

func editFile(ctx context.Context, rt Runtime, in editInput) (*ToolResult, error) {
	if in.OldText == "" {
		return nil, errors.New("old_text is empty; use write_file to create a file")
	}
	if in.OldText == in.NewText {
		return nil, errors.New("old_text and new_text are the same; nothing to do")
	}
	data, err := rt.ReadFile(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	edited, line, err := replaceOnce(string(data), in.OldText, in.NewText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Path, err)
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(edited)); err != nil {
		return nil, err
	}
	return &ToolResult{Content: fmt.Sprintf("edited %s at line %d", in.Path, line)}, nil
}

// replaceOnce replaces the only occurrence of old in text, and returns the
// line it began at. Models write LF: in a text with CRLF line ends, an old
// text that does not occur as it is gets those, and a new text gets the line
// ends of its place. An old text with CRLF shows a model that knows what it
// does; its new text is taken as it is.
func replaceOnce(text, old, new string) (edited string, line int, err error) {
	verbatim := strings.Contains(old, "\r\n")
	if !strings.Contains(text, old) && strings.Contains(text, "\r\n") {
		old, verbatim = toCRLF(old), false
	}
	at, last := strings.Index(text, old), strings.LastIndex(text, old)
	switch {
	case at < 0:
		return "", 0, errors.New("old_text does not occur in the file; read the file and copy the text exactly")
	case at != last: // occurrences that overlap are two as well
		return "", 0, fmt.Errorf("old_text occurs more than once, on line %d and on line %d; add lines around it to make it unique", lineAt(text, at), lineAt(text, last))
	}
	if !verbatim && endsInCRLF(text, at) {
		if text[at] == '\n' { // the CR before it belongs to the line end
			at, old = at-1, "\r"+old
		}
		new = toCRLF(new)
	}
	return text[:at] + new + text[at+len(old):], lineAt(text, at), nil
}

// lineAt returns the number of the line, from 1, that the byte at is in.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// endsInCRLF reports whether the line that the byte at is in ends in CRLF; of
// a last line without an end, whether the line before it does.
func endsInCRLF(text string, at int) bool {
	end := strings.IndexByte(text[at:], '\n')
	if end < 0 {
		end = strings.LastIndexByte(text[:at], '\n')
	} else {
		end += at
	}
	return end > 0 && text[end-1] == '\r'
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

type downloadInput struct {
	Path   string `json:"path" jsonschema:"relative to the workspace"`
	Offset int64  `json:"offset,omitempty" jsonschema:"byte to begin at; default 0"`
}

func downloadFile(ctx context.Context, rt Runtime, in downloadInput) (*ToolResult, error) {
	if in.Offset < 0 {
		return nil, errors.New("offset must not be negative")
	}
	data, size, err := readRange(ctx, rt, in.Path, in.Offset, maxFileResult)
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0 && in.Offset > 0:
		return nil, fmt.Errorf("offset %d is at or past the end of %s, which has %d bytes", in.Offset, in.Path, size)
	case len(data) == 0:
		return &ToolResult{Content: fmt.Sprintf("[%s is empty]", in.Path)}, nil
	}
	// A piece may begin and end within a character.
	begin, end := in.Offset, in.Offset+int64(len(data))
	if begin > 0 {
		data = cut.TrimStart(data)
		begin = end - int64(len(data))
	}
	if end < size {
		data = cut.TrimEnd(data)
		end = begin + int64(len(data))
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%s is not a text file (%d bytes); look at it with bash, or with read_image if it is an image", in.Path, size)
	}
	text := string(data)
	if end < size {
		text += fmt.Sprintf("\n[bytes %d to %d of %d; read on with offset %d]", begin, end, size, end)
	}
	return &ToolResult{Content: text, Display: fmt.Sprintf("read %s (%d bytes)", in.Path, len(data))}, nil
}

// readRange reads a piece of a file, also where the runtime reads only whole files.
func readRange(ctx context.Context, rt Runtime, path string, offset, limit int64) ([]byte, int64, error) {
	if rr, ok := rt.(RangeReader); ok {
		return rr.ReadFileRange(ctx, path, offset, limit)
	}
	data, err := rt.ReadFile(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	size := int64(len(data))
	data = data[min(offset, size):]
	return data[:min(int64(len(data)), limit)], size, nil
}

type imageInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
}

func readImage(ctx context.Context, rt Runtime, in imageInput) (*ToolResult, error) {
	data, size, err := readRange(ctx, rt, in.Path, 0, maxImage+1)
	if err != nil {
		return nil, err
	}
	if size > maxImage {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that can be shown; make a smaller copy", in.Path, size, maxImage)
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%s is not a PNG, JPEG, GIF or WebP image (%s)", in.Path, kind)
	}
	return &ToolResult{
		Content: fmt.Sprintf("the image %s (%s, %d bytes) follows", in.Path, kind, size),
		Images:  []string{"data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)},
	}, nil
}

type continueInput struct {
	Prompt  string   `json:"prompt,omitempty" jsonschema:"what to ask"`
	Options []string `json:"options,omitempty" jsonschema:"answers to choose from"`
}

func askUser(_ context.Context, _ Runtime, in continueInput) (*ToolResult, error) {
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

// headOf returns at most n bytes of the start of s, not cutting a character.
func headOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && end > n-utf8.UTFMax+1 && !utf8.RuneStart(s[end]) {
		end--
	}
	if !utf8.RuneStart(s[end]) {
		end = n // not UTF-8: there is no character to keep whole
	}
	return s[:end]
}

// tailOf returns at most n bytes of the end of s, not cutting a character.
func tailOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	begin := len(s) - n
	at := begin
	for at < len(s) && at < begin+utf8.UTFMax-1 && !utf8.RuneStart(s[at]) {
		at++
	}
	if at < len(s) && !utf8.RuneStart(s[at]) {
		at = begin // not UTF-8: there is no character to keep whole
	}
	return s[at:]
}

// bound keeps the head and the tail of a text that is longer than n bytes.
func bound(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := headOf(s, n/2), tailOf(s, n/2)
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-len(head)-len(tail), tail)
}
