// Package jobtrack keeps what a model knows of the commands that it runs in the
// background, its jobs, reads for it what they print, and has the words in which it is
// told of them. From those words in a conversation that is resumed, it learns again what
// the model knows.
package jobtrack

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/x/pygent/internal/cut"
)

const (
	// maxJobs is how many jobs a book remembers.
	maxJobs = 1000
	// shownCommand is how much of a command is said, in bytes.
	shownCommand = 80
	// maxNumber is the highest number of a job that is believed of a conversation.
	maxNumber = 1_000_000
)

// Job is what a model knows of a job.
type Job struct {
	ID      string
	Command string // the beginning of its first line; empty if that is not known
	Read    int64  // how far the model has read its output, in bytes
	Ended   bool   // the model knows of its end
	Gone    bool   // it ended with the container or process that it ran in
	Resumed bool   // the model does not know whether it has outlived the run before
}

// Is reports whether a job that a runtime has under the same id can be this one, by
// its command. Other jobs get the same ids where the runtime is another one.
func (j Job) Is(command string) bool {
	ours, theirs := firstLine(j.Command), firstLine(command)
	n := min(len(ours), len(theirs), shownCommand/2)
	return !j.Resumed || ours[:n] == theirs[:n]
}

func firstLine(command string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(command), "\n")
	return strings.TrimSpace(line)
}

// Book is what a model knows of its jobs. The zero Book is empty and ready to use.
// It is safe for concurrent use.
type Book struct {
	mu      sync.Mutex // guards the fields below
	jobs    []*Job     // the oldest first
	highest int64      // the highest number that is an id
}

// Begin records a job that the model is told of, with how much of its output it is
// shown.
func (b *Book) Begin(id, command string, read int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(Job{ID: id, Command: command, Read: read})
}

// begin adds a job. The caller holds mu.
func (b *Book) begin(j Job) *Job {
	j.Command = cut.Head(firstLine(j.Command), shownCommand)
	b.jobs = slices.DeleteFunc(b.jobs, func(other *Job) bool { return other.ID == j.ID })
	b.jobs = append(b.jobs, &j)
	if len(b.jobs) > maxJobs {
		at := max(slices.IndexFunc(b.jobs, func(j *Job) bool { return j.Ended }), 0)
		b.jobs = slices.Delete(b.jobs, at, at+1)
	}
	if n, err := strconv.ParseInt(j.ID, 10, 64); err == nil && n <= maxNumber {
		b.highest = max(b.highest, n)
	}
	return &j
}

// find returns the job of an id, or nil. The caller holds mu.
func (b *Book) find(id string) *Job {
	for _, j := range b.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// Job returns the job of an id, and whether the model knows it.
func (b *Book) Job(id string) (_ Job, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.find(id); j != nil {
		return *j, true
	}
	return Job{}, false
}

// Meant returns the id of the job that a model means: it may write "job 3", "job_3" or
// "#3" for 3. What stands for no known job is returned as it is.
func (b *Book) Meant(given string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(given)), "job")
	if bare := strings.TrimLeft(rest, " _-#"); b.find(given) == nil && b.find(bare) != nil {
		return bare
	}
	return given
}

// Read records that the model has read a job's output up to an offset.
func (b *Book) Read(id string, at int64) {
	b.change(id, func(j *Job) { j.Read = max(j.Read, at) })
}

// End records that the model knows of the end of a job.
func (b *Book) End(id string) { b.change(id, func(j *Job) { j.Ended = true }) }

// Lose records that the model knows that a job is gone.
func (b *Book) Lose(id string) { b.change(id, func(j *Job) { j.Ended, j.Gone = true, true }) }

// Met records that the model knows that a job has outlived the run before.
func (b *Book) Met(id string) { b.change(id, func(j *Job) { j.Resumed = false }) }

func (b *Book) change(id string, set func(*Job)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.find(id); j != nil {
		set(j)
	}
}

// Open returns the jobs of whose end the model does not know, the oldest first.
func (b *Book) Open() (open []Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		if !j.Ended {
			open = append(open, *j)
		}
	}
	return open
}

// Recall adds the jobs that a conversation tells of, which began before all others.
func (b *Book) Recall(r *Recall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs = append(slices.Clip(r.book.jobs), b.jobs...)
	b.highest = max(b.highest, r.book.highest)
}

// Forget forgets all jobs, but not which ids they had.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs = nil
}

// Highest returns the highest number among the ids, so that a new job gets another
// one.
func (b *Book) Highest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.highest
}
