// Command longrun plays a run that is much longer than the model's context window,
// and prints how it went: 2,000 steps with results of 30 KiB, in a window of 128,000
// tokens.
//
//	go run ./bench/longrun
//	go run ./bench/longrun -steps 500 -window 32000 -result 8192
//
// It goes through openai.Model and HTTP to pygenttest's server, which refuses what
// OpenAI refuses, requests that are too long included. The history is in a file. For
// each tenth of the run it prints how long a step took, how large the requests were,
// how often the beginning of a request had changed, how much memory is in use, and how
// large the results are that the history's file has by then. At the end it prints how
// much memory each message takes that was added after the first tenth.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

func main() {
	var b bench
	flag.IntVar(&b.steps, "steps", 2000, "how many steps the run has")
	flag.IntVar(&b.result, "result", 30<<10, "the size of each result, in bytes")
	flag.Int64Var(&b.window, "window", 128_000, "the model's context window, in tokens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "longrun:", err)
		os.Exit(1)
	}
}

// bench is a run with what was measured of it. Only the run's goroutine, and the
// server's, one after the other, use what is measured.
type bench struct {
	steps, result int
	window        int64

	asked       atomic.Int64 // how often the model was asked to go on
	summaries   atomic.Int64 // how often it was asked for a summary
	compactions int
	parts       []part
	part        part
	before      []byte // the last request to go on
}

// part is a tenth of the run.
type part struct {
	steps    int
	began    time.Time
	step     time.Duration
	largest  int // of the requests, in bytes
	rewrites int // how often a request did not begin with the one before
	heap     uint64
	record   int // the bytes of all results so far
}

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "pygent-longrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := pygenttest.Start(pygenttest.Decide(b.reply))
	if err != nil {
		return err
	}
	defer server.Close()
	server.RepeatLast().KeepRequests(1).Window(int(b.window))
	model, err := openai.New(openai.Env(nil), openai.BaseURL(server.URL()), openai.Key("k"))
	if err != nil {
		return err
	}
	defer model.CloseIdleConnections()
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithModelName("m"), pygent.WithRuntime(nowhere{}),
		pygent.WithTools(b.tool()), pygent.WithContextWindow(b.window), pygent.WithHistoryFile(filepath.Join(dir, "history.json")),
		pygent.OnEvent(func(e pygent.Event) { b.note(server, e) }))
	if err != nil {
		return err
	}
	defer agent.Close()
	b.part.began = time.Now()
	result, err := agent.RunUntilStop(ctx, "Do the work.", pygent.MaxSteps(b.steps+1), pygent.MaxToolCalls(b.steps+1))
	if err != nil {
		return err
	}
	b.print(result, agent)
	if result.Status != pygent.StatusStopped {
		return fmt.Errorf("the run ended as %s: %s", result.Status, result.Reason)
	}
	return nil
}

// reply is the model: it calls the tool until all steps are done.
func (b *bench) reply(req *pygent.ChatRequest) pygenttest.Reply {
	if strings.HasPrefix(req.Messages[len(req.Messages)-1].Text(), "<record>") {
		b.summaries.Add(1)
		return pygenttest.Text(fmt.Sprintf("Task: do the work.\nDone: %d results were read.\nOpen: the rest.", b.asked.Load()))
	}
	n := b.asked.Add(1)
	if int(n) > b.steps {
		return pygenttest.Call("stop", map[string]any{"summary": "all done"})
	}
	return pygenttest.TextAndCalls("I go on.", pygenttest.Call("read", map[string]any{"part": n}))
}

// tool gives results of the size that was asked for.
func (b *bench) tool() pygent.Tool {
	return pygent.NewTool("read", "Read a part", func(_ context.Context, _ pygent.Runtime, in struct {
		Part int `json:"part"`
	}) (string, error) {
		var text strings.Builder
		for i := 0; text.Len() < b.result; i++ {
			fmt.Fprintf(&text, "%06d: line %d of part %d, as a program prints it\n", i, i, in.Part)
		}
		return strings.Clone(text.String()[:b.result]), nil
	})
}

// note measures at the end of each tool call, when the server has the request of
// the step.
func (b *bench) note(server *pygenttest.Server, e pygent.Event) {
	switch e.Type {
	case pygent.EventCompacted:
		b.compactions++
	case pygent.EventToolDone:
		b.part.steps++
		b.part.record += len(e.Output.Content)
		requests := server.Requests()
		b.sent(requests[len(requests)-1].Body)
		if b.part.steps == max(b.steps/10, 1) {
			b.endPart()
		}
	}
}

func (b *bench) sent(body []byte) {
	b.part.largest = max(b.part.largest, len(body))
	const end = len("]}")
	if kept := len(b.before) - end; kept > 0 && (len(body) < kept || string(body[:kept]) != string(b.before[:kept])) {
		b.part.rewrites++
	}
	b.before = body
}

func (b *bench) endPart() {
	b.part.step = time.Since(b.part.began) / time.Duration(b.part.steps)
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	b.part.heap = mem.HeapAlloc
	record := b.part.record
	b.parts = append(b.parts, b.part)
	b.part = part{began: time.Now(), record: record}
}

func (b *bench) print(result *pygent.Result, agent *pygent.Agent) {
	const mib = 1 << 20
	fmt.Printf("%d steps with results of %d bytes in a window of %d tokens: %s\n", b.steps, b.result, b.window, result.Status)
	fmt.Printf("%d compactions, %d summaries, %d messages in the history, %d tokens sent\n",
		b.compactions, b.summaries.Load(), agent.History().Len(), result.Usage.PromptTokens)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "steps\ta step\tlargest request\trewrites\theap\tresults in the file")
	done := 0
	for _, p := range b.parts {
		done += p.steps
		heap := float64(p.heap) / mib
		fmt.Fprintf(w, "%d\t%s\t%.0f kB\t%d\t%.1f MiB\t%.1f MiB\n", done, p.step.Round(10*time.Microsecond), float64(p.largest)/1000, p.rewrites,
			heap, float64(p.record)/mib)
	}
	_ = w.Flush()
	if len(b.parts) > 1 {
		first, last := b.parts[0], b.parts[len(b.parts)-1]
		const messagesOfStep = 2
		fmt.Printf("%d bytes of memory a message\n", (int64(last.heap)-int64(first.heap))/int64(messagesOfStep*(done-first.steps)))
	}
}

// nowhere is a runtime in which nothing runs.
type nowhere struct{ pygent.Runtime }

func (nowhere) Cleanup() error { return nil }
