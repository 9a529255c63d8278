//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent"
)

// soaker uses one runtime at a time, and knows what each command must print.
type soaker struct {
	t      *testing.T
	kind   int
	engine *client.Client
	random *rand.Rand
	tally  *tally

	runtime pygent.Runtime
	tokens  int // how many tokens were made
}

// tally counts the trials, and how long they took.
type tally struct {
	mu     sync.Mutex // guards counts and took
	counts map[string]int
	took   map[string]time.Duration
}

func (t *tally) add(what string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
	t.took[what] += took
}

// String lists the trials, one on each line.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		n := t.counts[what]
		list = append(list, fmt.Sprintf("%6d %s, %v each", n, what, (t.took[what]/time.Duration(n)).Round(time.Millisecond)))
	}
	return strings.Join(list, "\n")
}

// trials are what a soaker does. A trial with a higher weight is made more often.
var trials = []struct {
	name   string
	weight int
	do     func(*soaker, context.Context) error
}{
	{"plain", 30, (*soaker).plain},
	{"long output", 8, (*soaker).longOutput},
	{"files", 10, (*soaker).files},
	{"time limit", 14, (*soaker).timeLimit},
	{"stubborn", 3, (*soaker).stubborn},
	{"cancel", 18, (*soaker).cancel},
	{"background", 5, (*soaker).background},
	{"at once", 6, (*soaker).atOnce},
	{"kill", 3, (*soaker).kill},
	{"another runtime", 1, (*soaker).renew},
}

// soak does n trials, and stops at the first that fails.
func (s *soaker) soak(n int) (err error) {
	ctx := s.t.Context()
	if s.runtime, err = soakRuntime(ctx, s.engine, s.kind); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.runtime.Cleanup()) }()
	var weights int
	for _, trial := range trials {
		weights += trial.weight
	}
	for i := range n {
		pick := s.random.IntN(weights)
		for _, trial := range trials {
			if pick -= trial.weight; pick >= 0 {
				continue
			}
			start := time.Now()
			if err := trial.do(s, ctx); err != nil {
				return fmt.Errorf("command %d, %s: %w", i, trial.name, err)
			}
			s.tally.add(trial.name, time.Since(start))
			break
		}
	}
	return nil
}

// token returns a text that no other command prints.
func (s *soaker) token() string {
	s.tokens++
	return fmt.Sprintf("token-%d-%d-%d", s.kind, s.tokens, s.random.Uint32())
}

func (s *soaker) upTo(d time.Duration) time.Duration { return time.Duration(s.random.Int64N(int64(d))) }

// want compares a result with what it must be.
func want(res pygent.BashResult, err error, output string, exit int) error {
	if err != nil || res.Output != output || res.ExitCode != exit || res.TimedOut || res.Truncated {
		return fmt.Errorf("want %q and exit code %d, got %+v and error %v", output, exit, res, err)
	}
	return nil
}

// plain checks the order of both streams, and the status.
func (s *soaker) plain(ctx context.Context) error {
	token, exit := s.token(), s.random.IntN(120)
	res, err := s.runtime.Bash(ctx, fmt.Sprintf("echo a %[1]s; echo b %[1]s >&2; echo c %[1]s; exit %[2]d", token, exit))
	return want(res, err, fmt.Sprintf("a %[1]s\nb %[1]s\nc %[1]s\n", token), exit)
}

