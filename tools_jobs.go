package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/pause"
	"github.com/x/pygent/internal/plain"
)

type jobOutputInput struct {
	ID     string  `json:"id" jsonschema:"the job's id"`
	Until  string  `json:"until,omitempty" jsonschema:"wait until it prints this text"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"seconds to wait for until or the job's end, at most 600; default 0, or 60 with until"`
	Tail   int     `json:"tail,omitempty" jsonschema:"show only so many last lines, older ones too"`
	Offset *int64  `json:"offset,omitempty" jsonschema:"begin at this byte instead"`
}

// Bounds of what job_output reads.
const (
	// defaultUntilWait is how long a text is waited for.
	defaultUntilWait = 60 * time.Second
	// maxUntil bounds the text that is waited for, in bytes.
	maxUntil = 1 << 10
	// maxRecent is how much of what was searched is searched again with what follows,
	// in bytes. Escape sequences may be between the parts of the text.
	maxRecent = 4 * maxUntil
	// maxJobWindow is how much of a job's output is shown at most, before it is
	// cleaned, in bytes. Of more that is new, the end is shown.
	maxJobWindow = 64 << 10
	// jobPace is the pause between two looks at a job that prints all the time.
	jobPace = 50 * time.Millisecond
)

func jobOutput(ctx context.Context, rt Runtime, in jobOutputInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	switch {
	case err != nil:
		return nil, err
	case in.Wait < 0 || in.Tail < 0 || in.Offset != nil && *in.Offset < 0:
		return nil, errors.New("wait, tail and offset must not be negative")
	case len(in.Until) > maxUntil:
		return nil, fmt.Errorf("until is longer than %d bytes", maxUntil)
	}
	read := jobReader{runner: runner, id: in.ID, until: in.Until, at: readUpTo(ctx, in.ID)}
	if in.Offset != nil {
		read.at = *in.Offset
	}
	wait := min(secondsOf(in.Wait), maxJobWait)
	if wait == 0 && in.Until != "" {
		wait = defaultUntilWait
	}
	limited, cancel := pause.Before(ctx, endsBefore, errStepEnds)
	defer cancel()
	if err := read.begin(limited, in.Tail > 0); err != nil {
		return nil, nameJobs(ctx, runner, err)
	}
	err = read.follow(limited, wait)
	read.early = err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errStepEnds)
	if err != nil && !read.early {
		return nil, nameJobs(ctx, runner, err)
	}
	sawOutput(ctx, in.ID, read.at)
	sawJob(ctx, read.job)
	return &ToolResult{Content: read.describe(in.Tail, wait)}, nil
}

// jobReader reads the output of a job.
type jobReader struct {
	runner JobRunner
	id     string
	until  string

	at      int64  // where to go on
	text    string // what was read, its end at most
	skipped int64  // bytes that were not read, or are not in text any more
	job     Job
	found   bool   // until was printed
	early   bool   // the wait ended with the time for the step
	recent  string // the end of what was searched for until
}

// begin looks where the job's output stands. What would not be shown anyway is
// passed over; for the last lines, older output is read again.
func (r *jobReader) begin(ctx context.Context, tail bool) error {
	out, err := r.runner.JobOutput(ctx, r.id, r.at, 0)
	if err != nil {
		return err
	}
	r.job = out.Job
	r.at = min(r.at, max(out.Next, out.Job.Printed)) // else what is printed next would be passed over
	last := max(out.Job.Printed-maxJobWindow, 0)
	switch {
	case tail && r.at > last:
		now := r.at
		for r.at = last; r.at < now; {
			if out, err = r.runner.JobOutput(ctx, r.id, r.at, 0); err != nil || out.Next <= r.at {
				break
			}
			r.take(out)
		}
		r.at, r.skipped = max(r.at, now), 0
	}
	r.passOver()
	return err
}

// passOver leaves out what would not be shown, if no text is searched for in it. It
// reports whether there is output that has to be read without a pause.
func (r *jobReader) passOver() (behind bool) {
	if r.until != "" {
		return r.at < r.job.Printed
	}
	if last := r.job.Printed - maxJobWindow; last > r.at {
		r.skipped += last - r.at + int64(len(r.text))
		r.at, r.text = last, ""
	}
	return false
}

