package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/starlimit"
)

// Bounds of what is read.
const (
	maxSource = 256 << 10 // bytes of all files
	maxFiles  = 100
)

// dialect is Starlark with sets, and with loops and changing variables outside of
// functions, so that a script can register things in a loop. There is no recursion and no while.
var dialect = &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}

// loader runs a script and what it loads. Only one goroutine uses it.
type loader struct {
	script *Script
	dir    *os.Root
	env    starlark.StringDict
	loaded map[string]*module
	going  []string // the files whose loading goes on, the outermost first
	fns    []*starlark.Function
	source int // bytes that were read
}

// module is a loaded file.
type module struct {
	globals starlark.StringDict
	err     error
}

// load runs the script.
func (s *Script) load(ctx context.Context) error {
	file := s.path
	if !s.project { // the user may keep it elsewhere, behind a link
		var err error
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return fmt.Errorf("script %s: %w", s.path, patherr.Cause(err))
		}
	}
	dir, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("script %s: %w", s.path, patherr.Cause(err))
	}
	defer dir.Close()
	l := &loader{script: s, dir: dir, loaded: map[string]*module{}}
	l.env = starlimit.Environment(predeclared())
	thread := s.newThread("load")
	thread.SetLocal(loaderKey, l)
	thread.Load = l.load
	_, err = s.within(ctx, thread, func() (starlark.Value, error) {
		_, err := l.run(thread, filepath.Base(file), s.path)
		for _, fn := range l.fns {
			fn.Freeze()
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	return s.tryPrompt()
}

// within calls f with a thread of the script, within the limits, and returns where
// its error happened. A step that takes longer than all limits is left behind.
func (s *Script) within(ctx context.Context, thread *starlark.Thread, f func() (starlark.Value, error)) (starlark.Value, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limits := starlimit.Limits{Steps: s.limits.Steps, Time: s.limits.Time, Memory: s.limits.Memory, Over: cancel}
	v, err := safecall.Outlive(ctx, func() (starlark.Value, error) {
		var v starlark.Value
		err := starlimit.Do(ctx, thread, limits, func() (err error) {
			v, err = f()
			return err
		})
		return v, located(err)
	})
	return v, located(err)
}

// newThread returns a thread for a call.
func (s *Script) newThread(name string) *starlark.Thread {
	return &starlark.Thread{Name: name, Print: func(t *starlark.Thread, text string) {
		if s.print != nil {
			s.print(text)
			return
		}
		s.log.Info("script prints", "text", text, "at", t.CallFrame(1).Pos.String())
	}}
}

const loaderKey = "script.loader"

// load is load() of a script: name is relative to the script's directory.
func (l *loader) load(thread *starlark.Thread, name string) (starlark.StringDict, error) {
	clean := path.Clean(name)
	if !filepath.IsLocal(filepath.FromSlash(name)) || path.Ext(clean) != ".star" {
		return nil, errors.New("load takes files of the script's own directory, such as \"lib.star\"")
	}
	if i := slices.Index(l.going, clean); i >= 0 {
		return nil, fmt.Errorf("files load each other: %s", strings.Join(append(slices.Clone(l.going[i:]), clean), " loads "))
	}
	if m := l.loaded[clean]; m != nil {
		return m.globals, m.err
	}
	if len(l.loaded) >= maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	m := &module{}
	l.loaded[clean] = m
	m.globals, m.err = l.run(thread, clean, filepath.Join(filepath.Dir(l.script.path), filepath.FromSlash(clean)))
	return m.globals, m.err
}

// run runs a file. shown is its name in errors.
func (l *loader) run(thread *starlark.Thread, name, shown string) (starlark.StringDict, error) {
	source, err := readFile(l.dir, filepath.FromSlash(name), maxSource-l.source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	l.source += len(source)
	l.script.files = append(l.script.files, shown)
	l.going = append(l.going, name)
	defer func() { l.going = l.going[:len(l.going)-1] }()
	program, err := starlimit.Compile(dialect, shown, source, predeclared())
	if err != nil {
		return nil, located(err)
	}
	globals, err := program.Init(thread, l.env)
	globals.Freeze()
	return globals, err
}

// readFile reads a regular file of at most some bytes below dir.
func readFile(dir *os.Root, name string, most int) ([]byte, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, patherr.Cause(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, patherr.Cause(err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("more than %d KiB of source, which no script has", maxSource>>10)
	}
	return data, nil
}

// Find returns the path of config.star in a directory, if there is one.
func Find(dir string) (path string, found bool) {
	path = filepath.Join(dir, ProjectFile)
	_, err := os.Lstat(path)
	return path, !errors.Is(err, fs.ErrNotExist)
}

// ProjectFile is the name of the script that the command runs if it finds it in the
// working directory.
const ProjectFile = "config.star"

// loading returns the loader of a thread, or an error for a function that is called
// later.
func loading(thread *starlark.Thread, name string) (*loader, error) {
	l, ok := thread.Local(loaderKey).(*loader)
	if !ok {
		return nil, fmt.Errorf("%s works only while the script is loaded, not when a function of it is called", name)
	}
	return l, nil
}

// predeclared are the names that scripts have besides Starlark's own.
func predeclared() starlark.StringDict {
	return starlark.StringDict{
		"after_tool":    registering("after_tool", (*loader).afterTool),
		"before_tool":   registering("before_tool", (*loader).beforeTool),
		"command":       registering("command", (*loader).command),
		"on_end":        registering("on_end", (*loader).onEnd),
		"on_start":      registering("on_start", (*loader).onStart),
		"persona":       registering("persona", (*loader).persona),
		"setting":       registering("setting", (*loader).setting),
		"settings":      registering("settings", (*loader).settings),
		"system_prompt": registering("system_prompt", (*loader).systemPrompt),
		"tool":          registering("tool", (*loader).tool),
		"change":        starlark.NewBuiltin("change", newChange),
		"deny":          starlark.NewBuiltin("deny", newDeny),
		"note":          starlark.NewBuiltin("note", newNote),
		"math":          math.Module,
		"param":         paramModule,
		"quote":         starlark.NewBuiltin("quote", quote),
	}
}

// call is a call of a function that registers something.
type call struct {
	thread *starlark.Thread
	name   string
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

func (c call) unpack(pairs ...any) error {
	return starlark.UnpackArgs(c.name, c.args, c.kwargs, pairs...)
}

// line is where the call is in the script.
func (c call) line() int { return int(c.thread.CallFrame(1).Pos.Line) }

func registering(name string, f func(*loader, call) error) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		l, err := loading(thread, name)
		if err == nil {
			err = f(l, call{thread, name, args, kwargs})
		}
		return starlark.None, err
	})
}

// function checks a function that the script registers: it must take n arguments.
func (l *loader) function(fn starlark.Callable, n int, of string) (*starlark.Function, error) {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return nil, fmt.Errorf("want a function of the script, got %s", fn.Type())
	}
	need := 0
	for i := range f.NumParams() {
		if f.ParamDefault(i) == nil {
			need++
		}
	}
	if !f.HasVarargs() && n >= 0 && (need > n || f.NumParams() < n) {
		return nil, fmt.Errorf("%s takes %s, but is called with %d: def %s(%s)", f.Name(), numeral.Count(f.NumParams(), "argument"), n, f.Name(), of)
	}
	l.fns = append(l.fns, f)
	return f, nil
}

// forbid refuses what a project's script may not do.
func (s *Script) forbid(what string) error {
	if !s.project {
		return nil
	}
	return fmt.Errorf("a file found in the working directory may not %s; if you trust the file, load it with --script %s", what, s.path)
}
