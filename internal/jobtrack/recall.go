package jobtrack

import (
	"strconv"
	"strings"
)

// maxID bounds what is taken for the id of a job, in bytes.
const maxID = 64

// Recall records what the results and notices of a conversation have told a model.
// They are read in their order. A book that recalls has no other jobs.
type Recall struct{ book Book }

// Bash reads the result of a command. job is the one that it became or left behind,
// and read how far its output was shown; job is empty if there was none, or if that
// was not recorded, as known says.
func (r *Recall) Bash(command, text, job string, read int64, known bool) {
	switch {
	case strings.HasPrefix(text, started): // the result of a command that was waited for begins otherwise
		job, _, _ = strings.Cut(text[len(started):], hasBegun)
	case !known:
		job, read = jobAtEnd(text), 0
	}
	if isID(job) {
		r.book.begin(Job{ID: job, Command: command, Read: read, Resumed: true})
	}
}

// jobAtEnd finds the job that the last lines of a result name.
func jobAtEnd(text string) (job string) {
	for line := range strings.Lines(text[max(0, len(text)-4<<10):]) {
		for _, before := range []string{goesOn, leftAs} {
			if _, after, ok := strings.Cut(line, before); ok && strings.HasPrefix(line, "[") && strings.Contains(line, "still running ") {
				job = after[:max(strings.IndexAny(after, ":;]"), 0)]
			}
		}
	}
	return job
}

// Output reads the result of job_output: the last line about a job counts, since
// what the job printed is before it.
func (r *Recall) Output(text string) {
	if at := strings.LastIndex("\n"+text, "\n[job "); at >= 0 {
		line, _, _ := strings.Cut(text[at:], "\n")
		r.line(line, true)
	}
}

// List reads the result of job_list or job_kill, in which each line is about a job.
func (r *Recall) List(text string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "job ") {
			r.line("["+strings.TrimSuffix(line, "\n"), false)
		}
	}
}

// Notice reads what the model was told between its steps.
func (r *Recall) Notice(text string) {
	for line := range strings.Lines(text) {
		r.line(strings.TrimSuffix(line, "\n"), false)
	}
}

// line reads a line about a job. read says that its output was shown, too.
func (r *Recall) line(line string, read bool) {
	rest, ok := strings.CutPrefix(line, "[job ")
	id, rest, named := strings.Cut(rest, " (")
	if !ok || !named || !isID(id) {
		return
	}
	if at := strings.LastIndex(rest, ")"+lost); at >= 0 {
		j := r.know(id, rest[:at])
		j.Ended, j.Gone = true, true
		return
	}
	at := strings.LastIndex(rest, "): ")
	if at < 0 {
		return
	}
	command, state := rest[:at], rest[at+len("): "):]
	j := r.know(id, command)
	j.Ended = !strings.HasPrefix(state, "running ")
	j.Resumed = j.Resumed && !strings.Contains(state, met)
	if !read || strings.Contains(state, TextFound) { // there may be more behind the text
		return
	}
	before, _, _ := strings.Cut(state, printed)
	if n, err := strconv.ParseInt(before[strings.LastIndexByte(before, ' ')+1:], 10, 64); err == nil {
		j.Read = max(j.Read, n)
	}
}

// know returns the job of an id. The call that began it may be lost.
func (r *Recall) know(id, command string) *Job {
	if j := r.book.find(id); j != nil {
		return j
	}
	return r.book.begin(Job{ID: id, Command: strings.TrimSuffix(command, " …"), Resumed: true})
}

// isID reports whether a text can be the id of a job.
func isID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsAny(id, " \t\r\n()[]:;")
}
