package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
)

// aimockProgram returns the path of the program that scripts/aimock.sh installs.
// Without it the test is skipped, or fails if PYGENT_TEST_REQUIRE_AIMOCK is set.
func aimockProgram(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../.build/aimock/node_modules/@copilotkit/aimock/dist/cli.js")
	require.NoError(t, err)
	_, err = os.Stat(program)
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil && os.Getenv("PYGENT_TEST_REQUIRE_AIMOCK") == "" {
		t.Skip("scripts/aimock.sh has not installed aimock here: ", err)
	}
	require.NoError(t, err)
	return program
}

// startAimock starts a server with the fixtures and returns its address.
func startAimock(t *testing.T) string {
	t.Helper()
	program := aimockProgram(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", program, "--port", "0", "--strict", "--validate-on-load",
		"--chunk-size", "8", "--fixtures", "aimock/fixtures.json")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	addresses, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		readAddress(bufio.NewScanner(stdout), addresses)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		require.Error(t, cmd.Wait(), "it ended by itself")
	})
	address, ok := <-addresses
	require.True(t, ok, "aimock did not start")
	return address
}

// readAddress sends the address that the program prints, and then reads until the
// program ends.
func readAddress(lines *bufio.Scanner, addresses chan<- string) {
	defer close(addresses)
	sent := false
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok && !sent {
			addresses <- strings.TrimSpace(address)
			sent = true
		}
	}
}

// aimockTests runs a test for each protocol, with a server of its own.
func aimockTests(t *testing.T, test func(t *testing.T, address string, run func(prompt string) ran)) {
	for protocol, path := range map[openai.Protocol]string{openai.Chat: chat, openai.Responses: responses} {
		t.Run(string(protocol), func(t *testing.T) {
			address := startAimock(t)
			env := []string{"OPENAI_BASE_URL=" + address + "/v1", "OPENAI_API_KEY=mock", "PYGENT_OPENAI_API=" + string(protocol)}
			test(t, address, func(prompt string) ran { return pygentRun(t, env, prompt) })
			for _, entry := range journal(t, address) {
				require.Equal(t, path, entry.Path)
			}
		})
	}
}

// entry is a request that aimock recorded.
type entry struct {
	Path string
	Body struct {
		Messages []pygent.Message
	}
}

func journal(t *testing.T, address string) []entry {
	t.Helper()
	resp, err := http.Get(address + "/__aimock/journal")
	require.NoError(t, err)
	defer resp.Body.Close()
	var entries []entry
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&entries))
	require.NotEmpty(t, entries)
	http.DefaultClient.CloseIdleConnections()
	return entries
}

func TestAimockTools(t *testing.T) {
	aimockTests(t, func(t *testing.T, address string, run func(string) ran) {
		got := run("Add the numbers.")
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, pygent.StatusStopped, got.result(t).Status)
		require.Equal(t, "It printed 42.", got.result(t).Summary)
		require.Equal(t, 3, got.result(t).Steps)
		require.Equal(t, "I write a program that adds them, and run it.", got.text(), "the text is streamed")
		require.Len(t, journal(t, address), 3)
	})
}

func TestAimockChaosIsRiddenOut(t *testing.T) {
	aimockTests(t, func(t *testing.T, address string, run func(string) ran) {
		prompts := []string{
			"Meet a dropped request.", "Meet a malformed answer.", "Meet a lost connection.", "Meet a cut stream.", "Meet a rate limit.",
		}
		for i, prompt := range prompts {
			got := run(prompt)
			require.Zero(t, got.code, "%s: %s", prompt, got.stderr)
			require.Equal(t, "It went on.", got.result(t).Summary, prompt)
			require.Len(t, got.of(pygent.EventRetry), 1, prompt)
			require.Len(t, journal(t, address), 2*(i+1), prompt)
		}
	})
}

func TestAimockErrorsEndTheRun(t *testing.T) {
	aimockTests(t, func(t *testing.T, _ string, run func(string) ran) {
		for prompt, want := range map[string]string{
			"Meet a wrong key.":      "Incorrect API key provided",
			"Meet an empty account.": "You exceeded your current quota",
		} {
			got := run(prompt)
			require.NotZero(t, got.code, prompt)
			require.Equal(t, pygent.StatusFailed, got.result(t).Status, prompt)
			require.Contains(t, got.stderr+got.result(t).Reason, want)
			require.Empty(t, got.of(pygent.EventRetry), prompt)
		}
	})
}
