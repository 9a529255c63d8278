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
	case "files":
		if len(args) < 3 {
			return errors.New("child: want a directory of files")
		}
		outcome, err = measureFiles(ctx, image, args[1], args[2])
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
	f.Growth, err = grown(func() error {
		defer func(start time.Time) { f.Took = time.Since(start) }(time.Now())
		return p.run(ctx, fmt.Sprintf("head -c %d /dev/zero", floodSize))
	})
	return f, err
}

// grown returns by how many bytes the peak of this process's resident memory exceeds
// what it had before f.
func grown(f func() error) (int64, error) {
	// This resets the peak.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		return 0, err
	}
	before, err := memory("VmRSS")
	if err != nil {
		return 0, err
	}
	err = f()
	peak, failed := memory("VmHWM")
	return peak - before, errors.Join(err, failed)
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
func memory(name string) (int64, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	return field(string(data), name)
}

// field returns a size, in bytes, of what the kernel says of a process.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell the %s of a process", name)
}

// idleKind is a kind of agents that do nothing.
type idleKind struct {
	name, key string
	count     int
}

var idleKinds = []idleKind{
	{"no command so far", "quiet", 1000},
	{"after a local command", keyGuestLocal, 1000},
	{"a container runs", keyGuestDocker, 100},
}

// idle is the cost of each of Count agents.
type idle struct {
	Name     string
	Count    int
	Heap     int64         // bytes of heap and stacks in use
	Resident int64         // bytes of resident memory of this process, and the share of its descendants
	Closing  time.Duration // of all, one after the other
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
		start := time.Now()
		for _, a := range agents {
			err = errors.Join(err, a.Close())
		}
		m.Closing = time.Since(start)
	}()
	var before idle
	for i := range cap(agents) {
		a, err := idleAgent(ctx, image, key)
		if err != nil {
			return m, err
		}
		if agents = append(agents, a); i == 0 {
			if err := settle(key); err != nil {
				return m, err
			}
			if before, err = inUse(); err != nil {
				return m, err
			}
		}
	}
	if err := settle(key); err != nil {
		return m, err
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

// settle waits until local guests have ended, as they do for want of something to do.
func settle(key string) error {
	if key != keyGuestLocal {
		return nil
	}
	for start := time.Now(); time.Since(start) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
		if children, err := descendants(); err != nil || len(children) == 0 {
			return err
		}
	}
	return errors.New("the guests did not end")
}

// descendants returns the ids of the processes that this one has started, and of
// those that they have.
func descendants() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	for next := children[os.Getpid()]; len(next) > 0; next = next[1:] {
		pids = append(pids, next[0])
		next = append(next, children[next[0]]...)
	}
	return pids, nil
}

// share is the proportional share of memory, in bytes, of the descendants.
func share() (total int64, err error) {
	pids, err := descendants()
	for _, pid := range pids {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has ended
		}
		n, err := field(string(rollup), "Pss")
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, err
}

// inUse measures this process's memory after free memory was given back, and that of
// its descendants.
func inUse() (idle, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // frees what the finalizers of the first one released
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	resident, err := memory("VmRSS")
	guests, failed := share()
	return idle{Heap: int64(s.HeapAlloc + s.StackInuse), Resident: resident + guests}, errors.Join(err, failed)
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
