// Package e2e runs the command and the library against servers that are as
// strict as the real ones.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/cmdtest"
)

func TestMain(m *testing.M) { cmdtest.Main(m, func() error { return goleak.Find() }) }

// ran is what a run of the command printed.
type ran struct {
	events []pygent.Event
	stderr string
	code   int
}

// pygentRun runs "pygent run --json". Of pygent's settings its environment has
// only those in env.
func pygentRun(t *testing.T, env []string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a run that hangs fails here
	defer cancel()
	cmd := cmdtest.Command(ctx, t, env, append([]string{"run", "--no-docker", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return ran{events(t, &stdout), stderr.String(), cmd.ProcessState.ExitCode()}
}

func events(t *testing.T, r io.Reader) []pygent.Event {
	t.Helper()
	var out []pygent.Event
	for dec := json.NewDecoder(r); ; {
		var e pygent.Event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, e)
	}
}

// result returns the result at the end of the run.
func (r ran) result(t *testing.T) *pygent.Result {
	t.Helper()
	require.NotEmpty(t, r.events, r.stderr)
	last := r.events[len(r.events)-1]
	require.Equal(t, pygent.EventRunEnd, last.Type, r.stderr)
	return last.Result
}

// of returns the events of one type.
func (r ran) of(kind pygent.EventType) []pygent.Event {
	var out []pygent.Event
	for _, e := range r.events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

// text returns the streamed text, with its pieces joined.
func (r ran) text() string {
	var b strings.Builder
	for _, e := range r.of(pygent.EventText) {
		b.WriteString(e.Text)
	}
	return b.String()
}
