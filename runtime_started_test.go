package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// forEachStarted runs a test against a runtime of each kind that is started and has an
// empty workspace. Those in containers are lent: other tests have used them, and will,
// because the start and the end of a container cost more than most tests. A test may do
// with its runtime what it likes: what it closes, or leaves anything else in than files
// of the workspace, is not lent again. A test needs forEachRuntime if it begins with
// files, which a container that is not started has too, or sets the environment, or
// counts on the numbers of jobs.
func forEachStarted(t *testing.T, test func(t *testing.T, r pygent.Runtime)) {
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.Name == "local" {
				test(t, c.New(t))
				return
			}
			test(t, started.lend(t, c))
		})
	}
}

// started are the runtimes that forEachStarted lends.
var started startedRuntimes

// startedRuntimes has runtimes in containers, by the names of their kinds. Each is of one
// test at a time.
type startedRuntimes struct {
	mu   sync.Mutex
	idle map[string][]startedRuntime
}

// startedRuntime is a runtime, and its trace when it was new.
type startedRuntime struct {
	pygent.Runtime
	trace string
}

// lend returns a runtime until the end of a test.
func (s *startedRuntimes) lend(t *testing.T, kind runtimeCase) pygent.Runtime {
	r, ok := s.take(kind.Name)
	if !ok {
		var err error
		r.Runtime, err = kind.Construct(context.Background(), kind.Options(t)...)
		require.NoError(t, err)
		if r.trace, err = traceOf(r.Runtime); err != nil {
			err = errors.Join(err, r.Cleanup())
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if !t.Failed() && r.clear() == nil {
			s.put(kind.Name, r)
			return
		}
		require.NoError(t, r.Cleanup())
	})
	return r.Runtime
}

func (s *startedRuntimes) take(kind string) (r startedRuntime, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.idle[kind]
	if len(idle) == 0 {
		return r, false
	}
	s.idle[kind] = idle[:len(idle)-1]
	return idle[len(idle)-1], true
}

func (s *startedRuntimes) put(kind string, r startedRuntime) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = map[string][]startedRuntime{}
	}
	s.idle[kind] = append(s.idle[kind], r)
}

// close ends all runtimes that are not lent.
func (s *startedRuntimes) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.idle)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, idle := range s.idle {
		for _, r := range idle {
			all.Go(func() {
				err := r.Cleanup()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// clear empties the workspace. It returns an error if anything else is not as it was.
func (r startedRuntime) clear() error {
	if err := r.Runtime.(pygent.FileRemover).RemoveFile(context.Background(), ".", true); err != nil {
		return err
	}
	switch trace, err := traceOf(r.Runtime); {
	case err != nil:
		return err
	case trace != r.trace:
		return fmt.Errorf("a test left %q, where %q was", trace, r.trace)
	}
	return nil
}

// traceOf returns what tests leave behind in a container: jobs, processes, files.
func traceOf(r pygent.Runtime) (string, error) {
	jobs, err := r.(pygent.JobRunner).Jobs(context.Background())
	if err != nil {
		return "", err
	}
	res, err := r.Bash(context.Background(), `set -- /proc/[0-9]*; echo $#; ls -A . /tmp /var/tmp /root; stat -c '%a %u %g' . /tmp`)
	return fmt.Sprint(len(jobs), res.ExitCode, res.Output), err
}

// endingStarted is a test program that ends, after its tests, the runtimes that they used
// one after the other.
type endingStarted struct{ tests *testing.M }

func (e endingStarted) Run() int {
	code := e.tests.Run()
	if err := started.close(); err != nil {
		fmt.Fprintln(os.Stderr, "end the runtimes of the tests:", err)
		return 1
	}
	return code
}
