package jobtrack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jobtrack"
)

// recalled returns the jobs that a conversation tells of.
func recalled(tell func(r *jobtrack.Recall)) *jobtrack.Book {
	var r jobtrack.Recall
	tell(&r)
	b := &jobtrack.Book{}
	b.Recall(&r)
	return b
}

func TestWhatAModelWasToldIsRecalled(t *testing.T) {
	states := map[string]jobtrack.State{
		"runs":           {Running: true, Processes: 1, ExitCode: -1},
		"runs in two":    {Running: true, Processes: 2, ExitCode: -1},
		"ended":          {},
		"was killed":     {Killed: true, ExitCode: 143},
		"took too long":  {TimedOut: true, ExitCode: 143},
		"lacked memory":  {ExitCode: 137},
		"a long command": {Command: strings.Repeat("): ended with ", 20)},
	}
	for name, s := range states {
		t.Run(name, func(t *testing.T) {
			s.ID, s.Printed, s.Duration = "7", 1234, 90*time.Second
			if s.Command == "" {
				s.Command = "serve (fast): running for ever"
			}
			for how, tell := range map[string]func(r *jobtrack.Recall){
				"output": func(r *jobtrack.Recall) {
					r.Output("[job 7 (no): ended with 1\n[" + s.String() + "; waited 1s for its end]\n[2 steps left]")
				},
				"list": func(r *jobtrack.Recall) {
					r.List("job 6 (true): ended with exit code 0 after 1s, 0 bytes printed\n" + s.String())
				},
				"notice": func(r *jobtrack.Recall) {
					r.Notice("[task t1 finished]\n" + jobtrack.Ended(s, "a\n[job 7 (x): running for 1s]"))
				},
				"met": func(r *jobtrack.Recall) { r.Notice(jobtrack.Met(s)) },
			} {
				for _, begun := range []bool{true, false} {
					b := recalled(func(r *jobtrack.Recall) {
						if begun {
							r.Bash(s.Command, jobtrack.Started("7"), "", 0, true)
						}
						tell(r)
					})
					j, known := b.Job("7")
					require.True(t, known, how)
					require.Equal(t, !s.Running, j.Ended, how)
					require.True(t, j.Is(s.Command), j.Command)
					require.Equal(t, how != "met", j.Resumed)
					require.EqualValues(t, map[bool]int{true: 1234}[how == "output"], j.Read, how)
					require.EqualValues(t, 7, b.Highest())
				}
			}
		})
	}
}

func TestACommandThatBecameAJobIsRecalled(t *testing.T) {
	for name, tt := range map[string]struct {
		text, job string
		known     bool
		want      string
	}{
		"started":               {jobtrack.Started("3"), "", true, "3"},
		"went on":               {"$ x\n" + jobtrack.GoesOn("4", time.Minute) + "\n[5 steps left]", "", false, "4"},
		"went on, as recorded":  {"$ x\n", "5", true, "5"},
		"left behind":           {"$ x\n[that file is long; still running in the background: sleep (pid 1), as job 6]", "", false, "6"},
		"nothing":               {"$ x\nok", "", false, ""},
		"a printed text":        {"$ x\n" + jobtrack.GoesOn("4", time.Minute), "", true, ""},
		"a printed beginning":   {"$ x\n" + jobtrack.Started("3"), "", false, ""},
		"no id":                 {"started job ", "", false, ""},
		"a number too high":     {jobtrack.Started("2147483647"), "", true, "2147483647"},
		"the id of another one": {jobtrack.Started("a-b"), "", true, "a-b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := recalled(func(r *jobtrack.Recall) { r.Bash("x", tt.text, tt.job, 9, tt.known) })
			open := b.Open()
			if tt.want == "" {
				require.Empty(t, open)
				return
			}
			require.Len(t, open, 1)
			require.Equal(t, tt.want, open[0].ID)
			require.LessOrEqual(t, b.Highest(), int64(1_000_000))
		})
	}
}

