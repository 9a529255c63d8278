package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/x/pygent/internal/testkit/strict"
)

// serverVariable makes this program the server.
const serverVariable = "PYGENT_BENCH_PEERS_SERVER"

// What the user says, which tells the server what to answer. A number follows.
const (
	askSteps  = "steps to make: "
	askChunks = "chunks to write: "
)

// The servers that a peer may ask: one that checks each request, and one that is quick.
const (
	strictServer = "/strict/v1"
	quickServer  = "/quick/v1"
)

// startServer starts the server as a process of its own, and returns its URL. The server
// ends when its input does: with stop, or with this process.
func startServer(ctx context.Context) (url string, stop func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func() error {
		in.Close()
		return cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("the server said no address: %w", errors.Join(err, stop()))
	}
	return strings.TrimSpace(line), stop, nil
}

// serve answers requests until its input ends.
func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler()}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+quickServer+"/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		if body, ok := bodyOf(w, r); ok {
			answer(w, body)
		}
	})
	mux.HandleFunc("POST "+strictServer+"/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		if body, ok := bodyOf(w, r); ok && accepts(w, body) {
			answer(w, body)
		}
	})
	return mux
}

// bodyOf reads a body, whose length the client must have told.
func bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength < 0 {
		http.Error(w, "the length of the body is not known", http.StatusLengthRequired)
		return nil, false
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// accepts refuses what OpenAI refuses, but for the index of a call, which eino sends back.
func accepts(w http.ResponseWriter, body []byte) bool {
	request, refusal := strict.Parse(body, func(field string) bool { return field == "index" })
	if refusal == nil {
		refusal = strict.OpenAIChat(request)
	}
	if refusal == nil && bytes.Contains(body, []byte(`"stream":true`)) {
		return true
	}
	if refusal == nil {
		refusal = &strict.Refusal{Status: http.StatusBadRequest, Message: "the answer is to be streamed"}
	}
	http.Error(w, refusal.Message, refusal.Status)
	return false
}

// answer does what the user asked for last.
func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	steps, since := asked(body, askSteps)
	if chunks, later := asked(body, askChunks); len(later) < len(since) {
		write(w, written.words(chunks))
		return
	}
	// As many results as there are since then, so many steps were made.
	if made := bytes.Count(since, []byte(`"tool_call_id"`)); made+1 < steps {
		write(w, written.toolCall(made))
		return
	}
	write(w, written.words(10))
}

// write sends an answer as fast as the client reads it. A client that went away is no
// error of the server's.
func write(w io.Writer, answer []byte) { _, _ = w.Write(answer) }

// answers are kept, so that writing them takes no time in which clients would wait.
type answers struct {
	mu   sync.Mutex
	kept map[string][]byte
}

var written = answers{kept: map[string][]byte{}}

func (a *answers) words(n int) []byte {
	return a.once(askChunks+strconv.Itoa(n), func() []byte { return words(n) })
}

func (a *answers) toolCall(number int) []byte {
	return a.once(askSteps+strconv.Itoa(number), func() []byte { return toolCall(number) })
}

func (a *answers) once(key string, make func() []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept[key] == nil {
		a.kept[key] = make()
	}
	return a.kept[key]
}

// asked returns the number that the user said last after the given words, and what
// follows in the body, which is all of it if the user did not say them.
func asked(body []byte, say string) (int, []byte) {
	i := bytes.LastIndex(body, []byte(say))
	if i < 0 {
		return 0, body
	}
	rest := body[i+len(say):]
	digits := rest[:bytes.IndexByte(append(rest, '"'), '"')]
	n, _ := strconv.Atoi(string(digits))
	return n, rest
}

// words is an answer of n chunks with text.
func words(n int) []byte {
	var w bytes.Buffer
	chunk(&w, map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for i := range n {
		chunk(&w, map[string]any{"content": fmt.Sprintf(" word%d", i%10)}, nil)
	}
	finish(&w, "stop")
	return w.Bytes()
}

// toolCall is an answer that calls the tool, its arguments in pieces as models write
// them.
func toolCall(number int) []byte {
	var w bytes.Buffer
	function := map[string]any{"name": toolName, "arguments": ""}
	call := map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", number), "type": "function", "function": function}
	chunk(&w, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}, "refusal": nil}, nil)
	for _, piece := range []string{`{"`, `path`, `":"`, `internal`, `/tree`, `/tree.go`, `","line":`, strconv.Itoa(number), `}`} {
		chunk(&w, map[string]any{"tool_calls": []any{map[string]any{"index": 0, "function": map[string]any{"arguments": piece}}}}, nil)
	}
	finish(&w, "tool_calls")
	return w.Bytes()
}

// finish writes the end of an answer.
func finish(w *bytes.Buffer, reason string) {
	chunk(w, map[string]any{}, reason)
	event(w, map[string]any{"choices": []any{}, "usage": map[string]any{
		"prompt_tokens": 1200, "completion_tokens": 40, "total_tokens": 1240,
		"prompt_tokens_details":     map[string]any{"cached_tokens": 1024, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}})
	w.WriteString("data: [DONE]\n\n")
}

// chunk writes a chunk with a piece of the message.
func chunk(w *bytes.Buffer, delta map[string]any, reason any) {
	event(w, map[string]any{
		"choices": []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}},
		"usage":   nil, "obfuscation": "Xd3kQ9",
	})
}

// event writes an event with the fields that each of OpenAI's chunks has.
func event(w *bytes.Buffer, fields map[string]any) {
	fields["id"] = "chatcmpl-CabcdefGHIJKLmnopqrstuvwxyz01"
	fields["object"] = "chat.completion.chunk"
	fields["created"] = 1763900000
	fields["model"] = "gpt-4.1-mini-2025-04-14"
	fields["service_tier"] = "default"
	fields["system_fingerprint"] = "fp_0123456789"
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // cannot happen for these maps
	}
	fmt.Fprintf(w, "data: %s\n\n", data)
}
