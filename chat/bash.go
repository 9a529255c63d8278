package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/jobtrack"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/plain"
)

// BashResult is the outcome of a command. Its Output is what was printed, escape
// sequences and all: show it to people through something that makes them harmless,
// and to models by String.
type BashResult struct {
	Command  string        `json:"command"`
	Output   string        `json:"output"`              // stdout and stderr in the order they were written; head and tail when Truncated
	ExitCode int           `json:"exit_code"`           // the shell's status; 128+n when signal n ended it, -1 when unknown
	TimedOut bool          `json:"timed_out,omitempty"` // stopped at its time limit
	Duration time.Duration `json:"-" seconds:"duration_seconds"`

	Truncated bool   `json:"truncated,omitempty"` // Output leaves out its middle
	Omitted   int64  `json:"omitted,omitempty"`   // bytes left out
	FullPath  string `json:"full_path,omitempty"` // where commands of the runtime, and its ReadFile, find the whole output, or as much of its beginning as Note says
	Note      string `json:"note,omitempty"`      // other remarks: processes left behind, a container restarted

	// Job is the id of the job that has what still runs of the command: processes
	// that it left behind or, if GoesOn is set, the command itself. That was waited
	// for as long as its limit says, and had printed Printed bytes by then: its
	// output goes on at that offset of pygent.JobRunner.JobOutput.
	Job     string `json:"job,omitempty"`
	GoesOn  bool   `json:"goes_on,omitempty"`
	Printed int64  `json:"printed,omitempty"`

	// Refused are hosts that were refused while the command ran; if there were
	// many, only some of them. Commands that run at the same time share them.
	Refused []HostUse `json:"refused_hosts,omitempty"`
}

// shownDuration is from how long on a result says how long the command took.
const shownDuration = 5 * time.Second

// String formats the result for a model: "$ command", the output, and anything
// unusual. Of the output it leaves what a terminal would show in the end:
// overwritten states of progress bars and escape sequences are left out, other
// control characters and bytes that are no UTF-8 are shown as escapes, and binary
// data becomes a line that says how much it was.
func (r BashResult) String() string {
	r.Output = plain.Clean(r.Output)
	return r.Text()
}

// Text is String for an output that has been cleaned.
func (r BashResult) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", r.Command, r.Output)
	line := func(format string, args ...any) {
		if s := b.String(); !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if strings.TrimSpace(r.Output) == "" {
		line("(no output%s)", map[bool]string{true: " so far"}[r.GoesOn])
	}
	if r.FullPath != "" {
		line("[the output is in %s]", r.FullPath)
	}
	switch took := r.took(); {
	case r.GoesOn:
		line("%s", jobtrack.GoesOn(r.Job, r.Duration.Round(100*time.Millisecond)))
	case r.TimedOut:
		line("[stopped at the time limit after %s; a longer timeout can be given]", r.Duration.Round(100*time.Millisecond))
	case r.ExitCode != 0 && took != "":
		line("[exit code %d after %s]", r.ExitCode, took)
	case r.ExitCode != 0:
		line("[exit code %d]", r.ExitCode)
	case took != "":
		line("[took %s]", took)
	}
	if r.Note != "" {
		line("[%s]", r.Note)
	}
	return b.String()
}

// took says how long the command took, if it took long.
func (r BashResult) took() string {
	if r.Duration < shownDuration {
		return ""
	}
	return r.Duration.Round(time.Second / 10).String()
}

// MarshalJSON encodes the command's duration in seconds.
func (r BashResult) MarshalJSON() ([]byte, error) {
	type plain BashResult
	return jsonobj.MarshalSeconds(plain(r))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *BashResult) UnmarshalJSON(data []byte) error {
	type plain BashResult
	return jsonobj.UnmarshalSeconds(data, (*plain)(r))
}

// ended returns how the command ended, without what it was and what it printed.
func (r *BashResult) ended() *BashResult {
	if r == nil {
		return nil
	}
	end := *r
	end.Command, end.Output, end.Refused = "", "", slices.Clone(r.Refused)
	return &end
}

// HostUse describes a host that commands tried to reach.
type HostUse struct {
	Host    string `json:"host"` // lower case, in ASCII; an address without brackets
	Port    int    `json:"port"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why it was refused
	Allow   string `json:"allow,omitempty"`  // what pygent.WithAllowedHosts needs so that it is not refused; empty where that does not help
}
