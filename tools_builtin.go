package pygent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/edit"
)

// Bounds of what the built-in tools show a model.
const (
	// maxToolResult bounds the result of a tool call, in bytes.
	maxToolResult = 32 << 10
	// maxFileResult bounds the piece of a file that one call of download_file shows.
	maxFileResult = 256 << 10
	// maxImage bounds the file that read_image sends, before base64.
	maxImage = 5 << 20
	// shownCommand bounds how much of a command its result repeats, since the
	// model wrote it.
	shownCommand = 400
	// maxJobWait bounds how long job_output waits for something new.
	maxJobWait = 60 * time.Second
)

type bashInput struct {
	bashCommand
	Background bool `json:"background,omitempty" jsonschema:"do not wait: return a job id for job_output and job_kill; without a time limit unless timeout is given"`
}

// bashCommand is the part of bash that every runtime can serve.
type bashCommand struct {
	Cmd     string  `json:"cmd" jsonschema:"the command, or a whole script"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"time limit in seconds, at most 600; default 30"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"directory to run in, relative to the workspace"`
}

func runBash(ctx context.Context, rt Runtime, in bashInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Cmd) == "" {
		return nil, errors.New("cmd is empty")
	}
	if in.Timeout < 0 {
		return nil, errors.New("timeout must not be negative")
	}
	timeout := min(secondsOf(in.Timeout), MaxBashTimeout)
	if in.Background {
		return startJob(ctx, rt, in.Cmd, BashTimeout(timeout), BashDir(in.Cwd))
	}
	r, err := rt.Bash(ctx, in.Cmd, withLiveOutput(ctx, BashTimeout(timeout), BashDir(in.Cwd))...)
	if err != nil && r.Output == "" {
		return nil, err
	}
	r.Command = in.Cmd
	whole, display := r, r.String()
	compared := r
	compared.FullPath, compared.Duration = "", 0
	if len(r.Command) > shownCommand {
		r.Command = cut.Head(r.Command, shownCommand) + " …"
	}
	result := &ToolResult{Content: r.String(), Bash: &whole, compared: compared.String()}
	if r.Command != in.Cmd {
		result.Display = display
	}
	if r.ExitCode != 0 || r.TimedOut {
		result.Outcome = OutcomeFailed
	}
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
	result := &ToolResult{Content: fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), Locations: []Location{{Path: in.Path}}}
	var former formerText
	told := tellsChanges(ctx)
	if told {
		former = readFormer(ctx, rt, in.Path)
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(in.Content)); err != nil {
		return nil, err
	}
	if told {
		result.Changes = []FileChange{former.becomes(in.Path, in.Content)}
	}
	return result, nil
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
	edited, line, err := edit.ReplaceOnce(string(data), in.OldText, in.NewText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Path, err)
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(edited)); err != nil {
		return nil, err
	}
	result := &ToolResult{Content: fmt.Sprintf("edited %s at line %d", in.Path, line), Locations: []Location{{Path: in.Path, Line: line}}}
	if tellsChanges(ctx) {
		result.Changes = []FileChange{formerText{data: data}.becomes(in.Path, edited)}
	}
	return result, nil
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
	// A piece may begin and end inside a character.
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
	return &ToolResult{Content: text, Display: fmt.Sprintf("read %s (%d bytes)", in.Path, len(data)), Locations: []Location{{Path: in.Path}}}, nil
}

// readRange reads a piece of a file, even if the runtime can only read whole
// files.
func readRange(ctx context.Context, rt Runtime, path string, offset, limit int64) ([]byte, int64, error) {
	if rr, ok := RuntimeAs[RangeReader](rt); ok {
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

// jobRunner returns the runtime as a [JobRunner], or an error if it is none.
func jobRunner(rt Runtime) (JobRunner, error) {
	j, ok := RuntimeAs[JobRunner](rt)
	if !ok {
		return nil, errors.New("this runtime cannot run commands in the background")
	}
	return j, nil
}

func startJob(ctx context.Context, rt Runtime, cmd string, opts ...BashOption) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	job, err := runner.StartJob(ctx, cmd, opts...)
	if err != nil {
		return nil, err
	}
	return &ToolResult{Content: fmt.Sprintf("started job %s in the background; read what it prints with job_output, end it with job_kill", job.ID)}, nil
}

type jobOutputInput struct {
	ID     string  `json:"id" jsonschema:"the job's id"`
	Offset int64   `json:"offset,omitempty" jsonschema:"byte of the output to begin at; default 0"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"seconds to wait for something new, at most 60; default 0"`
}

func jobOutput(ctx context.Context, rt Runtime, in jobOutputInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	if in.Offset < 0 || in.Wait < 0 {
		return nil, errors.New("offset and wait must not be negative")
	}
	wait := min(secondsOf(in.Wait), maxJobWait)
	out, err := runner.JobOutput(ctx, in.ID, in.Offset, wait)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if out.Skipped > 0 {
		fmt.Fprintf(&b, "[%d bytes are no longer kept]\n", out.Skipped)
	}
	b.WriteString(out.Text)
	if out.Text != "" && !strings.HasSuffix(out.Text, "\n") {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[%s; read on with offset %d]", out.Job, out.Next)
	return &ToolResult{Content: b.String()}, nil
}

type jobListInput struct{}

func jobList(ctx context.Context, rt Runtime, _ jobListInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	jobs, err := runner.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return &ToolResult{Content: "no jobs"}, nil
	}
	var lines []string
	for _, j := range jobs {
		lines = append(lines, j.String())
	}
	return &ToolResult{Content: strings.Join(lines, "\n")}, nil
}

type jobKillInput struct {
	ID string `json:"id" jsonschema:"the job's id"`
}

func jobKill(ctx context.Context, rt Runtime, in jobKillInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	job, err := runner.KillJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &ToolResult{Content: job.String()}, nil
}

// String formats a command with its directory, for the person who decides about
// it.
func (in bashInput) String() string {
	command := "$ " + strings.TrimSpace(in.Cmd)
	if in.Cwd != "" {
		return fmt.Sprintf("(in %q) %s", in.Cwd, command)
	}
	return command
}

// commandIn returns the command of a bash call; ok is false for other calls.
func commandIn(call ToolCall) (in bashInput, ok bool) {
	ok = call.Name == "bash" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in, ok
}
