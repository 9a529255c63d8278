// Command tool_server gives an agent the tools of a server that runs beside its
// commands, in the container or in the workspace, and that speaks JSON lines on
// its standard input and output. A scripted model calls them, so no key is needed.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// serverScript is the tool server: a shell script with one tool, which counts
// the lines of a file.
//
//go:embed server.sh
var serverScript []byte

// server is the client's side of a tool server.
type server struct {
	pygent.Process
	mu      sync.Mutex // one request at a time
	answers *json.Decoder
}

// open starts the server in the runtime of an agent, and offers its tools.
func open(ctx context.Context, rt pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
	starter, ok := pygent.RuntimeAs[pygent.ProcessStarter](rt)
	if !ok {
		return nil, errors.New("this runtime starts no processes")
	}
	if err := rt.WriteFile(ctx, "server.sh", serverScript); err != nil {
		return nil, err
	}
	process, err := starter.StartProcess(ctx, "exec sh server.sh")
	if err != nil {
		return nil, err
	}
	s := &server{Process: process, answers: json.NewDecoder(process)}
	var offer struct {
		Name, Description string
		Parameters        json.RawMessage
	}
	if err := s.ask(ctx, "list", &offer); err != nil {
		return s, err
	}
	return s, set(pygent.Tool{
		Name:        offer.Name,
		Description: offer.Description,
		Parameters:  offer.Parameters,
		ReadOnly:    true,
		Unchecked:   true, // the server checks its arguments
		Run: func(ctx context.Context, _ pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
			var answer struct{ Text, Error string }
			if err := s.ask(ctx, args, &answer); err != nil {
				return nil, err
			}
			if answer.Error != "" {
				return nil, errors.New(answer.Error)
			}
			return &pygent.ToolResult{Content: answer.Text}, nil
		},
	})
}

// ask sends a line and reads the answer. When ctx ends first, it ends the server.
func (s *server) ask(ctx context.Context, request, answer any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	line, err := json.Marshal(request)
	if err == nil {
		_, err = s.Write(append(line, '\n'))
	}
	if err == nil {
		err = s.answers.Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("tool server: %w %s", err, s.Stderr())
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("write_file", map[string]any{"path": "poem.txt", "content": "one\ntwo\nthree\n"}),
		pygenttest.Call("count_lines", map[string]any{"path": "poem.txt"}),
		pygenttest.Call("count_lines", map[string]any{"path": "nowhere"}),
		pygenttest.Call("stop", nil),
	)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithToolSource("counter", open))
	if err != nil {
		return err
	}
	defer agent.Close() // ends the server

	if _, err := agent.RunUntilStop(ctx, "How long is the poem?"); err != nil {
		return err
	}
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			fmt.Println(m.Text())
		}
	}
	return nil
}
