package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/x/pygent"
)

// Times for commands that are stopped.
const (
	timeLimit = 500 * time.Millisecond
	// grace is what the runtimes give a command between TERM and KILL.
	grace = 500 * time.Millisecond
)

// fugitives starts six processes that ignore TERM, in sessions of their own, and
// whose parents have ended. It prints how many there are. They have the mark
// %[1]s in their command line; %[2]s is a pattern for it that does not match
// itself, so that grep does not find itself.
const fugitives = `
trap '' TERM
for i in 1 2 3 4 5 6; do
	setsid sh -c 'trap "" TERM; (while :; do sleep 0.05; done; : %[1]s) &' &
done
sleep 0.2
grep -l '%[2]s' /proc/[0-9]*/cmdline 2>/dev/null | wc -l
while :; do sleep 1; done`

// deadlines measures how long after the grace period a command returns, if its
// descendants do everything to survive, and counts those that do survive.
func (b *bench) deadlines(ctx context.Context, r *report) error {
	rounds := max(b.rounds/4, 1)
	b.log("deadline: %d rounds", rounds)
	for _, w := range b.guests() {
		p, err := w.open(ctx)
		if err != nil {
			return err
		}
		d := deadline{name: w.name}
		err = p.run(ctx, "true") // keeps the start out of the measurement
		for range rounds {
			if err != nil {
				break
			}
			err = d.measure(ctx, p.(guestPlace))
		}
		if err := errors.Join(err, p.close()); err != nil {
			return fmt.Errorf("%s, deadline: %w", w.name, err)
		}
		r.deadlines = append(r.deadlines, d)
	}
	return nil
}

// guests returns the ways that are pygent's runtimes.
func (b *bench) guests() []way {
	var list []way
	for _, w := range b.ways {
		if w.key == keyGuestDocker || w.key == keyGuestLocal {
			list = append(list, w)
		}
	}
	return list
}

// deadline is how commands of one runtime ended at their time limit.
type deadline struct {
	name    string
	overrun samples // how long after the grace period they returned
	before  int     // processes that tried to survive
	after   int     // processes that survived
}

func (d *deadline) measure(ctx context.Context, g guestPlace) error {
	mark := rand.Text()
	pattern := "[" + mark[:1] + "]" + mark[1:]
	start := time.Now()
	res, err := g.Bash(ctx, fmt.Sprintf(fugitives, mark, pattern), pygent.BashTimeout(timeLimit))
	d.overrun = append(d.overrun, time.Since(start)-timeLimit-grace)
	if err != nil {
		return err
	}
	if !res.TimedOut {
		return fmt.Errorf("not stopped: %v", res)
	}
	count := func(r pygent.BashResult) (int, error) {
		first, _, _ := strings.Cut(strings.TrimSpace(r.Output), "\n")
		return strconv.Atoi(first)
	}
	n, err := count(res)
	if err != nil {
		return fmt.Errorf("count before: %w", err)
	}
	d.before += n
	res, err = g.Bash(ctx, fmt.Sprintf("grep -l '%s' /proc/[0-9]*/cmdline 2>/dev/null | wc -l", pattern))
	if err != nil {
		return err
	}
	if n, err = count(res); err != nil {
		return fmt.Errorf("count after: %w", err)
	}
	d.after += n
	return nil
}

// silences measures how late the result of a command is whose container is paused.
func (b *bench) silences(ctx context.Context, r *report) error {
	rounds := max(b.rounds/10, 1)
	b.log("a container that does not answer: %d rounds", rounds)
	engine, err := newEngine()
	if err != nil {
		return err
	}
	defer engine.Close()
	for range rounds {
		late, err := b.silence(ctx, engine)
		if err != nil {
			return fmt.Errorf("a container that does not answer: %w", err)
		}
		r.silent = append(r.silent, late)
	}
	return nil
}

