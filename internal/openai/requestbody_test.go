package openai

import (
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// allocated returns how many bytes f allocates, the least of several times, since
// something else may allocate at the same time.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

func TestARequestTakesNoMoreMemoryForALongConversation(t *testing.T) {
	for _, api := range []Protocol{Chat, Responses} {
		m := testClient(t, Config{Protocol: api, SendReasoning: api == Chat})
		cost := func(n int) uint64 {
			req := &Request{Messages: list(longConversation(n))}
			return allocated(func() {
				body, err := m.requestBody(req, "m", adaptation{}, true)
				require.NoError(t, err)
				for range 3 { // as for another connection, or after a redirect
					n, err := io.Copy(io.Discard, struct{ io.Reader }{body.open()})
					require.NoError(t, err)
					require.EqualValues(t, body.size, n)
				}
			})
		}
		short := cost(10)
		// The buffers of io.Discard, of 8 KiB, are in a pool that may be emptied meanwhile. A
		// copy of the conversation would be of megabytes.
		require.Less(t, cost(5000), short+(64<<10))
	}
}

func TestABodyIsReadFromItsBeginningAsOftenAsWanted(t *testing.T) {
	m := testClient(t, Config{})
	body, err := m.requestBody(&Request{Messages: list(longConversation(100))}, "m", adaptation{}, true)
	require.NoError(t, err)
	whole, err := io.ReadAll(body.open())
	require.NoError(t, err)
	require.True(t, json.Valid(whole))
	half := body.open()
	_, err = io.ReadFull(half, make([]byte, body.size/2))
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 { // as a transport does that gives up one connection and begins with another
		all.Go(func() {
			again, err := io.ReadAll(body.open())
			if err != nil || string(again) != string(whole) {
				t.Errorf("read %d of %d bytes: %v", len(again), len(whole), err)
			}
		})
	}
	rest, err := io.ReadAll(half)
	require.NoError(t, err)
	require.Equal(t, string(whole[body.size/2:]), string(rest))
	all.Wait()
}

func TestABodyIsNotReadAfterItsEnd(t *testing.T) {
	m := testClient(t, Config{})
	body, err := m.requestBody(&Request{Messages: list(longConversation(10))}, "m", adaptation{}, true)
	require.NoError(t, err)
	one, other := body.open(), body.open()
	require.NoError(t, one.Close())
	_, err = one.Read(make([]byte, 1))
	require.ErrorIs(t, err, errBodyClosed)
	_, err = other.Read(make([]byte, 1))
	require.NoError(t, err)
	body.close()
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(t, err, errBodyClosed)
	_, err = body.open().Read(make([]byte, 1))
	require.ErrorIs(t, err, errBodyClosed)
}

func TestARequestBeginsAsItsOwnToolsAndSettingsSay(t *testing.T) {
	m := testClient(t, Config{Extra: map[string]any{"temperature": 0.5}})
	begins := func(tools []Tool, name string, a adaptation, stream bool) string {
		head, err := m.requestHead(&Request{Tools: tools}, name, a, stream)
		require.NoError(t, err)
		again, err := m.requestHead(&Request{Tools: tools}, name, a, stream)
		require.NoError(t, err)
		require.Same(t, &head[0], &again[0])
		fresh, err := m.encodeHead(&Request{Tools: tools}, name, a, stream)
		require.NoError(t, err)
		require.Equal(t, string(fresh), string(head))
		return string(head)
	}
	tools := []Tool{{Name: "a", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "b"}}
	seen := map[string]bool{
		begins(nil, "m", adaptation{}, false):                                                   true,
		begins(tools, "m", adaptation{}, false):                                                 true,
		begins(tools, "n", adaptation{}, false):                                                 true,
		begins(tools, "n", adaptation{}, true):                                                  true,
		begins(tools, "n", adaptation{emptySchema: true}, true):                                 true,
		begins(tools, "n", adaptation{dropped: map[string]bool{"temperature": true}}, true):     true,
		begins(tools, "n", adaptation{renamed: map[string]string{"temperature": "heat"}}, true): true,
		begins(tools, "n", adaptation{noEffort: true}, true):                                    true,
		begins(tools, "n", adaptation{responses: true}, false):                                  true,
	}
	tools[0].Parameters[2] = 'T' // the caller's own may change
	seen[begins(tools, "n", adaptation{responses: true}, false)] = true
	tools[1].Description = "B."
	seen[begins(tools, "n", adaptation{responses: true}, false)] = true
	require.Len(t, seen, 11)
}
