package docker

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
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
