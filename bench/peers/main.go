// Command peers plays the same conversations with pygent and with what a program
// would use instead, over HTTP, against one server on this machine:
//
//	cd bench/peers && go run .
//	cd bench/peers && go run . -rounds 5 -histories 10,1000
//
// The peers are eino's ReAct agent, loops by hand on eino's model and on openai-go, and
// a loop by hand on net/http and encoding/json, which is the least that can be done. All
// of them take turns in one run, in an order that changes with each round, so that other
// work on the machine affects each of them. The server is a process of its own, so that
// neither its processor time nor its memory counts; the wait for it is the same for all.
// It refuses what OpenAI refuses, for which each peer plays once before anything is
// measured.
//
// A step is a request with the whole conversation, a streamed answer that calls a tool,
// and the tool, which does nothing; the last step of a loop is an answer in words. Each
// loop is played in a conversation of its own, whose first request is not measured: so
// connections are open, and what is made once of a history has been made.
//
// The module is its own, so that nothing else depends on the peers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/x/pygent/bench/figure"
)

func main() {
	if os.Getenv(serverVariable) != "" {
		exit(serve())
	}
	b := bench{}
	flag.IntVar(&b.rounds, "rounds", 15, "how many loops and answers each peer plays")
	flag.IntVar(&b.steps, "steps", 20, "steps of a loop")
	flag.IntVar(&b.chunks, "chunks", 5000, "chunks of a streamed answer")
	histories := flag.String("histories", "10,100,1000", "messages in the history before the loop")
	only := flag.String("only", "", "measure only this peer, for profiles: "+strings.Join(names(), ", "))
	figures := flag.Bool("figures", false, "print the figures as lines of JSON, and nothing else")
	flag.Parse()
	var err error
	if b.histories, err = numbers(*histories); err != nil {
		exit(fmt.Errorf("-histories: %w", err))
	}
	if b.peers, err = selected(*only); err != nil {
		exit(fmt.Errorf("-only: %w", err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !*figures { // else bench/table tells what goes on
		b.progress = os.Stderr
	}
	start := time.Now()
	if err := b.run(ctx); err != nil {
		exit(err)
	}
	if *figures {
		exit(figure.Encode(os.Stdout, figure.Rows(b.figures())))
	}
	b.print(os.Stdout)
	fmt.Printf("\n%s\n", time.Since(start).Round(time.Second))
}

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	os.Exit(1)
}

// numbers reads a list of positive numbers with commas between them.
func numbers(list string) ([]int, error) {
	var all []int
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no positive number", text)
		}
		all = append(all, n)
	}
	return all, nil
}
