package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxJobWait bounds how long job_output waits for something new.
const maxJobWait = 60 * time.Second

// jobRunner returns the runtime as one that runs commands in the background.
func jobRunner(rt Runtime) (JobRunner, error) {
	j, ok := rt.(JobRunner)
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
