package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/workspace"
)

// refusing is a commander of an engine that has an image of an architecture, and makes no
// container, for a reason in which DIR is the workspace, and no volume. told are the events, and asked what the engine was
// asked to make.
func refusing(t *testing.T, config Config, arch, reason string) (c *commander, told func() []sandbox.Event, asked func() []string) {
	t.Helper()
	dir := t.TempDir()
	reason = strings.ReplaceAll(reason, "DIR", dir)
	config.Owner = owner.Open(t.TempDir(), owner.ThisPlace())
	var mu sync.Mutex
	var made []string
	var events []sandbox.Event
	engine, err := client.NewClientWithOpts(client.WithHost("tcp://"+strings.ReplaceAll(t.Name(), "/", "-")), client.WithHTTPClient(&http.Client{
		Transport: answering(func(r *http.Request) (*http.Response, error) {
			answer := func(status int, text string) (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
			}
			if strings.Contains(r.URL.Path, "/images/") {
				return answer(http.StatusOK, `{"Id":"sha256:1","Os":"linux","Architecture":"`+arch+`"}`)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range []string{owner.Container, owner.Volume} {
				if !strings.HasSuffix(r.URL.Path, "/"+kind+"s/create") {
					continue
				}
				var is struct {
					Name   string
					Labels map[string]string
				}
				err := json.NewDecoder(r.Body).Decode(&is)
				if name := cmp.Or(is.Name, r.URL.Query().Get("name")); err != nil || !config.Owner.Proved(kind, name, is.Labels) {
					kind += " that nobody may remove"
				}
				made = append(made, kind)
			}
			return answer(http.StatusBadRequest, `{"message":"`+reason+`"}`)
		}),
	}))
	require.NoError(t, err)
	tree, err := workspace.Open(dir, Workspace)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tree.Close()) })
	shared := true
	config.Workspace, config.Image, config.SharedFiles, config.NoSocket = dir, "image", &shared, true
	c = newCommander(config, engine, sandbox.Workspace{Tree: tree}, nil)
	t.Cleanup(c.end)
	c.spec.hostOwner.Since = math.MaxInt64
	c.emit = func(e sandbox.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	told = func() []sandbox.Event { mu.Lock(); defer mu.Unlock(); return events }
	asked = func() []string { mu.Lock(); defer mu.Unlock(); return made }
	return c, told, asked
}

// Only an engine that says that it does not see the workspace gets a copy of it in a volume,
// and none that was known to see it: what it would have then is not what commands had.
func TestWhichEnginesGetACopyOfTheWorkspace(t *testing.T) {
	newCache(t)
	const unseen = "bind source path does not exist: DIR"
	for name, tt := range map[string]struct {
		config  Config
		arch    string
		reason  string
		proved  bool
		outside bool // the repository is outside of the workspace
		err     string
		asked   []string
		shared  bool // may still see the workspace
		told    int
	}{
		"it does not see it":       {Config{}, "amd64", unseen, false, false, "create a volume", []string{owner.Container, owner.Volume}, false, 0},
		"nor the repository":       {Config{}, "amd64", unseen, false, true, "create a volume", []string{owner.Container, owner.Volume}, false, 1},
		"it was seen before":       {Config{}, "amd64", unseen, true, false, errNotShared.Error(), []string{owner.Container}, true, 0},
		"it has another reason":    {Config{}, "amd64", "no such device", false, false, "no such device", []string{owner.Container}, true, 0},
		"it could not use a copy":  {Config{NoGuest: true}, "amd64", unseen, false, false, "pygent has no guest", []string{owner.Container}, false, 0},
		"nor on that architecture": {Config{}, "sparc", unseen, false, false, `"image" is for linux/sparc`, []string{owner.Container}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, told, asked := refusing(t, tt.config, tt.arch, tt.reason)
			if tt.outside {
				c.spec.view.repository = []mount.Mount{{Type: mount.TypeBind, Source: "/elsewhere", Target: "/elsewhere"}}
			}
			c.proved = tt.proved
			box, err := c.launch(t.Context(), owner.NamePrefix+c.spec.id+"-1", func(string) {})
			require.ErrorContains(t, err, tt.err)
			require.Nil(t, box)
			require.Equal(t, tt.asked, asked())
			require.Equal(t, tt.shared, c.shared)
			require.Len(t, told(), tt.told)
			list, err := os.ReadDir(c.files.tree.Dir())
			require.NoError(t, err)
			require.Empty(t, list, "nothing is left in the workspace")
			if c.config.program(info(tt.arch)) != nil && !tt.proved {
				require.Less(t, c.spec.hostOwner.Since, int64(math.MaxInt64), "by the clock of its file system")
			}
		})
	}
}

func info(arch string) image.InspectResponse {
	return image.InspectResponse{Os: "linux", Architecture: arch}
}

// A container is not even asked for where its workspace has gone, or where nobody waits for
// it any more.
func TestAStartThatCannotBeginMakesNothing(t *testing.T) {
	newCache(t)
	c, _, asked := refusing(t, Config{}, "amd64", "")
	require.NoError(t, os.Remove(c.files.tree.Dir()))
	_, err := c.launch(t.Context(), owner.NamePrefix+c.spec.id+"-1", func(string) {})
	require.ErrorContains(t, err, "probe the workspace")
	require.Empty(t, asked())

	c, _, asked = refusing(t, Config{}, "amd64", "")
	for range startsAtOnce {
		free, err := awaitTurn(t.Context(), c.engine)
		require.NoError(t, err)
		defer free()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.launch(ctx, "pygent-x-1", func(string) {})
	require.Error(t, err)
	require.Empty(t, asked())
}
