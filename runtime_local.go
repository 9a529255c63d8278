package pygent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// stdinScript runs the script on its standard input, which is no argument
// because those are limited to 128 KiB. The script itself reads /dev/null. The
// space keeps eval from taking a leading dash for an option.
const stdinScript = `eval " $(cat)" </dev/null`

// NewLocalRuntime makes a runtime whose commands run on this machine, with the
// rights of this process: nothing confines them. Files are confined to the
// workspace. Commands inherit the environment but not what looks like a
// credential: names that begin with PYGENT_, OPENAI_, ANTHROPIC_ and the like,
// or end with _KEY, _TOKEN, _SECRET or _PASSWORD. Give those that commands need
// with [WithEnv].
//
// ctx bounds the copying of the initial files only. Call Cleanup at the end.
func NewLocalRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	return newLocalRuntime(ctx, o, "")
}

func newLocalRuntime(ctx context.Context, o *runtimeOptions, fallback string) (Runtime, error) {
	shell, err := findShell()
	if err != nil {
		return nil, err
	}
	w, err := openWorkspace(ctx, o, false)
	if err != nil {
		return nil, err
	}
	c := &localCommander{path: shell, dir: w.tree.Dir(), env: inheritedEnv(os.Environ())}
	info := RuntimeInfo{Kind: kindLocal, Workspace: w.tree.Dir(), Network: true, Fallback: fallback}
	return newWorkspaceRuntime(w, c, info, o.env, w.tree.Dir()).from(o), nil
}

// findShell returns the path of bash, else of sh.
func findShell() (string, error) {
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("no shell: neither bash nor sh is in PATH")
}

// credentialPrefixes begin the names of variables of model providers.
var credentialPrefixes = []string{
	"PYGENT_", "OPENAI_", "ANTHROPIC_", "AZURE_OPENAI_", "OPENROUTER_", "GEMINI_", "MISTRAL_", "GROQ_",
	"DEEPSEEK_", "TOGETHER_", "COHERE_", "XAI_",
}

// credentialSuffixes end the names of variables that hold a secret.
var credentialSuffixes = []string{"_KEY", "_APIKEY", "_KEY_ID", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS"}

// inheritedEnv returns the variables that commands may see.
func inheritedEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return slices.ContainsFunc(credentialPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
			slices.ContainsFunc(credentialSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	})
}

// localCommander is a commander that forks on this machine.
type localCommander struct {
	path string   // the shell
	dir  string   // the workspace
	env  []string // inherited by commands

	mu     sync.Mutex
	groups []int // of commands that left processes behind
}

func (c *localCommander) shell(context.Context) string {
	return strings.TrimSuffix(filepath.Base(c.path), ".exe")
}

func (c *localCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	out := newBoundedOutput(spec.maxOutput)
	cmd := exec.Command(c.path, "-c", stdinScript)
	cmd.Dir = filepath.Join(c.dir, filepath.FromSlash(spec.dir))
	cmd.Env = append(append(slices.Clone(c.env), spec.env...), "PWD="+cmd.Dir)
	cmd.Stdin = strings.NewReader(spec.script)
	cmd.Stdout, cmd.Stderr = out, out // equal writers share one pipe: the order is true
	cmd.WaitDelay = leftoverGrace
	ownGroup(cmd)

	start := time.Now()
	if err := cmd.Start(); err != nil {
		return BashResult{ExitCode: -1}, fmt.Errorf("start %s: %w", c.path, err)
	}
	limited, cancel := spec.deadline(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		res := BashResult{Duration: time.Since(start), ExitCode: exitCode(cmd.ProcessState)}
		out.into(&res)
		return res, c.settle(cmd, &res, err)
	case <-limited.Done():
	}
	endGroup(cmd.Process.Pid)
	<-ended
	res := BashResult{Duration: time.Since(start), ExitCode: exitCode(cmd.ProcessState)}
	out.into(&res)
	return res, stopped(limited, &res)
}

// settle looks at what a command that ended by itself left behind.
func (c *localCommander) settle(cmd *exec.Cmd, res *BashResult, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A number is given to another process once its group is empty.
	c.groups = slices.DeleteFunc(c.groups, func(group int) bool { return !groupAlive(group) })
	if groupAlive(cmd.Process.Pid) {
		c.groups = append(c.groups, cmd.Process.Pid)
		res.Note = leftoverNote
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		res.Note = leftoverNote
		return nil
	}
	return err
}

// close ends what commands left in the background.
func (c *localCommander) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range c.groups {
		endGroup(group)
	}
	c.groups = nil
	return nil
}
