package docker

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// answeredBy returns an engine without a connection that answers with a status and JSON.
func answeredBy(t *testing.T, answer func(method, path string) (status int, body string)) *client.Client {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.WithHost("tcp://"+t.Name()), client.WithHTTPClient(&http.Client{
		Transport: answering(func(r *http.Request) (*http.Response, error) {
			status, body := answer(r.Method, r.URL.Path)
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Content-Type": {"application/json"}}, Request: r}, nil
		}),
	}))
	require.NoError(t, err)
	return engine
}

func TestAVolumeIsRemovedOnceTheEngineHasReleasedIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inUse  int // answers that it is in use, before it is removed
		users  string
		gone   bool          // whether it is removed
		waited time.Duration // until there is an answer
	}{
		"nothing uses it":              {0, `[]`, true, 0},
		"a container that is gone":     {2, `[]`, true, 2 * askAgain},
		"one that is being removed":    {1, `[{"State":"removing"}]`, true, askAgain},
		"another container":            {1, `[{"State":"removing"},{"State":"exited"}]`, false, 0},
		"the engine does not say":      {1, ``, false, 0},
		"the engine never releases it": {1000, `[]`, false, releaseTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, asked := time.Now(), 0
				engine := answeredBy(t, func(method, path string) (int, string) {
					switch {
					case method == http.MethodGet && strings.HasSuffix(path, "/containers/json"):
						return http.StatusOK, tt.users
					case method != http.MethodDelete || !strings.HasSuffix(path, "/volumes/v"):
						return http.StatusInternalServerError, `{"message":"not asked for"}`
					}
					if asked++; asked <= tt.inUse {
						return http.StatusConflict, `{"message":"remove v: volume is in use - [c]"}`
					}
					return http.StatusNoContent, ""
				})
				err := removeVolume(t.Context(), engine, "v", true)
				require.Equal(t, tt.waited, time.Since(begun))
				if tt.gone {
					require.NoError(t, err)
					return
				}
				require.True(t, errdefs.IsConflict(err), "%v", err)
			})
		})
	}
}

func TestARemovalThatTheEngineFailsAtIsAnError(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]string{
		`{"StatusCode":0}`: "",
		`{"StatusCode":0,"Error":{"Message":"unable to remove filesystem"}}`: "unable to remove filesystem",
	} {
		engine := answeredBy(t, func(method, _ string) (int, string) {
			if method == http.MethodDelete {
				return http.StatusConflict, `{"message":"removal of container c is already in progress"}`
			}
			return http.StatusOK, end
		})
		err := removeContainer(context.Background(), engine, "c")
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}
