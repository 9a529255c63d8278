package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// bench is what is measured, and how much of it.
type bench struct {
	rounds, steps, chunks int
	histories             []int
	peers                 []peer
	progress              io.Writer // gets how far it is; nil for nobody

	tables []table
}

// table is what was measured of one conversation, with a column for each peer.
type table struct {
	what string // the work that is counted
	unit string
	rows [][]sample // of each peer
}

// sample is one measurement: what one step or one chunk took.
type sample struct {
	time, processor time.Duration
	bytes, objects  float64 // allocated
}

// conversation is what is played in a round.
type conversation struct {
	table   int
	history int
	say     string
	count   int // of the steps or chunks in it
}

func (b *bench) run(ctx context.Context) error {
	url, stop, err := startServer(ctx)
	if err != nil {
		return err
	}
	err = b.play(ctx, url)
	if stopped := stop(); err == nil && stopped != nil {
		err = fmt.Errorf("the server: %w", stopped)
	}
	return err
}

// play measures all conversations, after each peer has shown that it says nothing that
// the strict server refuses.
func (b *bench) play(ctx context.Context, url string) error {
	conversations := b.conversations()
	for _, p := range b.peers {
		b.tell("%s plays once for the server that refuses what OpenAI refuses", p.name)
		for _, c := range conversations {
			if _, err := measure(ctx, p, url+strictServer, c); err != nil {
				return fmt.Errorf("%s, before anything is measured: %w", p.name, err)
			}
		}
	}
	for round := range b.rounds {
		b.tell("round %d of %d", round+1, b.rounds)
		for _, c := range conversations {
			for i := range b.peers {
				i = (i + round) % len(b.peers) // each of them comes first in turn
				s, err := measure(ctx, b.peers[i], url+quickServer, c)
				if err != nil {
					return fmt.Errorf("%s: %w", b.peers[i].name, err)
				}
				rows := b.tables[c.table].rows
				rows[i] = append(rows[i], s)
			}
		}
	}
	return nil
}

// tell says how far it is.
func (b *bench) tell(format string, args ...any) {
	if b.progress != nil {
		fmt.Fprintf(b.progress, "peers: "+format+"\n", args...)
	}
}

func (b *bench) conversations() []conversation {
	var all []conversation
	add := func(what, unit, ask string, count, history int) {
		all = append(all, conversation{table: len(b.tables), history: history, say: ask + strconv.Itoa(count), count: count})
		b.tables = append(b.tables, table{what: what, unit: unit, rows: make([][]sample, len(b.peers))})
	}
	for _, n := range b.histories {
		add(fmt.Sprintf("a step after %d messages", n), "step", askSteps, b.steps, n)
	}
	add(fmt.Sprintf("a chunk of %d", b.chunks), "chunk", askChunks, b.chunks, 1)
	return all
}

// measure plays a conversation.
func measure(ctx context.Context, p peer, url string, c conversation) (sample, error) {
	s, err := p.open(ctx, url, history(c.history))
	if err != nil {
		return sample{}, err
	}
	defer s.close()
	if _, err := s.say(ctx, askSteps+"1", func(string) {}); err != nil {
		return sample{}, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	processor, start := processorTime(), time.Now()
	heard := 0
	said, err := s.say(ctx, c.say, func(text string) { heard += len(text) })
	taken, used := time.Since(start), processorTime()-processor
	runtime.ReadMemStats(&after)
	if err != nil {
		return sample{}, err
	}
	if said == "" || heard != len(said) {
		return sample{}, fmt.Errorf("the answer has %d bytes, of which %d were heard", len(said), heard)
	}
	n := time.Duration(c.count)
	return sample{
		time: taken / n, processor: used / n,
		bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(c.count),
		objects: float64(after.Mallocs-before.Mallocs) / float64(c.count),
	}, nil
}

// print writes the tables.
func (b *bench) print(w io.Writer) {
	for i, t := range b.tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		t.print(w, b.peers)
	}
	fmt.Fprintf(w, "\nThe ratios are to %s. Processor time is the minimum, bytes and\nobjects are medians; all three are of this process alone.\n", b.peers[0].name)
}

func (t table) print(w io.Writer, peers []peer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := []string{t.what, "minimum", "ratio", "median", "ratio", "processor", "ratio", "bytes", "objects", "a second"}
	fmt.Fprintln(out, strings.Join(header, "\t")+"\t")
	first := t.rows[0]
	for i, p := range peers {
		row := t.rows[i]
		fastest, usual := quantile(row, 0, sample.seconds), quantile(row, 0.5, sample.seconds)
		processor := quantile(row, 0, sample.processorSeconds)
		fmt.Fprintf(out, "%s\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f\t%.0f\t%.0f\t%.0f\t\n", p.name,
			micros(fastest), fastest/quantile(first, 0, sample.seconds),
			micros(usual), usual/quantile(first, 0.5, sample.seconds),
			micros(processor), processor/quantile(first, 0, sample.processorSeconds),
			quantile(row, 0.5, func(s sample) float64 { return s.bytes }),
			quantile(row, 0.5, func(s sample) float64 { return s.objects }), 1/usual)
	}
	out.Flush()
}

func (s sample) seconds() float64          { return s.time.Seconds() }
func (s sample) processorSeconds() float64 { return s.processor.Seconds() }

// quantile returns the value that the fraction q of the samples does not exceed.
func quantile(samples []sample, q float64, value func(sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[min(int(float64(len(values))*q), len(values)-1)]
}

func micros(seconds float64) string { return fmt.Sprintf("%.1f µs", seconds*1e6) }
