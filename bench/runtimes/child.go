package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
)

// child carries out a task that is measured in a process of its own, and prints
// the outcome as JSON.
func child(ctx context.Context, ways []way, image string, args []string) error {
	if len(args) < 2 {
		return errors.New("child: want a task and its subject")
	}
	var outcome any
	var err error
	switch args[0] {
	case "flood":
		outcome, err = measureFlood(ctx, ways, args[1])
	case "idle":
		outcome, err = measureIdle(ctx, image, args[1])
	case "own":
		return own(ctx, ways, args[1], args[2])
	default:
		err = fmt.Errorf("child: unknown task %q", args[0])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome)
}

// child runs this program again for one task, and decodes its outcome.
func (b *bench) child(ctx context.Context, outcome any, task string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := output(ctx, self, append([]string{"-image", b.image, "child", task}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), outcome)
}

// output runs a program and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// flood is the outcome of a command that printed a lot.
type flood struct {
	Took   time.Duration
	Growth int64 // by how many bytes the peak of resident memory grew
}

func measureFlood(ctx context.Context, ways []way, key string) (f flood, err error) {
	p, err := openKey(ctx, ways, key)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.run(ctx, "true"); err != nil {
		return f, err
	}
	// This resets the peak.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		return f, err
	}
	before, err := memory("VmRSS")
	if err != nil {
		return f, err
	}
	start := time.Now()
	err = p.run(ctx, fmt.Sprintf("head -c %d /dev/zero", floodSize))
	f.Took = time.Since(start)
	peak, failed := memory("VmHWM")
	f.Growth = peak - before
	return f, errors.Join(err, failed)
}

func openKey(ctx context.Context, ways []way, key string) (place, error) {
	for _, w := range ways {
		if w.key == key {
			return w.open(ctx)
		}
	}
	return nil, fmt.Errorf("no way %q", key)
}

// memory reads a size, in bytes, from this process's status.
func memory(field string) (int64, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the process's status", field)
}

// idleKind is a kind of agents that do nothing.
type idleKind struct {
	name, key string
	count     int
}

var idleKinds = []idleKind{
	{"no command so far", "quiet", 1000},
	{"a local guest runs", keyGuestLocal, 1000},
	{"a container runs", keyGuestDocker, 100},
}

// idle is the cost of each of Count agents.
type idle struct {
	Name     string
	Count    int
	Heap     int64 // bytes of heap and stacks in use
	Resident int64 // bytes of resident memory
}

func measureIdle(ctx context.Context, image, key string) (m idle, err error) {
	for _, k := range idleKinds {
		if k.key == key {
			m.Name, m.Count = k.name, k.count
		}
	}
	// The first agent is not counted, because it also makes what all share.
	agents := make([]*pygent.Agent, 0, m.Count+1)
	defer func() {
		for _, a := range agents {
			err = errors.Join(err, a.Close())
		}
	}()
	var before idle
	for i := range cap(agents) {
		a, err := idleAgent(ctx, image, key)
		if err != nil {
			return m, err
		}
		if agents = append(agents, a); i == 0 {
			if before, err = inUse(); err != nil {
				return m, err
			}
		}
	}
	after, err := inUse()
	m.Heap = (after.Heap - before.Heap) / int64(m.Count)
	m.Resident = (after.Resident - before.Resident) / int64(m.Count)
	return m, err
}

// idleAgent makes an agent and, unless the kind is quiet, runs a command in its
// runtime.
func idleAgent(ctx context.Context, image, key string) (*pygent.Agent, error) {
	mode := pygent.DockerNever
	if key == keyGuestDocker {
		mode = pygent.DockerRequired
	}
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return nil, errors.New("nobody asks an idle agent")
	})
	a, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(mode), pygent.WithImage(image))
	if err != nil || key == "quiet" {
		return a, err
	}
	if _, err := a.Runtime().Bash(ctx, "true"); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// inUse measures this process's memory after free memory was given back.
func inUse() (idle, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // frees what the finalizers of the first one released
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	resident, err := memory("VmRSS")
	return idle{Heap: int64(s.HeapAlloc + s.StackInuse), Resident: resident}, err
}

// own owns a runtime in which a command runs until it is killed.
func own(ctx context.Context, ways []way, key, mark string) error {
	p, err := openKey(ctx, ways, key)
	if err != nil {
		return err
	}
	return errors.Join(p.run(ctx, "echo >file; exec sleep "+mark), p.close())
}

// startOwner starts a process that owns a runtime, and waits until a command
// runs in it.
func (b *bench) startOwner(ctx context.Context, key, mark string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "-image", b.image, "child", "own", key, mark)
	c.Stdin, c.Stderr = nil, io.Discard
	if err := c.Start(); err != nil {
		return nil, err
	}
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(time.Millisecond) {
		if n, err := marked(mark); n > 0 || err != nil {
			return c, err
		}
	}
	return nil, errors.Join(errors.New("no command came to run"), c.Process.Kill(), c.Wait())
}
