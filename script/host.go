package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/starlimit"
)

// host is the context that functions of a script get: what they can do where the
// commands of the agent run. It serves one call.
type host struct {
	ctx      context.Context
	script   *Script
	rt       pygent.Runtime
	check    func(cmd string) error // tells the bans
	agent    string                 // ids
	task     string
	inTool   bool // the call was decided about as one of the model
	readOnly bool
}

// String implements [starlark.Value].
func (h *host) String() string { return "ctx" }

// Type implements [starlark.Value].
func (h *host) Type() string { return "ctx" }

// Freeze implements [starlark.Value].
func (h *host) Freeze() {}

// Truth implements [starlark.Value].
func (h *host) Truth() starlark.Bool { return starlark.True }

// Hash implements [starlark.Value].
func (h *host) Hash() (uint32, error) { return 0, errors.New("unhashable: ctx") }

// AttrNames implements [starlark.HasAttrs].
func (h *host) AttrNames() []string {
	return []string{"agent", "bash", "progress", "read", "task", "write"}
}

// Attr implements [starlark.HasAttrs].
func (h *host) Attr(name string) (starlark.Value, error) {
	switch name {
	case "agent":
		return starlark.String(h.agent), nil
	case "task":
		return orNone(h.task), nil
	case "bash":
		return starlark.NewBuiltin("ctx.bash", h.bash), nil
	case "read":
		return starlark.NewBuiltin("ctx.read", h.read), nil
	case "write":
		return starlark.NewBuiltin("ctx.write", h.write), nil
	case "progress":
		return starlark.NewBuiltin("ctx.progress", h.progress), nil
	}
	return nil, nil
}

func orNone(text string) starlark.Value {
	if text == "" {
		return starlark.None
	}
	return starlark.String(text)
}

// mayAct returns an error if the call must change nothing.
func (h *host) mayAct(what string) error {
	if h.rt == nil {
		return errors.New("there is no runtime here")
	}
	if h.readOnly {
		return fmt.Errorf("a tool with read_only = True may not %s", what)
	}
	if h.inTool {
		return nil
	}
	return h.script.unattended(h.rt, what)
}

// unattended refuses what a project's script would do on its own, without anybody
// deciding about it, where it reaches this machine.
func (s *Script) unattended(rt pygent.Runtime, what string) error {
	if i, ok := pygent.RuntimeAs[pygent.Isolator](rt); ok && i.Isolated() {
		return nil
	}
	return s.forbid(what + " on this machine, outside of a tool's call")
}

// maxBash is the longest that a command of a script may take.
const maxBash = time.Hour

// bash runs a command: ctx.bash(cmd, timeout = 120, dir = "", check = False).
func (h *host) bash(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var cmd, dir string
	var seconds starlark.Value = starlark.MakeInt(120)
	var check bool
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "cmd", &cmd, "timeout?", &seconds, "dir?", &dir, "check?", &check); err != nil {
		return nil, err
	}
	limit, ok := starlark.AsFloat(seconds)
	if !ok || limit <= 0 || limit > maxBash.Seconds() {
		return nil, fmt.Errorf("timeout: want a number of seconds, up to %d", int(maxBash.Seconds()))
	}
	if err := h.mayAct("run commands"); err != nil {
		return nil, err
	}
	if err := h.check(cmd); err != nil {
		return nil, err
	}
	opts := []pygent.BashOption{pygent.BashTimeout(time.Duration(limit * float64(time.Second)))}
	if dir != "" {
		opts = append(opts, pygent.BashDir(dir))
	}
	defer starlimit.Pause(thread)()
	r, err := h.rt.Bash(h.ctx, cmd, opts...)
	if err == nil {
		err = starlimit.Charge(thread, int64(len(r.Output)))
	}
	if err != nil {
		return nil, err
	}
	if check && (r.ExitCode != 0 || r.TimedOut) {
		return nil, errors.New(strings.TrimSpace(r.String()))
	}
	return record(starlark.StringDict{
		"output":    starlark.String(r.Output),
		"exit_code": starlark.MakeInt(r.ExitCode),
		"ok":        starlark.Bool(r.ExitCode == 0 && !r.TimedOut),
		"timed_out": starlark.Bool(r.TimedOut),
		"truncated": starlark.Bool(r.Truncated),
	}), nil
}

// maxRead bounds a file that a script reads, in bytes.
const maxRead = 4 << 20

// read reads a file: ctx.read(path, default = None).
func (h *host) read(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var path string
	var otherwise starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "path", &path, "default?", &otherwise); err != nil {
		return nil, err
	}
	if h.rt == nil {
		return nil, errors.New("there is no runtime here")
	}
	defer starlimit.Pause(thread)()
	data, err := h.readFile(path)
	switch {
	case err != nil && otherwise != nil && h.ctx.Err() == nil:
		return otherwise, nil
	case err != nil:
		return nil, err
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s is no text in UTF-8", path)
	}
	return starlark.String(data), starlimit.Charge(thread, int64(len(data)))
}

func (h *host) readFile(path string) ([]byte, error) {
	ranges, ok := pygent.RuntimeAs[pygent.RangeReader](h.rt)
	if !ok {
		return h.rt.ReadFile(h.ctx, path)
	}
	data, size, err := ranges.ReadFileRange(h.ctx, path, 0, maxRead)
	if err == nil && size > maxRead {
		err = fmt.Errorf("%s has %d bytes, and a script reads files of up to %d MiB", path, size, maxRead>>20)
	}
	return data, err
}

// write writes a file: ctx.write(path, text).
func (h *host) write(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var path, text string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "path", &path, "text", &text); err != nil {
		return nil, err
	}
	if err := h.mayAct("write files"); err != nil {
		return nil, err
	}
	defer starlimit.Pause(thread)()
	return starlark.None, h.rt.WriteFile(h.ctx, path, []byte(text))
}

// progress tells how far a tool is: ctx.progress(text, current, total).
func (h *host) progress(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var p pygent.ProgressInfo
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &p.Text, "current?", &p.Current, "total?", &p.Total); err != nil {
		return nil, err
	}
	pygent.Progress(h.ctx, p)
	return starlark.None, nil
}
