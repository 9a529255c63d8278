package cli

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// printed is what the command prints on standard output.
func printed(t *testing.T, env []string, args ...string) string {
	t.Helper()
	got := finish(t, command(t, env, args...))
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
	return got.stdout
}

func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	overview := printed(t, nil, "help")
	require.Equal(t, overview, printed(t, nil, "--help"))
	require.Equal(t, overview, printed(t, nil, "-h"))
	require.LessOrEqual(t, strings.Count(overview, "\n"), 24)
	for _, command := range []string{"pygent session [MESSAGE]", "pygent run [PROMPT]", "pygent demo", "pygent config", "pygent prune", "pygent completion SHELL", "pygent version", "pygent help [TOPIC]"} {
		require.Contains(t, overview, "\n  "+command)
	}
	for _, args := range [][]string{{"help"}, {"help", "flags"}, {"help", "run"}, {"help", "completion"}, {"help", "session"}, {"help", "sessions"}, {"help", "ui"}, {"help", "script"}, {"help", "prune"}, {"help", "demo"}, {"help", "version"}} {
		for line := range strings.Lines(printed(t, nil, args...)) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), helpWidth, line)
		}
	}
}

func TestSharedFlagsAreShownOnce(t *testing.T) {
	t.Parallel()
	all := printed(t, nil, "help", "flags")
	for _, group := range []string{"Where commands run", "Files", "The model and its limits", "Settings"} {
		require.Contains(t, all, "\n"+group+"\n")
	}
	for _, flag := range []string{"--docker ", "--network NAME", "--mount SOURCE:TARGET[:ro]", "-e, --env NAME=VALUE", "--max-cost AMOUNT"} {
		require.Equal(t, 1, strings.Count(all, "  "+flag), flag)
	}
	require.Equal(t, printed(t, nil, "sessions", "rm", "--help"), printed(t, nil, "help", "sessions", "rm"))
	run := printed(t, nil, "run", "--help")
	require.Equal(t, run, printed(t, nil, "help", "run"))
	require.Contains(t, run, "-q, --quiet")
	require.NotContains(t, run, "--network")
}

func TestConfigTellsWhatIsSetAndWhere(t *testing.T) {
	t.Parallel()
	env := []string{"PYGENT_MODEL=from-the-environment", "OPENAI_API_KEY=sk-very-secret", "OPENAI_BASE_URL=https://models.example.org/v1?key=hidden", "PYGENT_BANNED_APPS=curl"}
	cmd := command(t, env, "config", "--image", "img:1", "-e", "PYGENT_MAX_TIME=5m", "--json")
	project := "banned_apps = ['wget']\n\n[limits]\nmax_steps = 7\n"
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "pygent.toml"), []byte(project), 0o600))
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	var said struct{ Settings []pygent.ConfigSetting }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &said))
	require.NotContains(t, got.stdout, "very-secret")
	require.NotContains(t, got.stdout, "hidden")
	find := func(key string) (found []pygent.ConfigSetting) {
		for _, s := range said.Settings {
			if s.Key == key {
				found = append(found, s)
			}
		}
		return found
	}
	require.Equal(t, []pygent.ConfigSetting{{Key: "model", Source: "environment", Name: "PYGENT_MODEL", Value: "from-the-environment"}}, find("model"))
	require.Equal(t, []pygent.ConfigSetting{{Key: "container.image", Source: "command line", Name: "--image", Value: "img:1"}}, find("container.image"))
	require.Equal(t, []pygent.ConfigSetting{{Key: "limits.max_time", Source: "command line", Name: "-e PYGENT_MAX_TIME", Value: "5m"}}, find("limits.max_time"))
	require.Equal(t, []pygent.ConfigSetting{{Key: "limits.max_steps", Source: "pygent.toml", Line: 4, Name: "limits.max_steps", Value: "7"}}, find("limits.max_steps"))
	require.Equal(t, []pygent.ConfigSetting{
		{Key: "banned_apps", Source: "pygent.toml", Line: 1, Name: "banned_apps", Value: `["wget"]`},
		{Key: "banned_apps", Source: "environment", Name: "PYGENT_BANNED_APPS", Value: "curl"},
	}, find("banned_apps"), "what adds up is all there")
	require.Equal(t, []pygent.ConfigSetting{{Key: "container.memory", Source: "default", Value: "512MiB"}}, find("container.memory"))
	require.Equal(t, "[redacted]", find("openai.api_key")[0].Value)
	require.Equal(t, "https://models.example.org/v1?key=redacted", find("openai.base_url")[0].Value)

	cmd = command(t, env, "config", "--max-steps", "9")
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "pygent.toml"), []byte(project), 0o600))
	got = finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Regexp(t, `(?m)^limits.max_steps +9 +command line --max-steps$`, got.stdout)
	require.Regexp(t, `(?m)^model +from-the-environment +environment PYGENT_MODEL$`, got.stdout)
	require.Contains(t, got.stdout, "Files that were read: pygent.toml")
	require.NotContains(t, got.stdout, "very-secret")
}

