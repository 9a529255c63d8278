package progress_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyTheLastOfAnIntervalIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var passed []int
		got := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(passed)
		}
		p := progress.NewThrottle(time.Second, func(n int) {
			mu.Lock()
			defer mu.Unlock()
			passed = append(passed, n)
		})
		for n := range 10 {
			p.Put(n)
		}
		require.Equal(t, []int{0}, got())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{0, 9}, got())
		time.Sleep(2 * time.Second)
		p.Put(10)
		p.Put(11)
		p.End()
		p.Put(12)
		p.End()
		time.Sleep(2 * time.Second)
		require.Equal(t, []int{0, 9, 10, 11}, got())
	})
}

func TestPaceIsSafeForConcurrentUse(t *testing.T) {
	passed := 0
	p := progress.NewThrottle(time.Microsecond, func(int) { passed++ })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range 200 {
				p.Put(n)
			}
		})
	}
	all.Wait()
	p.End()
	require.Positive(t, passed)
}