// follow reads until there is nothing new, and waits for the text or for the end of
// the job.
func (r *jobReader) follow(ctx context.Context, wait time.Duration) error {
	due := time.Now().Add(wait)
	for target := r.job.Printed; ; {
		asked := time.Now()
		left := max(due.Sub(asked), 0)
		out, err := r.runner.JobOutput(ctx, r.id, r.at, left)
		if err != nil {
			return err
		}
		r.search(out.Text)
		r.take(out)
		behind := r.passOver()
		switch {
		case r.found, out.Text == "" && !r.job.Running, left <= 0 && (out.Text == "" || r.at >= target):
			return nil
		case left > 0 && r.job.Running && !behind && time.Since(asked) < jobPace:
			if err := sleepFor(ctx, min(jobPace, left)); err != nil {
				return err
			}
		}
	}
}

// sleepFor waits, but not longer than ctx.
func sleepFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// search looks for the text in what was printed, and in what a model would be shown
// of that, without colours for example. It finds it also where two pieces meet.
func (r *jobReader) search(text string) {
	if r.until == "" || r.found || text == "" {
		return
	}
	text = r.recent + text
	r.found = strings.Contains(text, r.until) || strings.Contains(plain.Clean(text), r.until)
	r.recent = cut.Tail(text, maxRecent)
}

func (r *jobReader) take(out JobOutput) {
	r.job, r.at = out.Job, max(out.Next, r.at)
	r.skipped += out.Skipped
	r.text += out.Text
	if over := len(r.text) - maxJobWindow; over > 0 {
		short := cut.Tail(r.text, maxJobWindow)
		r.skipped += int64(len(r.text) - len(short))
		r.text = short
	}
}

// describe formats what was read for a model.
func (r *jobReader) describe(tail int, wait time.Duration) string {
	text := cut.Middle(plain.Clean(r.text), maxToolResult-shownCommand)
	var b strings.Builder
	switch {
	case tail > 0:
		text = lastLines(text, tail)
	case r.skipped > 0:
		fmt.Fprintf(&b, "[%s bytes before this are not shown]\n", plain.Grouped(r.skipped))
	}
	if strings.TrimSpace(text) == "" {
		text = "(no new output)"
	}
	b.WriteString(strings.TrimSuffix(text, "\n"))
	fmt.Fprintf(&b, "\n[%s%s]", r.job, r.outcome(wait))
	return b.String()
}

// outcome says what became of the waiting.
func (r *jobReader) outcome(wait time.Duration) string {
	switch {
	case r.until != "" && r.found:
		return "; the text was printed"
	case r.until != "" && !r.job.Running:
		return "; the text was not printed"
	case r.early:
		return "; the time for this step is over, so the wait ended early"
	case r.until != "":
		return fmt.Sprintf("; the text was not printed within %s", wait)
	case wait > 0 && r.job.Running:
		return fmt.Sprintf("; waited %s for its end", wait)
	}
	return ""
}

// lastLines returns at most n lines from the end of a text.
func lastLines(text string, n int) string {
	text = strings.TrimSuffix(text, "\n")
	at := len(text)
	for ; n > 0 && at >= 0; n-- {
		at = strings.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:]
}

// nameJobs adds to the error about an unknown job which ones there are.
func nameJobs(ctx context.Context, runner JobRunner, err error) error {
	if !errors.Is(err, ErrUnknownJob) {
		return err
	}
	jobs, listErr := runner.Jobs(ctx)
	if listErr != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("%w; there are no jobs", err)
	}
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return fmt.Errorf("%w; there are the jobs %s", err, cut.Head(strings.Join(ids, ", "), shownCommand))
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
		sawJob(ctx, j)
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
		return nil, nameJobs(ctx, runner, err)
	}
	sawJob(ctx, job)
	return &ToolResult{Content: job.String()}, nil
}