func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ words, want []string }{
		{[]string{"ru"}, []string{"run"}},
		{[]string{"--no-docker", "ver"}, []string{"version"}},
		{[]string{"--image", "ru"}, nil}, // a value
		{[]string{"run", "--im"}, []string{"--image"}},
		{[]string{"run", "--qui"}, []string{"--quiet"}},
		{[]string{"--qui"}, nil},
		{[]string{"run", "ru"}, nil}, // a prompt
		{[]string{"--config", ""}, []string{files}},
		{[]string{"--attach", ""}, []string{files}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}},
		{[]string{"help", "fl"}, []string{"flags"}},
	} {
		var got []string
		for line := range strings.Lines(printed(t, nil, append([]string{"complete-words", "--"}, tt.words...)...)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, name)
		}
		require.Equal(t, tt.want, got, tt.words)
	}
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	version := command(t, nil, "version")
	cmd := exec.CommandContext(t.Context(), bash, "-c", `source <(pygent completion bash)
		complete -p pygent
		COMP_WORDS=(pygent run --attach '') COMP_CWORD=3; _pygent 2>/dev/null; printf '%s\n' "${COMPREPLY[@]}"
		COMP_WORDS=(pygent run --att) COMP_CWORD=2; _pygent; printf '%s\n' "${COMPREPLY[@]}"`)
	cmd.Dir = t.TempDir()
	cmd.Env = append(version.Env, "PATH="+filepath.Dir(version.Path)+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "a file.txt"), nil, 0o600))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "complete -F _pygent pygent\na file.txt\n--attach\n", string(out))
}

func TestASessionBeginsWithAMessage(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("Mended."))
	cmd := command(t, server.Env(), "--no-docker", "fix", "the tests")
	cmd.Stdin = strings.NewReader("FAIL: TestX\n")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "Mended.")
	require.Len(t, server.Requests(), 1)
	require.Equal(t, "fix the tests\n\nFAIL: TestX\n", server.Requests()[0].Chat.Messages[1].Text())
}

func TestAPromptAndWhatIsPipedInAreJoined(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args  []string
		stdin io.Reader
		want  string
	}{
		"both":               {[]string{"explain"}, strings.NewReader("the log\n"), "explain\n\nthe log\n"},
		"an empty pipe":      {[]string{"explain"}, strings.NewReader(""), "explain"},
		"no pipe":            {[]string{"explain"}, nil, "explain"},
		"the pipe alone":     {nil, strings.NewReader("the log\n"), "the log\n"},
		"asked for":          {[]string{"explain", "-"}, strings.NewReader("the log\n"), "explain\n\nthe log\n"},
		"asked for, at once": {[]string{"-"}, strings.NewReader("the log\n"), "the log\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "Done."}))
			cmd := command(t, server.Env(), append([]string{"run", "--no-docker", "-q"}, tt.args...)...)
			cmd.Stdin = tt.stdin
			got := finish(t, cmd)
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, tt.want, server.Requests()[0].Chat.Messages[1].Text())
		})
	}
}

func TestAPipeInWhichNothingComesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "Done."}))
	cmd := command(t, server.Env(), "run", "--no-docker", "-q", "go")
	silent, open, err := os.Pipe()
	require.NoError(t, err)
	defer silent.Close()
	defer open.Close()
	cmd.Stdin = silent
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, "nothing arrived on standard input")
	require.Equal(t, "go", server.Requests()[0].Chat.Messages[1].Text())
}

func TestARefusedConnectionIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t)
	env := append(server.Env(), "OPENAI_BASE_URL=http://127.0.0.1:1/v1") // no user may listen there
	got := finish(t, command(t, env, "run", "--no-docker", "go"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "connection refused")
	require.Contains(t, got.stderr, "OPENAI_BASE_URL")
	require.NotContains(t, got.stderr, "retrying in")
}

func TestASessionSaysWhereTheModelIsLookedFor(t *testing.T) {
	t.Parallel()
	env := append(pygenttest.NewServer(t).Env(), "OPENAI_BASE_URL=http://127.0.0.1:1/v1")
	got := finish(t, command(t, env, "--no-docker", "say something"))
	require.Contains(t, got.stdout+got.stderr, "OPENAI_BASE_URL says where it is")
}

func TestARunTakesTheFilesAlongThatItsPromptMentions(t *testing.T) {
	t.Parallel()
	const prompt = "explain @main.go and @none.go"
	for _, args := range [][]string{{"--cwd", prompt}, {prompt}} {
		server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "An empty program."}))
		cmd := command(t, server.Env(), append([]string{"run", "--no-docker"}, args...)...)
		require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "main.go"), []byte("package main\n"), 0o600))
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
		said := server.Requests()[0].Chat.Messages[1].Text()
		if len(args) == 2 {
			require.Equal(t, prompt+"The file main.go:\n```\npackage main\n```", said)
			require.Contains(t, got.stderr, "warning: not in the workspace: none.go\n")
			continue
		}
		require.Equal(t, prompt, said)
		require.Contains(t, got.stderr, "warning: not in the workspace: main.go, none.go (it is a temporary one, which begins empty; --cwd or --workspace DIR works in a directory of yours)\n")
	}
}

func TestAConversationThatGoesOnSaysSo(t *testing.T) {
	t.Parallel()
	history := inFile(t, "h.json", `[{"role":"system","content":"s"},{"role":"user","content":"Count the \u001b[2Jfiles."},{"role":"assistant","content":"There are\n42."}]`)
	server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "Done."}))
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "--history", history, "go"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, "h.json continues after 2 messages")
}

func TestARunTellsWhatGoesWithATemporaryWorkspace(t *testing.T) {
	t.Parallel()
	write := pygenttest.Call("write_file", map[string]any{"path": "notes/a.txt", "content": "a"})
	for _, args := range [][]string{nil, {"--cwd"}} {
		server := pygenttest.NewServer(t, write, pygenttest.Call("stop", nil))
		got := finish(t, command(t, server.Env(), append([]string{"run", "--no-docker"}, append(args, "go")...)...))
		require.Equal(t, 0, got.code, got.stderr)
		require.Equal(t, args == nil, strings.Contains(got.stderr, "deleted with its files: notes/a.txt. pygent --resume "), got.stderr)
	}
}
