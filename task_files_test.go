package pygent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskLogDropsDeltasFirst(t *testing.T) {
	var l taskLog
	for i := range 3 * maxTaskEvents {
		kind := EventText
		if i%4 == 0 {
			kind = EventMessage
		}
		require.EqualValues(t, i+1, l.append(Event{Type: kind}))
	}
	events, _ := l.after(0)
	require.LessOrEqual(t, len(events), maxTaskEvents)
	kept := 0
	for i, e := range events {
		if i > 0 {
			require.Greater(t, e.Seq, events[i-1].Seq)
		}
		if e.Type == EventMessage {
			kept++
		}
	}
	require.Greater(t, kept, maxTaskEvents/2)
	tail, more := l.after(l.last() - 1)
	require.Len(t, tail, 1)
	select {
	case <-more:
		t.Fatal("there is nothing new")
	default:
	}
	l.append(Event{Type: EventStep})
	<-more
}
