package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

const key = "sk-secret-of-the-test"

// examine makes the checks of a configuration and returns their findings by name.
func examine(t *testing.T, cfg pygent.Config, askModel bool) map[string]Finding {
	t.Helper()
	found := map[string]Finding{}
	var order []string
	require.NoError(t, Examine(t.Context(), cfg, askModel, func(f Finding) {
		require.NotContains(t, f.String(), key)
		require.NotContains(t, f.String(), "\n")
		found[f.Check] = f
		order = append(order, f.Check)
	}))
	require.Equal(t, checks, order)
	return found
}

// at is a configuration without an engine, for a server.
func at(url string) pygent.Config {
	return pygent.Config{Model: "gpt-4.1-mini", Container: pygent.ContainerConfig{Docker: pygent.DockerNever}, OpenAI: openai.Config{APIKey: key, BaseURL: url}}
}

func TestTheModelIsAskedWhatItCanDo(t *testing.T) {
	t.Parallel()
	call := func(n int) pygenttest.Reply { return pygenttest.Call("probe", map[string]any{"number": n}) }
	server := pygenttest.NewServer(t, pygenttest.Calls(call(1), call(2)), pygenttest.Text("Red.")).Window(32_000)
	found := examine(t, at(server.URL()), true)
	require.Equal(t, OK, found["key"].State, found["key"])
	model := found["model"]
	require.Equal(t, OK, model.State, model)
	require.NotNil(t, model.Abilities, model)
	a := *model.Abilities
	require.True(t, a.Streaming && a.Tools && a.ParallelCalls && a.Images != nil && *a.Images && !a.Reasoning, a)
	require.Positive(t, a.Tokens)
	require.Contains(t, model.Found, "parallel calls yes, images yes")
	for _, check := range []string{"engine", "image", "network"} {
		require.Equal(t, OK, found[check].State, found[check])
	}
}

// The server drops the tools and refuses images, and the model reasons before it answers.
func TestAModelThatCallsNoToolIsAProblem(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.SSE(`{"choices":[{"delta":{"reasoning_content":"Which tool?"}}]}`, `{"choices":[{"delta":{"content":"I see no tool."},"finish_reason":"stop"}]}`, "[DONE]"),
		pygenttest.Status(http.StatusBadRequest, "", "this model does not support images"),
		pygenttest.Text("Red, I guess."))
	model := examine(t, at(server.URL()), true)["model"]
	require.Equal(t, Problem, model.State, model)
	require.Contains(t, model.Do, "--enable-auto-tool-choice")
	require.NotNil(t, model.Abilities)
	a := *model.Abilities
	require.True(t, a.Reasoning && a.Images != nil, a)
	require.False(t, a.Tools || a.ParallelCalls || *a.Images, a)
}

func TestWithoutAQuestionTheModelCostsNothing(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t)
	found := examine(t, at(server.URL()), false)
	require.Empty(t, server.Requests())
	require.Equal(t, OK, found["key"].State, found["key"])
	require.Equal(t, Warning, found["model"].State)
	require.Contains(t, found["model"].Do, "scripted", "the model that the server has")
}

func TestTheServerOfTheModelFails(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent.Close()
	refuses := func(status int, message string) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, _ string) bool {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%q}}`, message)
			return true
		}
	}
	for name, tt := range map[string]struct {
		answer     func(w http.ResponseWriter, body string) bool // reports whether it has answered
		nothing    bool
		key, model State
		says       string
	}{
		"a wrong key":     {answer: refuses(http.StatusUnauthorized, "Incorrect API key provided: "+key), key: Problem, model: Problem, says: "the server rejected the key: status 401"},
		"nothing listens": {nothing: true, key: Problem, model: Problem, says: "Start the server, or correct OPENAI_BASE_URL"},
		"no tools": {answer: func(w http.ResponseWriter, body string) bool {
			return strings.Contains(body, `"probe"`) && refuses(http.StatusBadRequest, "this model does not support tools")(w, body)
		}, key: Warning, model: Problem, says: "answers, but takes no tools: status 400: this model does not support tools"},
		"no such model": {answer: refuses(http.StatusNotFound, "no such model"), key: Warning, model: Problem, says: "status 404: no such model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://" + silent.Addr().String() + "/v1"
			if !tt.nothing {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "application/json")
					switch {
					case strings.HasSuffix(r.URL.Path, "/models"):
						w.WriteHeader(http.StatusNotFound)
					case !tt.answer(w, string(body)):
						fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`)
					}
				}))
				defer server.Close()
				url = server.URL + "/v1"
			}
			found := examine(t, at(url), true)
			require.Equal(t, tt.key, found["key"].State, found["key"])
			require.Equal(t, tt.model, found["model"].State, found["model"])
			require.Contains(t, found["key"].String()+found["model"].String(), tt.says)
		})
	}
}