// silence pauses a container, as somebody else may, and has a command run in it.
func (b *bench) silence(ctx context.Context, engine *client.Client) (late time.Duration, err error) {
	rt, err := pygent.NewDockerRuntime(ctx, pygent.WithImage(b.image))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rt.Cleanup()) }()
	if _, err := rt.Bash(ctx, "true"); err != nil {
		return 0, err
	}
	list, err := ownContainers(ctx, engine, os.Getpid())
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("want one container, there are %d", len(list))
	}
	if err := engine.ContainerPause(ctx, list[0].ID); err != nil {
		return 0, err
	}
	start := time.Now()
	res, err := rt.Bash(ctx, "true", pygent.BashTimeout(timeLimit))
	late = time.Since(start) - timeLimit - grace
	if err == nil && !res.TimedOut {
		return late, fmt.Errorf("it ran the command: %v", res)
	}
	return late, nil
}

// killed is how long the container or the processes of a killed process outlived
// it.
type killed struct {
	name string
	left samples
}

// killedHosts kills processes that own a runtime in which a command runs.
func (b *bench) killedHosts(ctx context.Context, r *report) error {
	rounds := max(b.rounds/4, 1)
	b.log("host killed: %d rounds", rounds)
	engine, err := newEngine()
	if err != nil {
		return err
	}
	defer engine.Close()
	containers := func(pid int, _ string) (int, error) {
		return containersOf(ctx, engine, pid)
	}
	processes := func(_ int, mark string) (int, error) { return marked(mark) }
	for _, k := range []struct {
		name, key string
		count     func(pid int, mark string) (int, error)
	}{
		{"its containers", keyGuestDocker, containers},
		{"its processes in containers", keyGuestDocker, processes},
		{"its local processes", keyGuestLocal, processes},
	} {
		m := killed{name: k.name}
		for range rounds {
			took, err := b.killOwner(ctx, k.key, k.count)
			if err != nil {
				return fmt.Errorf("host killed, %s: %w", k.name, err)
			}
			m.left = append(m.left, took)
		}
		r.killed = append(r.killed, m)
	}
	return nil
}

// containersOf counts the containers of a process.
func containersOf(ctx context.Context, engine *client.Client, pid int) (int, error) {
	list, err := ownContainers(ctx, engine, pid)
	return len(list), err
}

// ownContainers returns the containers whose labels name a process.
func ownContainers(ctx context.Context, engine *client.Client, pid int) (own []container.Summary, err error) {
	list, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "pygent.runtime"))})
	number := strconv.Itoa(pid)
	for _, c := range list {
		if c.Labels["pygent.pid"] == number || strings.Contains(c.Labels["pygent.owner"], "/"+number+"/") {
			own = append(own, c)
		}
	}
	return own, err
}

// killOwner starts a process that owns a runtime and kills it. It returns how
// long count still found something of it.
func (b *bench) killOwner(ctx context.Context, key string, count func(int, string) (int, error)) (time.Duration, error) {
	mark := markNumber()
	owner, err := b.startOwner(ctx, key, mark)
	if err != nil {
		return 0, err
	}
	pid := owner.Process.Pid
	n, err := count(pid, mark)
	if err == nil && n == 0 {
		err = errors.New("nothing to be left behind")
	}
	start := time.Now()
	err = errors.Join(err, owner.Process.Kill())
	_ = owner.Wait() // the error is that it was killed
	for err == nil && n > 0 && time.Since(start) < 30*time.Second {
		time.Sleep(time.Millisecond)
		n, err = count(pid, mark)
	}
	return time.Since(start), err
}

// markNumber returns a number of seconds for sleep, by which the process can be
// found.
func markNumber() string {
	return fmt.Sprintf("3%09d", time.Now().UnixNano()%1e9)
}

// marked counts this machine's processes that sleep for mark seconds.
func marked(mark string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.HasPrefix(string(line), "sleep\x00"+mark) { // an error means that the process has ended
			n++
		}
	}
	return n, nil
}
