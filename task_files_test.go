package pygent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreStoredOncePerContent(t *testing.T) {
	rt, err := NewLocalRuntime(t.Context())
	require.NoError(t, err)
	defer rt.Cleanup()
	require.NoError(t, rt.WriteFile(t.Context(), "d/f", []byte("x")))
	var store taskFiles
	one, err := store.collect(t.Context(), rt, []string{"d/f"})
	require.NoError(t, err)
	absolute := rt.(Describer).Describe(t.Context()).Workspace + "/d/f"
	two, err := store.collect(t.Context(), rt, []string{absolute})
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.True(t, strings.HasPrefix(one, "sha256:"))
	store.release(one)
	require.FileExists(t, store.path(two))
	path := store.path(two)
	store.release(two)
	require.NoFileExists(t, path)
	dir := store.dir
	require.NoError(t, store.close())
	require.NoDirExists(t, dir)
}

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
