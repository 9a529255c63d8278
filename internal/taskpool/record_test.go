package taskpool_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

func claim(t *testing.T, l *taskpool.Ledger[string], id string, up *taskpool.Record[string]) *taskpool.Record[string] {
	t.Helper()
	r := taskpool.NewRecord(id, up, "value of "+id)
	require.Nil(t, l.Claim(r))
	return r
}

func TestAnIDIsClaimedOnce(t *testing.T) {
	var l taskpool.Ledger[string]
	one := claim(t, &l, "1", nil)
	require.Same(t, one, l.Claim(taskpool.NewRecord("1", nil, "")))
	select {
	case <-one.Started():
		t.Fatal("its start is not over")
	default:
	}
	l.EndStart(one, errors.New("no room"))
	<-one.Started()
	require.EqualError(t, one.StartError(), "no room")
	require.Nil(t, l.Record("1"))
	again := claim(t, &l, "1", nil)
	l.EndStart(again, nil)
	l.Forget(one)
	require.Same(t, again, l.Record("1"), "it is another one")
	require.Len(t, l.Records(), 1)
}

func TestChildrenAreThoseThatAreKnown(t *testing.T) {
	var l taskpool.Ledger[string]
	lead := claim(t, &l, "lead", nil)
	for _, id := range []string{"1", "2", "3"} {
		claim(t, &l, id, lead)
	}
	children := l.Children(lead)
	l.Forget(l.Record("2"))
	l.Forget(l.Record("nobody"))
	require.Equal(t, []string{"1", "2", "3"}, children)
	require.Equal(t, []string{"1", "3"}, l.Children(lead))
}

func TestOneFollowerHandlesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l taskpool.Ledger[string]
		var wg sync.WaitGroup
		one := claim(t, &l, "1", nil)
		goOn, reads := make(chan struct{}), 0
		read := func(r *taskpool.Record[string]) {
			require.Same(t, one, r)
			reads++
			for n := int64(1); ; n++ {
				if _, ok := <-goOn; !ok {
					return
				}
				l.Handled(r, n)
			}
		}
		l.Follow("1", wg.Go, read)
		l.Follow("1", wg.Go, read)
		l.Follow("nobody", wg.Go, read)
		synctest.Wait()
		first, second := l.Unhandled("1", 1), l.Unhandled("1", 2)
		require.NotNil(t, second)
		goOn <- struct{}{}
		<-first
		require.Nil(t, l.Unhandled("1", 1))
		goOn <- struct{}{}
		synctest.Wait()
		require.Nil(t, l.Unhandled("1", 2))
		require.NotNil(t, l.Unhandled("1", 3))
		l.Close()
		require.NotNil(t, l.Unhandled("1", 3), "it may still come")
		close(goOn)
		wg.Wait()
		require.Nil(t, l.Unhandled("1", 3), "nobody will handle it")
		l.Follow("1", wg.Go, read)
		wg.Wait()
		require.Equal(t, 1, reads)
	})
}

func TestWhoWaitsHearsOfARemoval(t *testing.T) {
	var l taskpool.Ledger[string]
	claim(t, &l, "1", nil)
	waiting := l.Unhandled("1", 1)
	l.Forget(l.Record("1"))
	<-waiting
	require.Nil(t, l.Unhandled("1", 1))
}
