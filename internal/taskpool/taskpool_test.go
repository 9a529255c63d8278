package taskpool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

type message string

func (m message) Size() int   { return len(m) }
func (m message) Early() bool { return strings.HasPrefix(string(m), "early") }

// task records what a crew does with it.
type task struct {
	ignores bool // if true, a run ignores the end of its context
	granted error

	mu     sync.Mutex
	rests  bool
	heard  []string
	goOn   chan struct{} // a value ends a run, and so does closing it
	asking bool
	parks  chan struct{} // if set, parking waits until it is closed
}

func newTask() *task { return &task{rests: true, goOn: make(chan struct{})} }

func (k *task) note(what string, rests bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard, k.rests = append(k.heard, what), rests
}

func (k *task) notes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.heard)
}

func (k *task) AtRest() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rests
}

func (k *task) Grant(first bool) (int, error) {
	k.note(fmt.Sprint("grant ", first), k.rests)
	return 1, k.granted
}
func (k *task) Wait() { k.note("wait", false) }
func (k *task) Begin(n int64) {
	what := "begin"
	if n > 0 {
		what = fmt.Sprint("begin ", n)
	}
	k.note(what, false)
}
func (k *task) Waiting(n int)    { k.note(fmt.Sprint("waiting ", n), false) }
func (k *task) Refuse(err error) { k.note(err.Error(), true) }
func (k *task) Stop(cause error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heard[len(k.heard)-1] == "wait" {
		k.rests = true
	}
	k.heard = append(k.heard, "stop: "+cause.Error())
	return k.asking
}
func (k *task) Park() {
	if k.parks != nil {
		<-k.parks
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = append(k.heard, "park")
}
func (k *task) Close() error  { k.note("close", true); return nil }
func (k *task) Abandon() bool { return !k.AtRest() }

func (k *task) Run(ctx context.Context, msg message, _ int, ended func(func(bool))) {
	select {
	case <-k.goOn:
	case <-k.end(ctx):
	}
	ended(func(more bool) { k.note("ran "+string(msg), !more) })
}

func (k *task) end(ctx context.Context) <-chan struct{} {
	if k.ignores {
		return nil
	}
	return ctx.Done()
}

var errOver = errors.New("over")

func named(id string, err error) error { return fmt.Errorf("%s: %w", id, err) }

func known(*task) error { return errors.New("known") }

func start(t *testing.T, c *taskpool.Crew[*task, int, message], id string, queues bool) *task {
	t.Helper()
	k := newTask()
	require.NoError(t, c.Start(context.Background(), id, k, queues, "go", known))
	return k
}

// errOf returns the error of a call that returns a value as well.
func errOf[T any](_ T, err error) error { return err }

func closeCrew(t *testing.T, c *taskpool.Crew[*task, int, message]) {
	t.Helper()
	left, err := c.Close(errOver, named)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestTasksWaitForRoomInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one, two, three := start(t, c, "1", true), start(t, c, "2", true), start(t, c, "3", true)
		require.ErrorIs(t, c.Start(context.Background(), "4", newTask(), false, "go", known), taskpool.ErrNoRoom)
		require.ErrorContains(t, c.Start(context.Background(), "1", newTask(), true, "go", known), "known")
		require.Equal(t, []string{"grant true", "begin"}, one.notes())
		require.Equal(t, []string{"wait"}, two.notes())
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"wait", "begin", "grant true"}, two.notes())
		require.Equal(t, []string{"wait"}, three.notes())
		two.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"wait", "begin", "grant true"}, three.notes())
		closeCrew(t, c)
		require.Equal(t, []string{"wait", "begin", "grant true", "stop: over", "ran go", "close"}, three.notes())
		require.ErrorIs(t, c.Start(context.Background(), "5", newTask(), true, "go", known), taskpool.ErrClosed)
	})
}

func TestTaskThatWaitsIsCancelledAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one, two := start(t, c, "1", true), start(t, c, "2", true)
		parked, err := c.Cancel("2", "a", errOver)
		require.NoError(t, err)
		<-parked
		require.NoError(t, errOf(c.Message(context.Background(), "2", "b", "more")), "it rests")
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"wait", "stop: over", "wait", "begin 1", "grant true"}, two.notes(), "once, and first")
		two.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, "ran more", two.notes()[5])
		closeCrew(t, c)
	})
}

func TestRunThatWaitedMayBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", true)
		two := newTask()
		two.granted = errors.New("nothing is left")
		require.NoError(t, c.Start(context.Background(), "2", two, true, "go", known))
		three := start(t, c, "3", true)
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"wait", "begin", "grant true", "waiting 1", "nothing is left"}, two.notes(), "its message waits for better times")
		require.Len(t, three.notes(), 3, "it has the room")
		require.Error(t, c.Start(context.Background(), "4", &task{granted: errOver}, false, "go", known))
		closeCrew(t, c)
	})
}

func TestInputsAreTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", false)
		one.goOn <- struct{}{}
		synctest.Wait()
		require.NoError(t, errOf(c.Message(context.Background(), "1", "a", "more")))
		require.NoError(t, errOf(c.Message(context.Background(), "1", "a", "more")))
		told := 0
		for range 2 {
			require.NoError(t, c.Tell("1", "b", func(*task) error { told++; return nil }))
		}
		require.Equal(t, 1, told)
		require.ErrorIs(t, errOf(c.Message(context.Background(), "2", "a", "more")), taskpool.ErrUnknown)
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"grant true", "begin", "ran go", "grant false", "begin 1", "ran more"}, one.notes())
		closeCrew(t, c)
	})
}

func TestQuestionIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", false)
		one.goOn <- struct{}{}
		synctest.Wait()
		one.asking = true
		parked, err := c.Cancel("1", "a", errOver)
		require.NoError(t, err)
		<-parked
		require.Contains(t, one.notes(), "park")
		closeCrew(t, c)
	})
}

func TestARunWaitsUntilTheTaskIsParked(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*task, *taskpool.Crew[*task, int, message])
		want []string
	}{
		"it goes on when that is done": {func(k *task, _ *taskpool.Crew[*task, int, message]) {
			close(k.parks)
			k.goOn <- struct{}{}
		}, []string{"grant false", "begin 1", "park", "ran more"}},
		"it is cancelled before": {func(k *task, c *taskpool.Crew[*task, int, message]) {
			k.asking = false
			require.NoError(t, errOf(c.Cancel("1", "c", errOver)))
			synctest.Wait()
			close(k.parks)
		}, []string{"grant false", "begin 1", "stop: over", "ran more", "park"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := taskpool.New[*task](1)
				one := start(t, c, "1", false)
				one.goOn <- struct{}{}
				synctest.Wait()
				one.asking, one.parks = true, make(chan struct{})
				parked, err := c.Cancel("1", "a", errOver)
				require.NoError(t, err)
				require.NoError(t, errOf(c.Message(context.Background(), "1", "b", "more")))
				tt.then(one, c)
				synctest.Wait()
				require.Equal(t, tt.want, one.notes()[4:])
				<-parked
				closeCrew(t, c)
			})
		})
	}
}

func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", false)
		same := func(err error) error { return err }
		_, err := c.Remove(t.Context(), "1", same)
		require.ErrorIs(t, err, taskpool.ErrRunning)
		one.goOn <- struct{}{}
		synctest.Wait()
		closed, err := c.Remove(t.Context(), "1", same)
		require.NoError(t, err)
		require.NoError(t, <-closed)
		require.Empty(t, c.Tasks())
		_, err = c.Task("1")
		require.ErrorIs(t, err, taskpool.ErrUnknown)
		closeCrew(t, c)
	})
}

func TestCloseLeavesBehindWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](2)
		deaf := newTask()
		deaf.ignores = true
		require.NoError(t, c.Start(context.Background(), "deaf", deaf, false, "go", known))
		start(t, c, "1", false)
		left, err := c.Close(errOver, named)
		require.NoError(t, err)
		require.Equal(t, taskpool.Left{Runs: []string{"deaf"}}, left)
		close(deaf.goOn)
		synctest.Wait()
	})
}

func TestMessagesWaitUntilTheTaskRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one, other := start(t, c, "1", true), start(t, c, "2", true)
		for i, want := range []int64{1, 2, 2} {
			n, err := c.Message(context.Background(), "1", fmt.Sprint("id", min(i, 1)), message(fmt.Sprint("message ", i+1)))
			require.NoError(t, err)
			require.Equal(t, want, n, "a repeated one has its number")
		}
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"grant true", "begin", "waiting 1", "waiting 2", "ran go", "waiting 1", "wait"}, one.notes(),
			"it waits like the others")
		other.goOn <- struct{}{}
		synctest.Wait()
		one.goOn <- struct{}{}
		synctest.Wait()
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"begin 1", "grant false", "ran message 1", "waiting 0", "begin 2", "grant false", "ran message 2"}, one.notes()[7:])
		require.True(t, one.AtRest())
		closeCrew(t, c)
	})
}

func TestCancelDropsTheMessagesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := newTask()
		one.ignores = true // so that it still runs when the last message comes
		require.NoError(t, c.Start(context.Background(), "1", one, true, "go", known))
		require.NoError(t, errOf(c.Message(context.Background(), "1", "a", "more")))
		require.NoError(t, errOf(c.Cancel("1", "b", errOver)))
		require.NoError(t, errOf(c.Message(context.Background(), "1", "c", "after all")), "sent after the cancel")
		synctest.Wait()
		close(one.goOn)
		synctest.Wait()
		require.Equal(t, []string{"begin", "waiting 1", "waiting 0", "stop: over", "waiting 1", "ran go", "waiting 0", "begin 2", "grant false", "ran after all"}, one.notes()[1:])
		closeCrew(t, c)
	})
}

func TestARunThatWasAskedToEndHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := newTask()
		one.ignores = true // so that it still runs when the message comes
		require.NoError(t, c.Start(context.Background(), "1", one, true, "go", known))
		require.NoError(t, errOf(c.Cancel("1", "a", errOver)))
		require.ErrorIs(t, errOf(c.Message(context.Background(), "1", "b", "early")), taskpool.ErrStopping)
		close(one.goOn)
		synctest.Wait()
		require.NoError(t, errOf(c.Message(context.Background(), "1", "c", "early")), "it rests, and begins anew")
		synctest.Wait()
		require.Equal(t, "ran early", one.notes()[len(one.notes())-1])
		closeCrew(t, c)
	})
}

func TestMessagesThatWaitAreLimited(t *testing.T) {
	for text, most := range map[message]int{"more": 100, message(make([]byte, taskpool.MaxMailBytes/4)): 4} {
		synctest.Test(t, func(t *testing.T) {
			c := taskpool.New[*task](1)
			start(t, c, "1", true)
			for i := range most {
				require.NoError(t, errOf(c.Message(context.Background(), "1", fmt.Sprint(i), text)))
			}
			require.ErrorIs(t, errOf(c.Message(context.Background(), "1", "last", text)), taskpool.ErrMailFull)
			closeCrew(t, c)
		})
	}
}

func TestAMessageIsNotLostWhenItsRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", false)
		require.NoError(t, errOf(c.Message(context.Background(), "1", "a", "more")))
		one.granted = errors.New("nothing is left")
		one.goOn <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"waiting 0", "begin 1", "grant false", "waiting 1", "nothing is left"}, one.notes()[4:])
		require.Error(t, errOf(c.Message(context.Background(), "1", "b", "and more")), "it is not accepted")
		one.granted = nil
		require.NoError(t, errOf(c.Message(context.Background(), "1", "c", "and more")))
		close(one.goOn)
		synctest.Wait()
		var ran []string
		for _, note := range one.notes() {
			if strings.HasPrefix(note, "ran ") {
				ran = append(ran, note)
			}
		}
		require.Equal(t, []string{"ran go", "ran more", "ran and more"}, ran)
		closeCrew(t, c)
	})
}

func TestARunHearsEarlyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskpool.New[*task](1)
		one := start(t, c, "1", false)
		for i, m := range []message{"early a", "later", "early b"} {
			require.NoError(t, errOf(c.Message(context.Background(), "1", fmt.Sprint(i), m)))
		}
		heard, last := c.Hear("1")
		require.Equal(t, []message{"early a", "early b"}, heard)
		require.EqualValues(t, 3, last)
		heard, _ = c.Hear("1")
		require.Empty(t, heard)
		heard, _ = c.Hear("nobody")
		require.Empty(t, heard)
		require.NoError(t, errOf(c.Message(context.Background(), "1", "3", "early c")))
		close(one.goOn)
		synctest.Wait()
		require.Equal(t, "ran early c", one.notes()[len(one.notes())-1], "what a run did not hear is the next one's")
		closeCrew(t, c)
	})
}