// longOutput checks that every byte is shown or counted.
func (s *soaker) longOutput(ctx context.Context) error {
	n := s.random.IntN(300_000)
	res, err := s.runtime.Bash(ctx, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", n))
	shown := int64(strings.Count(res.Output, "x"))
	if err != nil || res.ExitCode != 0 || shown+res.Omitted != int64(n) || res.Truncated != (n > pygent.DefaultMaxOutput) {
		return fmt.Errorf("of %d bytes %d shown, %d left out, exit code %d, note %q, error %v", n, shown, res.Omitted, res.ExitCode, res.Note, err)
	}
	return nil
}

// files checks that commands see the files that are written, and the other way
// round.
func (s *soaker) files(ctx context.Context) error {
	content := strings.Repeat(s.token()+"\n", s.random.IntN(2000))
	if err := s.runtime.WriteFile(ctx, "sub/file", []byte(content)); err != nil {
		return err
	}
	res, err := s.runtime.Bash(ctx, "cp sub/file sub/copy")
	if err := want(res, err, "", 0); err != nil {
		return err
	}
	data, err := s.runtime.ReadFile(ctx, "sub/copy")
	if err == nil && string(data) != content {
		err = fmt.Errorf("%d bytes came back of %d, or others", len(data), len(content))
	}
	return err
}

func (s *soaker) timeLimit(ctx context.Context) error {
	token := s.token()
	res, err := s.runtime.Bash(ctx, "echo "+token+"; sleep 60; echo never", pygent.BashTimeout(time.Millisecond+s.upTo(120*time.Millisecond)))
	return cutShort(res, err, token)
}

// cutShort checks the result of a command that its time limit ended. The command
// may have ended before its first line.
func cutShort(res pygent.BashResult, err error, token string) error {
	if err != nil || !res.TimedOut || res.Output != "" && !strings.HasPrefix(res.Output, token+"\n") || strings.Contains(res.Output, "never") {
		return fmt.Errorf("want %s and a time limit, got %+v and error %v", token, res, err)
	}
	return nil
}

// stubborn checks that nothing outlives a time limit.
func (s *soaker) stubborn(ctx context.Context) error {
	token := s.token()
	res, err := s.runtime.Bash(ctx, fmt.Sprintf(`echo %[1]s
trap '' TERM
setsid=
setsid true 2>/dev/null && setsid=setsid
for i in 1 2 3; do
	$setsid sh -c 'trap "" TERM; (while :; do sleep 0.05; done; : %[1]s) &' &
done
while :; do sleep 1; done`, token), pygent.BashTimeout(50*time.Millisecond+s.upTo(200*time.Millisecond)))
	if err := cutShort(res, err, token); err != nil {
		return err
	}
	res, err = s.runtime.Bash(ctx, fmt.Sprintf("grep -l '[t]%s' /proc/[0-9]*/cmdline 2>/dev/null", token[1:]))
	return want(res, err, "", res.ExitCode)
}

// cancel ends the context at any moment, even after the command.
func (s *soaker) cancel(ctx context.Context) error {
	token := s.token()
	ctx, cancel := context.WithTimeout(ctx, s.upTo(60*time.Millisecond))
	defer cancel()
	res, err := s.runtime.Bash(ctx, fmt.Sprintf("echo %s; sleep 0.0%d; exit 7", token, 1+s.random.IntN(5)))
	switch {
	case err == nil:
		return want(res, err, token+"\n", 7)
	case !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cancelled: %w", err)
	case res.Output != "" && !strings.HasPrefix(res.Output, token+"\n"):
		return fmt.Errorf("cancelled: %+v", res)
	}
	return nil
}

// background checks that nothing waits for a process that a command left behind.
func (s *soaker) background(ctx context.Context) error {
	token := s.token()
	res, err := s.runtime.Bash(ctx, "sleep 0.5 & echo "+token)
	return want(res, err, token+"\n", 0)
}

func (s *soaker) atOnce(ctx context.Context) error {
	errs := make([]error, 2+s.random.IntN(6))
	var all sync.WaitGroup
	for i := range errs {
		token := s.token()
		all.Go(func() {
			res, err := s.runtime.Bash(ctx, fmt.Sprintf("echo %s; sleep 0.02; echo %s; exit %d", token, token, i))
			errs[i] = want(res, err, token+"\n"+token+"\n", i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// kill ends the container, or the local guest, while a command runs. The command
// must report it, and the next one must work on the same workspace.
func (s *soaker) kill(ctx context.Context) error {
	token := s.token()
	if err := s.runtime.WriteFile(ctx, "kept", []byte(token)); err != nil {
		return err
	}
	end := s.killGuest
	if s.runtime.(pygent.Isolator).Isolated() {
		end = s.killContainer
	}
	if err := end(ctx); err != nil {
		return err
	}
	res, err := s.runtime.Bash(ctx, "cat kept")
	return want(res, err, token, 0)
}

func (s *soaker) killContainer(ctx context.Context) error {
	res, err := s.runtime.Bash(ctx, "cat /proc/sys/kernel/hostname")
	if err != nil {
		return err
	}
	id := strings.TrimSpace(res.Output)
	killed := make(chan error, 1)
	time.AfterFunc(s.upTo(30*time.Millisecond), func() { killed <- s.engine.ContainerKill(ctx, id, "KILL") })
	res, err = s.runtime.Bash(ctx, "sleep 60", pygent.BashTimeout(50*time.Second))
	if err := <-killed; err != nil {
		return err
	}
	if err != nil || res.ExitCode != -1 || !strings.Contains(res.Note, "container died") {
		return fmt.Errorf("the container was killed: %+v, %v", res, err)
	}
	return nil
}

// killGuest makes a command kill its guest: the ancestor of the command that is a
// child of this process.
func (s *soaker) killGuest(ctx context.Context) error {
	res, err := s.runtime.Bash(ctx, fmt.Sprintf(`p=$$
while read -r _ _ _ parent _ </proc/$p/stat && [ "$parent" != %d ]; do p=$parent; done
kill -9 $p; sleep 60`, os.Getpid()), pygent.BashTimeout(50*time.Second))
	if err != nil || res.ExitCode != -1 || !strings.Contains(res.Note, "died while the command ran") {
		return fmt.Errorf("the guest was killed: %+v, %v", res, err)
	}
	return nil
}

// renew cleans the runtime up while a command runs, and makes a new one.
func (s *soaker) renew(ctx context.Context) (err error) {
	ended := make(chan error, 1)
	old := s.runtime
	go func() {
		_, err := old.Bash(ctx, "sleep 60")
		ended <- err
	}()
	time.Sleep(s.upTo(20 * time.Millisecond)) // at a random moment of the command
	err = old.Cleanup()
	if running := <-ended; !errors.Is(running, pygent.ErrRuntimeClosed) {
		err = errors.Join(err, fmt.Errorf("cleaned up: %w", running))
	}
	if err != nil {
		return err
	}
	s.runtime, err = soakRuntime(ctx, s.engine, s.kind)
	return err
}
