package bench

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/cmdtest"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// modelTakes is how long the model of [BenchmarkCommandRun] takes to answer: less
// than any real one, but longer than a container takes to start.
const modelTakes = 300 * time.Millisecond

// BenchmarkCommandRun measures what a person waits for who calls "pygent run": from
// the start of the process to the first request to the model (first), from the
// model's last answer to its words on standard output (words), and from there to the
// end of the process, with everything removed (end). The model has one command run.
// The container's image is one of which earlier processes know (docker), or of which
// nothing is known (new). The places take turns, so that other work on the machine
// affects each of them.
func BenchmarkCommandRun(b *testing.B) {
	program, err := cmdtest.Build(b.TempDir())
	require.NoError(b, err)
	m := newTimedModel(b)
	places := []*commandPlace{
		{name: "local", flags: []string{"--no-docker"}},
		{name: "docker", docker: true},
		{name: "new", docker: true, forgets: true},
	}
	for _, p := range places {
		p.home = b.TempDir()
		_ = p.run(b, program, m) // unpacks what is kept from process to process
	}
	for b.Loop() {
		for _, p := range places {
			took := p.run(b, program, m)
			p.first, p.words, p.end = append(p.first, took.first), append(p.words, took.words), append(p.end, took.end)
		}
	}
	b.ReportMetric(0, "ns/op") // of all places together, which says nothing
	for _, p := range places {
		for _, f := range []struct {
			name string
			all  []time.Duration
		}{{"first", p.first}, {"words", p.words}, {"end", p.end}} {
			slices.Sort(f.all)
			b.ReportMetric(milliseconds(f.all[len(f.all)/2]), p.name+"-"+f.name+"-ms")
			b.ReportMetric(milliseconds(f.all[0]), p.name+"-"+f.name+"-min-ms")
		}
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// commandPlace is where the commands of a run run, and what its runs took.
type commandPlace struct {
	name              string
	flags             []string
	docker, forgets   bool
	home              string
	first, words, end []time.Duration
}

// commandTimes are what a person waited for in one run.
type commandTimes struct{ first, words, end time.Duration }

func (p *commandPlace) run(b *testing.B, program string, m *timedModel) (took commandTimes) {
	if p.forgets {
		require.NoError(b, os.RemoveAll(filepath.Join(p.home, ".local", "state", "pygent", "known")))
	}
	args := append([]string{"run", "--quiet"}, p.flags...)
	if p.docker {
		enginetest.Need(b, testImage())
		args = append(args, "--image", testImage())
	}
	c := exec.Command(program, append(args, "go")...)
	c.Dir = b.TempDir()
	c.Env = append(cmdtest.Clean(os.Environ()), "HOME="+p.home, "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "OPENAI_BASE_URL="+m.url, "OPENAI_API_KEY=none", "OPENAI_MODEL=model")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(b, err)
	m.first.Store(0)
	begun := time.Now()
	require.NoError(b, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	printed := time.Now()
	require.NoError(b, err)
	require.Equal(b, "done", strings.TrimSpace(line))
	_, err = io.Copy(io.Discard, out)
	require.NoError(b, err)
	require.NoError(b, c.Wait())
	ended := time.Now()
	return commandTimes{
		first: time.Unix(0, m.first.Load()).Sub(begun),
		words: printed.Sub(time.Unix(0, m.last.Load())),
		end:   ended.Sub(printed),
	}
}

// timedModel is a fake server of a model that notes when it was asked first, and when
// it answered last.
type timedModel struct {
	url         string
	first, last atomic.Int64 // in nanoseconds, as Unix counts them
}

func newTimedModel(b *testing.B) *timedModel {
	answers := pygenttest.NewServer(b, pygenttest.Call("bash", map[string]any{"cmd": "true"}), pygenttest.Call("stop", map[string]any{"summary": "done"})).Loop()
	m := &timedModel{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			m.first.CompareAndSwap(0, time.Now().UnixNano())
			time.Sleep(modelTakes)
			defer func() { m.last.Store(time.Now().UnixNano()) }()
		}
		answers.ServeHTTP(w, r)
	}))
	b.Cleanup(server.Close)
	m.url = fmt.Sprint(server.URL, "/v1")
	return m
}