func TestThereIsNoModel(t *testing.T) {
	t.Parallel()
	cfg := at("")
	cfg.OpenAI = openai.Config{}
	found := examine(t, cfg, true)
	require.Equal(t, Problem, found["key"].State)
	require.Contains(t, found["key"].Do, "OPENAI_API_KEY")
	require.Equal(t, Problem, found["model"].State)
}

// An engine that takes connections and answers nothing delays the report until the limit
// of its first question, and no longer.
func TestTheEngineDoesNotAnswer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(enginetest.SocketDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		host string
		mode pygent.DockerMode
		want State
	}{
		{"unix://" + path, pygent.DockerRequired, Problem},
		{"unix://" + path + ".none", pygent.DockerRequired, Problem},
		{"unix://" + path + ".none", pygent.DockerAuto, Warning},
	} {
		cfg := at("http://127.0.0.1:9/v1")
		cfg.Container = pygent.ContainerConfig{Docker: tt.mode, DockerHost: tt.host}
		found := examine(t, cfg, false)
		require.Equal(t, tt.want, found["engine"].State, found["engine"])
		require.NotEmpty(t, found["engine"].Do)
		if tt.mode == pygent.DockerRequired {
			require.Equal(t, Problem, found["image"].State)
		}
	}
}

func TestTheEngineLacksTheImageAndTheNetwork(t *testing.T) {
	t.Parallel()
	enginetest.Need(t, enginetest.Busybox())
	cfg := at("http://127.0.0.1:9/v1")
	cfg.Container = pygent.ContainerConfig{Docker: pygent.DockerRequired, Image: "pygent.invalid/none:1", Network: "pygent-none"}
	found := examine(t, cfg, false)
	require.Equal(t, OK, found["engine"].State, found["engine"])
	require.Equal(t, Warning, found["image"].State, found["image"])
	require.Contains(t, found["image"].Do, "docker pull pygent.invalid/none:1")
	require.Equal(t, Problem, found["network"].State, found["network"])

	cfg.Container.Image, cfg.Container.Network = enginetest.Busybox(), ""
	found = examine(t, cfg, false)
	require.Equal(t, OK, found["image"].State, found["image"])
	require.Contains(t, found["image"].Found, "its container runs a command")
}

func TestTheChecksEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	err := Examine(ctx, at("http://127.0.0.1:9/v1"), false, func(Finding) { cancel(stopped) })
	require.ErrorIs(t, err, stopped)
}

func TestADiskIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		dir  string
		free int64
		err  error
		want State
	}{
		"plenty":     {dir, 100 << 30, nil, OK},
		"little":     {dir, 500 << 20, nil, Warning},
		"full":       {dir, 0, nil, Problem},
		"unknown":    {dir, unknownSpace, nil, OK},
		"unreadable": {dir, 0, syscall.EACCES, Problem},
		"not there":  {filepath.Join(dir, "none"), 100 << 30, nil, Problem},
	} {
		text, state := place{"files", tt.dir, true}.look(func(string) (int64, error) { return tt.free, tt.err })
		require.Equal(t, tt.want, state, "%s: %s", name, text)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	bytes, err := freeSpace(dir)
	require.NoError(t, err)
	require.NotZero(t, bytes)
}