func TestALostJobIsToldOnce(t *testing.T) {
	j := jobtrack.Job{ID: "2", Command: "npm run dev (x) is lost"}
	b := recalled(func(r *jobtrack.Recall) {
		r.Bash(j.Command, jobtrack.Started("2"), "", 0, true)
		r.Notice(j.Lost())
	})
	require.Empty(t, b.Open())
}

func TestABookIsBounded(t *testing.T) {
	var b jobtrack.Book
	for i := range 2000 {
		b.Begin(fmt.Sprint(i), strings.Repeat("é", 1000)+"\nmore", 0)
		if i%2 == 0 {
			b.End(fmt.Sprint(i))
		}
	}
	open := b.Open()
	require.Len(t, open, 1000, "ended jobs are forgotten first")
	require.Less(t, len(open[0].Command), 100)
	require.False(t, jobtrack.Job{ID: "1", Command: "npm test", Resumed: true}.Is("npm run dev"))
	require.True(t, jobtrack.Job{ID: "1", Command: "npm test"}.Is("npm run dev"), "nobody else has the id")
}

func FuzzRecall(f *testing.F) {
	f.Add("[job 1 (a): running for 1s, 5 bytes printed]")
	f.Add("[job 1 (a) is lost, with the container or process that it ran in; x]")
	f.Add("[still running after 1s; it goes on as job 1: see]")
	f.Add("started job ")
	f.Fuzz(func(t *testing.T, text string) {
		b := recalled(func(r *jobtrack.Recall) {
			r.Bash(text, text, "", 0, false)
			r.Output(text)
			r.List(text)
			r.Notice(text)
		})
		for _, j := range b.Open() {
			require.True(t, j.ID != "" && len(j.ID) <= 64 && len(j.Command) <= 80)
		}
	})
}

func TestIDsAreUnderstoodAsResultsWriteThem(t *testing.T) {
	b := &jobtrack.Book{}
	b.Begin("3", "make", 0)
	b.Begin("job-4", "serve", 0)
	for given, want := range map[string]string{
		"3": "3", "job 3": "3", "Job_3": "3", "#3": "3", " 3 ": "3", "job-4": "job-4",
		"9": "9", "job 9": "job 9", "": "", "job": "job",
	} {
		require.Equal(t, want, b.Meant(given), given)
	}
}

// TestTheLineOfATextIsReadWhole prints the end of a line a moment after its beginning.
func TestTheLineOfATextIsReadWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		then string // what is printed after the text, if anything
		want string
		wait time.Duration
	}{
		"the rest follows":    {" on port 80\n", "ready on port 80", time.Minute},
		"the line has no end": {"", "ready", time.Minute},
		"there is no time":    {" on port 80\n", "ready", 0},
		"the end of the line": {"\n", "ready", time.Minute},
		"a line after it too": {" soon\nnext\n", "ready soon\nnext", time.Minute},
		"it goes on and on":   {strings.Repeat(".", 9), "ready.........", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				printed, began := "ready", time.Now()
				r := jobtrack.Reader{Until: "ready", From: func(_ context.Context, at int64, wait time.Duration) (jobtrack.Output, error) {
					if at == int64(len("ready")) && wait > 0 {
						if tt.then == "" {
							time.Sleep(wait)
						} else {
							time.Sleep(min(wait, 100*time.Millisecond))
							printed = "ready" + tt.then
						}
					}
					state := jobtrack.State{Running: true, Printed: int64(len(printed))}
					return jobtrack.Output{Text: printed[at:], Next: state.Printed, State: state}, nil
				}}
				require.NoError(t, r.Follow(t.Context(), tt.wait))
				require.Contains(t, r.Describe(0, tt.wait, 1000), tt.want+"\n[")
				require.Less(t, time.Since(began), time.Second)
			})
		})
	}
}
