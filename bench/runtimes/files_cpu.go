package main

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// carriers are the programs that take part in a copy, besides this one and those that
// it waits for.
var carriers = []string{"dockerd", "containerd-shim", "guest"}

// processorTimes is the processor time of processes by their id, with that of the
// children for which they have waited.
type processorTimes map[int]time.Duration

// processorTimesNow returns the times of this process and of everybody else who may
// take part in copies. On a busy machine they tell more than the clock does.
func processorTimesNow() processorTimes {
	t := processorTimes{os.Getpid(): ownTime()}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		stat, failed := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil || failed != nil || pid == os.Getpid() {
			continue // no process, or it has ended
		}
		name, rest, _ := bytes.Cut(stat[bytes.IndexByte(stat, '(')+1:], []byte(") "))
		fields := strings.Fields(string(rest))
		if len(fields) < 15 || !slices.ContainsFunc(carriers, func(c string) bool { return strings.HasPrefix(string(name), c) }) {
			continue
		}
		for _, ticks := range fields[11:15] {
			n, _ := strconv.ParseInt(ticks, 10, 64)
			t[pid] += time.Duration(n) * time.Second / 100
		}
	}
	return t
}

// since returns the processor time that has passed since before, of processes that were
// there then.
func (t processorTimes) since(before processorTimes) (sum time.Duration) {
	for pid, was := range before {
		if is, ok := t[pid]; ok {
			sum += is - was
		}
	}
	return sum
}
