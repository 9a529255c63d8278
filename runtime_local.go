package pygent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/guest"
)

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
	info := RuntimeInfo{Kind: kindLocal, Workspace: w.tree.Dir(), Network: true, Temporary: w.temporary, Fallback: fallback}
	return newWorkspaceRuntime(w, hostFiles{w.tree}, c, info, o, w.tree.Dir())
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

// spillPrefix begins the name of the directory where a guest keeps long outputs.
const spillPrefix = ".pygent-"

// localCommander is a commander on this machine. Its guest is started by the
// first command, so that a runtime that runs none costs no process.
type localCommander struct {
	path string   // the shell
	dir  string   // the workspace
	env  []string // inherited by commands

	mu      sync.Mutex // guards current, also while one is started
	current *guestCommander
}

func (c *localCommander) shell(context.Context) string { return shellName(c.path) }

func (c *localCommander) guest(ctx context.Context) (*guest.Client, error) {
	g, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	return g.client, nil
}

// ready returns a guest that runs, starting one when there is none.
func (c *localCommander) ready(ctx context.Context) (*guestCommander, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		select {
		case <-c.current.client.Done():
			_ = c.shut() // it died; its processes went with it
			c.current = nil
		default:
			return c.current, nil
		}
	}
	client, err := guest.StartLocal(ctx, c.env, guest.Config{Workspace: c.dir})
	if err != nil {
		return nil, err
	}
	c.current = &guestCommander{client: client}
	return c.current, nil
}

func (c *localCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	g, err := c.ready(ctx)
	if err != nil {
		return BashResult{ExitCode: -1}, err
	}
	return g.run(ctx, spec)
}

func (c *localCommander) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	return c.shut()
}

// shut ends the current guest, and removes the long outputs that one which
// was killed could not remove itself. The caller holds mu.
func (c *localCommander) shut() error {
	err := c.current.close()
	// The guest has our rights, but a path that it names is not to be trusted.
	if spill := c.current.client.Info().Spill; strings.HasPrefix(filepath.Base(spill), spillPrefix) {
		err = errors.Join(err, os.RemoveAll(spill))
	}
	return err
}
