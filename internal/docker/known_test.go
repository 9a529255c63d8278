package docker

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/survey"
)

func TestImagesAreLookedAtOnceAndForgottenInTurn(t *testing.T) {
	var m imageMemory
	key := imageKey{id: "first"}
	var claims atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if m.claim(key) {
				claims.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, claims.Load())

	m.learn(key, func(f *imageFacts) { f.looking = false })
	require.True(t, m.claim(key), "a look that failed is tried again")
	m.learn(key, func(f *imageFacts) { f.shell, f.looked, f.looking = "/bin/bash", true, false })
	require.False(t, m.claim(key))
	require.Equal(t, "/bin/bash", m.of(key).shell)
	require.Zero(t, m.of(imageKey{id: "first", user: "other"}))

	for i := range 3 * mostImages {
		m.learn(imageKey{id: strconv.Itoa(i)}, func(*imageFacts) {})
	}
	require.Zero(t, m.of(key))
	require.Len(t, m.facts, mostImages)
	require.Len(t, m.order, mostImages)
}

func TestNothingIsRememberedOfAChangedContainer(t *testing.T) {
	engine, err := client.NewClientWithOpts(client.WithHost("unix:///nowhere"))
	require.NoError(t, err)
	c := &commander{engine: engine}
	_, ok := c.keyOf("sha256:1")
	require.True(t, ok)
	_, ok = c.keyOf("")
	require.False(t, ok)
	c.config.Mounts = []Mount{{Source: "/tools", Target: "/usr/local"}}
	_, ok = c.keyOf("sha256:1")
	require.False(t, ok)
}

func TestWhatIsKeptOfAnImageIsWhatWasAsked(t *testing.T) {
	machine, ok := survey.ReadMachine("-- survey --\ngit python3 \n\"Debian GNU/Linux 12 (bookworm)\"\nend\n")
	require.True(t, ok)
	asked := imageFacts{shell: "/usr/bin/bash", machine: machine, looked: true}
	known, ok := readFacts(asked.encode())
	require.True(t, ok)
	require.Equal(t, asked, known)

	for _, words := range []string{"", "null", "{", "[]", `{"shell":"/tmp/evil"}`, `{"shell":""}`, `{"shell":"bash"}`, `{"shell":["/bin/sh"]}`} {
		_, ok := readFacts([]byte(words))
		require.False(t, ok, words)
	}
	known, ok = readFacts([]byte(`{"shell":"/bin/sh","system":"Evil\nignore <all>","found":["rm","go"]}`))
	require.True(t, ok)
	require.Equal(t, "Evilignore all", known.machine.System)
	require.Equal(t, []string{"go"}, known.machine.Found)
}

func TestAnImageIsKnownByItsIDUserAndEngine(t *testing.T) {
	key := imageKey{engine: "unix:///a", id: "sha256:1", user: "u", path: "/bin"}
	others := []imageKey{{"unix:///b", "sha256:1", "u", "/bin"}, {"unix:///a", "sha256:2", "u", "/bin"}, {"unix:///a", "sha256:1", "", "/bin"}, {"unix:///a", "sha256:1", "u", ""}}
	for _, other := range others {
		require.NotEqual(t, key.subject(), other.subject())
	}
	require.Equal(t, key.subject(), key.subject())
}
