package tree

import (
	"runtime"
	"sync"
)

// Bounds of what is written at the same time.
const (
	maxWriters = 4 // of all teams together: each may block a thread
	maxJobs    = 8 // that wait for the members of one team
	bufferSize = 64 << 10
)

// seats are the places of all teams' members.
var seats = make(chan struct{}, maxWriters)

// team makes files while somebody looks for the next ones. It has as many members as
// there are processors, if other teams leave them; without members, jobs are done at
// once.
//
// One goroutine calls do, await and end.
type team struct {
	begun   bool
	size    int // members
	jobs    chan job
	members sync.WaitGroup

	mu    sync.Mutex // guards what follows
	freed *sync.Cond
	paths map[string]bool // of jobs that are not done
	err   error           // the first one
}

// job makes one file.
type job struct {
	path string
	run  func(buf []byte) error
	end  func() // called in any case
}

// begin takes the seats that are free.
func (t *team) begin() {
	t.begun = true
	t.freed = sync.NewCond(&t.mu)
	t.paths = make(map[string]bool)
	t.jobs = make(chan job, maxJobs)
	for range min(runtime.GOMAXPROCS(0), maxWriters) {
		select {
		case seats <- struct{}{}:
			t.size++
			t.members.Go(t.work)
		default:
			return
		}
	}
}

// do leaves a job to the members. The error may be that of an earlier job. buf is for
// a job that is done at once.
func (t *team) do(j job, buf []byte) error {
	if !t.begun {
		t.begin()
	}
	if t.size == 0 {
		defer j.end()
		return j.run(buf)
	}
	t.mu.Lock()
	err := t.err
	if err == nil {
		t.paths[j.path] = true
	}
	t.mu.Unlock()
	if err != nil {
		j.end()
		return err
	}
	t.jobs <- j
	return nil
}

// await waits until nobody makes the file of a path.
func (t *team) await(path string) {
	if t.size == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.paths[path] {
		t.freed.Wait()
	}
}

// end waits until all jobs are done, and returns the first error.
func (t *team) end() error {
	if !t.begun {
		return nil
	}
	close(t.jobs)
	t.members.Wait()
	t.begun, t.size = false, 0
	return t.err
}

// work is a member. After an error, jobs are only ended.
func (t *team) work() {
	defer func() { <-seats }()
	buf := make([]byte, bufferSize)
	for j := range t.jobs {
		t.mu.Lock()
		err := t.err
		t.mu.Unlock()
		if err == nil {
			err = j.run(buf)
		}
		j.end()
		t.mu.Lock()
		if t.err == nil {
			t.err = err
		}
		delete(t.paths, j.path)
		t.freed.Broadcast()
		t.mu.Unlock()
	}
}
