package pygent

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventQueueKeepsTheOrder(t *testing.T) {
	q := newEventQueue()
	const n = 1000
	go func() {
		defer q.close()
		for i := range n {
			q.put(Event{Type: EventNotice, Step: i})
		}
	}()
	for i := range n {
		e, ok := q.take()
		require.True(t, ok)
		require.Equal(t, i, e.Step)
	}
	_, ok := q.take()
	require.False(t, ok)
}

func TestFullEventQueueDropsDeltasAlone(t *testing.T) {
	q := newEventQueue()
	for range maxQueuedDeltas {
		q.put(Event{Type: EventText})
	}
	q.put(Event{Type: EventText, Text: "dropped"})
	q.put(Event{Type: EventReasoning, Text: "dropped"})
	kept := []EventType{EventStep, EventMessage, EventToolCall, EventToolDone, EventRetry, EventNotice, EventWarning, EventRuntime, EventRunEnd}
	for _, typ := range kept {
		q.put(Event{Type: typ})
	}
	for range maxQueuedDeltas {
		e, _ := q.take()
		require.Empty(t, e.Text)
	}
	for _, typ := range kept {
		e, _ := q.take()
		require.Equal(t, typ, e.Type)
	}
	q.put(Event{Type: EventText, Text: "room again"})
	e, _ := q.take()
	require.Equal(t, "room again", e.Text)
}

func TestClosedEventQueueGivesWhatItHolds(t *testing.T) {
	q := newEventQueue()
	q.put(Event{Step: 1})
	q.close()
	e, ok := q.take()
	require.True(t, ok)
	require.Equal(t, 1, e.Step)
	for range 2 {
		_, ok = q.take()
		require.False(t, ok)
	}
}

func TestDrainWaitsForTheClose(t *testing.T) {
	q := newEventQueue()
	var producers sync.WaitGroup
	for i := range 4 {
		producers.Go(func() {
			for j := range 1000 {
				q.put(Event{Type: EventText, Text: fmt.Sprint(i, j)})
			}
		})
	}
	go func() {
		producers.Wait()
		q.close()
	}()
	q.drain()
	require.Empty(t, q.events)
	require.True(t, q.closed)
}

func TestBothHandlers(t *testing.T) {
	require.Nil(t, bothHandlers(nil, nil))
	var seen []string
	f := func(e Event) { seen = append(seen, "f"+e.Text) }
	g := func(e Event) { seen = append(seen, "g"+e.Text) }
	bothHandlers(f, nil)(Event{Text: "1"})
	bothHandlers(nil, g)(Event{Text: "2"})
	bothHandlers(f, g)(Event{Text: "3"})
	require.Equal(t, []string{"f1", "g2", "f3", "g3"}, seen)
}
