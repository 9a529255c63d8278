package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/sessions"
)

// Bounds of the free space, in bytes, below which a session may fail, and will.
const (
	little = 1 << 30
	none   = 32 << 20
)

// unknownSpace is the free space where it is unknown.
const unknownSpace = -1

// place is a directory in which a session writes.
type place struct {
	name, dir string
	tries     bool // whether a file is written there, to see that it works
}

// checkDisk looks for free space where sessions write.
func (e *exam) checkDisk(ctx context.Context) {
	places := []place{{"temporary files", os.TempDir(), true}}
	var texts []string
	state := OK
	if dir, err := sessions.Dir(); err == nil {
		places = append(places, place{"sessions", existing(dir), true})
	} else {
		state, texts = Problem, append(texts, fmt.Sprintf("sessions: %v", err))
	}
	if e.cfg.Workspace != "" {
		places = append(places, place{"workspace", existing(e.cfg.Workspace), false})
	}
	if dir := e.engineDir(ctx); dir != "" {
		places = append(places, place{"images", dir, false})
	}
	for _, p := range places {
		text, found := p.look(freeSpace)
		texts = append(texts, text)
		state = worse(state, found)
	}
	do := ""
	if state != OK {
		do = "Free some space there, or choose other directories with TMPDIR and XDG_STATE_HOME."
	}
	e.report("disk", state, strings.Join(texts, "; "), do)
}

// engineDir is the directory of an engine on this machine; empty if that is unknown.
func (e *exam) engineDir(ctx context.Context) string {
	<-e.looked
	if e.engine == nil || !strings.HasPrefix(e.engine.DaemonHost(), "unix:") {
		return ""
	}
	info, err := e.engine.Info(ctx)
	if err != nil {
		return ""
	}
	if _, err := freeSpace(info.DockerRootDir); err != nil { // it is in the engine's own machine
		return ""
	}
	return info.DockerRootDir
}

// look says how much is free in the place, as free counts it, and how bad that is.
func (p place) look(free func(dir string) (int64, error)) (text string, state State) {
	bytes, err := free(p.dir)
	if err == nil && p.tries {
		err = tryWrite(p.dir)
	}
	if err != nil {
		return fmt.Sprintf("%s: %v", p.name, err), Problem
	}
	if bytes == unknownSpace {
		return p.name + ": in " + p.dir, OK
	}
	text = fmt.Sprintf("%s: %s free in %s", p.name, numeral.Bytes(bytes), p.dir)
	switch {
	case bytes < none:
		return text, Problem
	case bytes < little:
		return text, Warning
	}
	return text, OK
}

// tryWrite writes a file into a directory, and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".pygent-doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return cmp.Or(err, f.Close(), os.Remove(f.Name()))
}

// existing is the path, or the nearest directory above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// worse is the more serious one of two states.
func worse(a, b State) State {
	order := []State{OK, Warning, Problem}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
