// Command page measures the web page's server: many sessions that stream at once, and
// the rendering of a long answer.
//
//	go run ./bench/page
//	go run ./bench/page -sessions 20 -pieces 50 -answer 20000
//
// Each session is another user's. Its model writes a piece of Markdown at a time, and a
// page reads the stream of the server over HTTP. It prints how much memory a session
// takes, and how long a piece took from the model until the page had it. On a machine that
// has nothing else to do, most of that is chosen: a page is told at most forty times a
// second, and a block that is being written is rendered at most twenty times.
//
// The answer is rendered as the page does, which goes on from the block that is being
// written, and as a whole with each piece, for comparison.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	var b bench
	flag.IntVar(&b.sessions, "sessions", 100, "how many sessions stream at once")
	flag.IntVar(&b.pieces, "pieces", 100, "how many pieces each model writes")
	flag.DurationVar(&b.pause, "pause", 50*time.Millisecond, "how long a model rests after a piece")
	flag.IntVar(&b.answer, "answer", 100_000, "the size of the answer that is rendered, in bytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := b.stream(ctx)
	if err == nil {
		b.printStreams()
		b.render()
		b.printRendering()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// bench is what is measured, and how much of it.
type bench struct {
	sessions, pieces, answer int
	pause                    time.Duration

	idle, streaming uint64 // bytes of memory of all sessions
	delays          []time.Duration
	took            time.Duration
	busy            time.Duration // of the processors meanwhile
	renderings      []rendering
}

// rendering is how long one way to render the answer took.
type rendering struct {
	name  string
	count int
	took  time.Duration
	last  time.Duration // the last rendering before the end
}

func (b *bench) printStreams() {
	slices.Sort(b.delays)
	at := func(percent int) time.Duration {
		return b.delays[min(len(b.delays)*percent/100, len(b.delays)-1)].Round(100 * time.Microsecond)
	}
	const kib = 1 << 10
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "sessions that stream at once\t%d\n", b.sessions)
	fmt.Fprintf(w, "memory of one, idle\t%d KiB\n", b.idle/uint64(b.sessions)/kib)
	fmt.Fprintf(w, "memory of one, at the end of its answer\t%d KiB\n", b.streaming/uint64(b.sessions)/kib)
	fmt.Fprintf(w, "pieces that were followed\t%d\n", len(b.delays))
	fmt.Fprintf(w, "from the model to the page\tmedian %s, 95%% within %s, at most %s\n", at(50), at(95), at(100))
	fmt.Fprintf(w, "processors in use meanwhile\t%.2f, with the models and the pages\n", b.busy.Seconds()/b.took.Seconds())
	_ = w.Flush()
}

func (b *bench) printRendering() {
	fmt.Printf("\nan answer of %d bytes\n", b.answer)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\trenderings\taltogether\tthe last one")
	for _, r := range b.renderings {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.name, r.count, r.took.Round(time.Millisecond), r.last.Round(time.Microsecond))
	}
	_ = w.Flush()
}
