// Command steps shows what tasks cost a model: it plays eight scripted tasks against
// pygent and prints, for each, the model calls, the tool calls, the bytes that
// were sent, and how the run ended.
//
//	go run ./bench/steps
//	go run ./bench/steps -transcripts /tmp/after -only 'bug|huge'
//
// What plays is a player, deterministic code in place of a model. It does what a
// model would with what it is given, and never looks at pygent's version: it uses
// several edits in a call, line numbers, or a text to wait for if the schema of the
// tool has them; it makes several calls in a message if the system prompt welcomes
// that; it goes by what results show and say; and once in a while it slips as models
// do, and repeats the call if the result shows that it was not understood. It plays
// over HTTP behind pygenttest's strict server, so the bytes are real. The counts of
// the tasks with a server or a time limit may differ by a call from run to run.
//
// To compare with an older commit, run the same source there:
//
//	git worktree add /tmp/older c3de6d9
//	mkdir -p /tmp/older/bench/steps
//	cp bench/steps/*.go /tmp/older/bench/steps
//	go -C /tmp/older run ./bench/steps
//
// The tasks need git on this machine and python3: here, or with -docker in the image. They take
// about a minute, most of which is a command that takes longer than 30
// seconds.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

// bench is one run of the tasks.
type bench struct {
	image       string         // of the containers; empty for the local runtime
	only        *regexp.Regexp // matches the names of the tasks to play
	quick       bool           // whether no command takes longer than some seconds
	transcripts string         // the directory where they are written; may be empty
}

func start() (err error) {
	var b bench
	docker := flag.Bool("docker", false, "run the commands in containers, except those of the task local")
	image := flag.String("image", pygent.DefaultImage, "image of the containers")
	only := flag.String("only", "", "play only the tasks whose names match")
	flag.BoolVar(&b.quick, "quick", false, "let no command take longer than the usual time limits; the tasks then show less")
	flag.StringVar(&b.transcripts, "transcripts", "", "directory to write the conversations to")
	flag.Parse()
	if *docker {
		b.image = *image
	}
	if b.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// It would hide how programs print that do not flush.
	if err := os.Unsetenv("PYTHONUNBUFFERED"); err != nil {
		return err
	}
	figures, err := b.play(ctx)
	print(os.Stdout, figures)
	return err
}

// figures are what a task took.
type figures struct {
	name   string
	steps  int // requests to the model, with those of delegated tasks
	calls  int // calls of tools
	sent   int // bytes of all requests
	result int // bytes of the results of tools
	ended  pygent.Status
	time   time.Duration
	err    error // why the task is not finished
}

// play plays the tasks one after the other. The error is of the first that is not
// finished.
func (b *bench) play(ctx context.Context) (all []figures, err error) {
	for _, t := range tasks(b.quick) {
		if !b.only.MatchString(t.name) {
			continue
		}
		f := b.playTask(ctx, t)
		all = append(all, f)
		if f.err != nil {
			err = cmp.Or(err, fmt.Errorf("%s: %w", f.name, f.err))
		}
	}
	return all, err
}

func (b *bench) playTask(ctx context.Context, t task) figures {
	start := time.Now()
	g := newGame(t)
	err := g.play(ctx, b.options(t))
	f := figures{name: t.name, calls: g.calls, result: g.resultBytes, time: time.Since(start), err: err}
	f.steps, f.sent, f.ended = g.steps, g.sent, g.ended
	if b.transcripts != "" {
		f.err = cmp.Or(f.err, g.write(filepath.Join(b.transcripts, t.name+".txt")))
	}
	return f
}

// options are those of the task's agent.
func (b *bench) options(t task) []pygent.Option {
	if b.image == "" || t.local {
		return []pygent.Option{pygent.WithDocker(pygent.DockerNever)}
	}
	return []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(b.image)}
}

// play has an agent do the game's task in a directory of its own, and checks what
// it did.
func (g *game) play(ctx context.Context, opts []pygent.Option) (err error) {
	dir, err := os.MkdirTemp("", "pygent-steps-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := g.task.setUp(ctx, dir); err != nil {
		return err
	}
	server, err := pygenttest.Start(pygenttest.Decide(g.answer))
	if err != nil {
		return err
	}
	defer server.RepeatLast().Close()
	defer func() { err = errors.Join(err, g.count(server.Requests())) }()
	defer g.end()
	agent, err := pygent.New(append(opts, project.Read(),
		pygent.WithOpenAI(openai.BaseURL(server.URL())), pygent.WithOpenAI(openai.Key("sk-scripted")), pygent.WithModelName("gpt-4.1"),
		pygent.WithWorkspace(dir), pygent.MaxSteps(60))...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	result, err := agent.RunUntilStop(ctx, g.task.prompt, g.task.run...)
	if err != nil {
		return err
	}
	if g.ended = result.Status; g.ended != cmp.Or(g.task.ends, pygent.StatusStopped) {
		return fmt.Errorf("the run ended as %s: %s", result.Status, cmp.Or(result.Reason, result.Message.Text()))
	}
	return g.task.check(dir)
}

// setUp writes the task's files, and commits them if they are those of a repository.
func (t task) setUp(ctx context.Context, dir string) error {
	for name, content := range t.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if !t.commit {
		return nil
	}
	for _, command := range []string{"init -q -b main", "add -A", "-c user.name=Ada -c user.email=ada@example.com commit -q -m shop"} {
		git := exec.CommandContext(ctx, "git", strings.Fields(command)...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// check reports what a finished task has not done.
func (t task) check(dir string) error {
	for name, want := range t.wants {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), want) {
			return fmt.Errorf("%s has no %q", name, want)
		}
	}
	for _, name := range t.gone {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there", name)
		}
	}
	return nil
}

// print prints the figures as a table.
func print(w io.Writer, all []figures) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(f figures, finished string) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", f.name, f.steps, f.calls, f.sent, f.result, f.ended, finished, f.time.Round(100*time.Millisecond))
	}
	fmt.Fprintln(t, "task\tsteps\tcalls\tbytes sent\tbytes of results\tended\tfinished\ttime\t")
	sum, finished := figures{name: "all"}, 0
	for _, f := range all {
		word := "no"
		if f.err == nil {
			word = "yes"
			finished++
		}
		row(f, word)
		sum.steps, sum.calls, sum.sent = sum.steps+f.steps, sum.calls+f.calls, sum.sent+f.sent
		sum.result, sum.time = sum.result+f.result, sum.time+f.time
	}
	row(sum, fmt.Sprintf("%d of %d", finished, len(all)))
	t.Flush()
}
