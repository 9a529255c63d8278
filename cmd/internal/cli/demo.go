package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/project"
)

// demoCmd shows a session with a scripted model. The loop, the tools and the
// container are real.
type demoCmd struct{}

// Help says where the commands of the demo run.
func (demoCmd) Help() string {
	return `Commands run in a container if the image is already present, otherwise on this
machine. --docker requires a container and fetches the image.`
}

const demoTask = "Write a shell script that prints the primes below 50, and run it."

// Run plays the demo.
func (demoCmd) Run(ctx context.Context, s *settings, out *output) error {
	s.NoScript = true // the demo shows the same everywhere
	cfg, _, err := s.options(ctx, func(*pygent.Config) error { return nil })
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg.HistoryFile, cfg.ConfirmBash = "", nil // the demo is not a conversation of the user
	ctx, stop := interruptible(ctx)
	defer stop()
	making := tellingOfEngine(ctx)
	if why := noContainer(making, cfg); why != "" {
		out.println("! running on this machine: " + why)
		cfg.Container.Docker = pygent.DockerNever
	}
	agent, err := demoAgent(making, cfg, cfg.Options(), out)
	if err != nil {
		return asUsage(err)
	}
	tellProtection(ctx, agent)
	out.println("(a scripted model; everything else is real)")
	out.println(">", demoTask)
	result, err := agent.RunUntilStop(ctx, demoTask)
	if result.Status == pygent.StatusCancelled {
		err = &exitError{exitCancel, err}
	}
	if err == nil && result.Status != pygent.StatusStopped {
		err = fmt.Errorf("the demo ended as %s: %s", result.Status, result.Reason)
	}
	if err == nil {
		out.println(result.Summary)
	}
	stop() // from now on Ctrl-C ends the process
	return join(err, cleanUp(agent))
}

// noContainer says why there is no container where the user chose no runtime: no engine
// answers, which is asked only once, or it would have to pull the image.
func noContainer(ctx context.Context, cfg pygent.Config) string {
	owned, err := cfg.WritableDirs()
	if err != nil || cfg.Container.Docker != pygent.DockerAuto {
		return ""
	}
	engine, err := docker.Connect(ctx, cfg.Container.DockerHost, owned...)
	if err != nil && ctx.Err() != nil {
		return "" // the demo ends
	}
	if err != nil {
		return err.Error()
	}
	defer engine.Close()
	image := cmp.Or(cfg.Container.Image, pygent.DefaultImage)
	if _, err = engine.ImageInspect(ctx, image); errdefs.IsNotFound(err) {
		return "the engine does not have the image " + image + ", and the demo does not fetch it (use --docker to fetch it)"
	}
	return ""
}

// demoAgent makes an agent for the demo. If the user chose no runtime and the
// container does not start, it uses the local runtime. The script is harmless.
func demoAgent(ctx context.Context, cfg pygent.Config, opts []pygent.Option, out *output) (*pygent.Agent, error) {
	opts = append(opts,
		project.Read(),
		pygent.WithModel(demoModel{}),
		pygent.OnEvent(demoPrinter(out)))
	agent, err := pygent.NewWithContext(ctx, opts...)
	agent, err = unlessInterrupted(ctx, agent, err)
	if err != nil || cfg.Container.Docker != pygent.DockerAuto || !agent.UseDocker() {
		return agent, err
	}
	_, err = agent.Runtime().Bash(ctx, "true")
	switch {
	case err == nil:
		return agent, nil
	case ctx.Err() != nil:
		return unlessInterrupted(ctx, agent, err)
	}
	out.println("! no container:", err)
	out.println("! running on this machine instead")
	if err := agent.Close(); err != nil {
		return nil, err
	}
	agent, err = pygent.NewWithContext(ctx, append(opts, pygent.WithDocker(pygent.DockerNever))...)
	return unlessInterrupted(ctx, agent, err)
}

// demoPrinter is [lines.EventPrinter], and also says that the container starts: before it
// has, the demo shows nothing.
func demoPrinter(out *output) func(pygent.Event) {
	show := lines.EventPrinter(out)
	return func(e pygent.Event) {
		if e.Runtime != nil && e.Runtime.Kind == pygent.RuntimeStarting {
			note("%s", e.Text)
		}
		show(e)
	}
}

// demoModel has a fixed part, but reads the results of its calls: its answer at
// the end is what the script really printed.
type demoModel struct{}

// The scripts of the demo. The first one forgets that 1 is not a prime.
const (
	demoScript = `n=1
while [ $n -lt 50 ]; do
  d=2 prime=yes
  while [ $((d * d)) -le $n ]; do
    [ $((n % d)) -eq 0 ] && prime=no
    d=$((d + 1))
  done
  [ $prime = yes ] && printf '%d ' $n
  n=$((n + 1))
done
echo
`
	demoResult = "2 3 5 7 11 13 17 19 23 29 31 37 41 43 47"
)

// Chat gives the next line of the part.
func (demoModel) Chat(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	var last string
	answered := 0
	for _, m := range req.Messages {
		if m.Role == chat.RoleTool {
			last, answered = m.Text(), answered+1
		}
	}
	say := func(text, tool string, args map[string]string) (*pygent.ChatResponse, error) {
		data, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		call := pygent.ToolCall{ID: fmt.Sprintf("demo_%d", answered+1), Name: tool, Arguments: string(data)}
		return &pygent.ChatResponse{Message: chat.AssistantMessage(text, call), FinishReason: chat.FinishToolCalls}, nil
	}
	switch {
	case answered == 0:
		return say("I'll write the script.", "write_file", map[string]string{"path": "primes.sh", "content": demoScript})
	case answered == 1:
		return say("Now I run it.", "bash", map[string]string{"cmd": "sh primes.sh"})
	case answered == 2:
		return say("1 is not a prime: the loop must start at 2.", "edit_file", map[string]string{"path": "primes.sh", "old_text": "n=1\nwhile", "new_text": "n=2\nwhile"})
	case answered == 3:
		return say("Once more.", "bash", map[string]string{"cmd": "sh primes.sh"})
	case !strings.Contains(last, demoResult):
		return nil, fmt.Errorf("the script printed something else: %s", last)
	}
	return say("", "stop", map[string]string{"summary": "primes.sh prints the primes below 50: " + demoResult})
}
