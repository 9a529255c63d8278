package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// task is something that an agent is asked to do.
type task struct {
	name   string
	prompt string
	local  bool // whether it is always played on the local runtime
	commit bool // whether the files are committed in a repository
	run    []pygent.RunOption
	files  map[string]string // of the workspace
	wants  map[string]string // what the files must contain in the end
	gone   []string          // files that must not be there then
	ends   pygent.Status     // how the run must end; empty for stopped
	parts  []part            // who plays in which conversation; the first that fits
}

// part is the script of one conversation of a task.
type part struct {
	mark string // a text of the conversation's first message
	play func(*player)
}

// game is one play of a task, with a player for each of its conversations. It is
// safe for concurrent use, as the agents of delegated tasks work at the same time.
type game struct {
	task task

	mu      sync.Mutex // guards what follows
	players map[string]*player
	order   []*player // as they came

	calls, resultBytes int
	ended              pygent.Status
	steps, sent        int // by the server; set at the end
}

func newGame(t task) *game { return &game{task: t, players: map[string]*player{}} }

// answer is the reply to a request.
func (g *game) answer(req *pygent.ChatRequest) pygenttest.Reply {
	p := g.player(req)
	if p == nil {
		return pygenttest.Text("I do not know this task.")
	}
	reply, results, calls := p.answer(req)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls += calls
	g.resultBytes += results
	return reply
}

// player returns the player of the conversation, which is known by its first
// message of the user.
func (g *game) player(req *pygent.ChatRequest) *player {
	first := ""
	for _, m := range req.Messages {
		if m.Role == chat.RoleUser {
			first = m.Text()
			break
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.players[first]; p != nil {
		return p
	}
	for _, part := range g.task.parts {
		if strings.Contains(first, part.mark) {
			p := newPlayer(first, part.play)
			g.players[first], g.order = p, append(g.order, p)
			return p
		}
	}
	return nil
}

// end ends the players, wherever they are.
func (g *game) end() {
	for _, p := range g.order {
		p.stopPlay()
	}
}

// count counts the requests. It returns the errors of those that the server
// refused.
func (g *game) count(requests []pygenttest.Request) (err error) {
	for _, r := range requests {
		if r.Chat == nil {
			continue // not to a model
		}
		g.steps++
		g.sent += len(r.Body)
		if r.Err != nil {
			err = errors.Join(err, fmt.Errorf("the server refused a request: %w", r.Err))
		}
	}
	return err
}

// write writes the conversations to a file.
func (g *game) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	for i, p := range g.order {
		fmt.Fprintf(&b, "######## conversation %d\n\n%s\n", i+1, p.transcript.String())
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
