package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/web"
)

// nowhere is a runtime in which nothing runs.
type nowhere struct{ pygent.Runtime }

func (nowhere) Cleanup() error { return nil }

// writer is a model that writes pieces, and knows when it wrote each.
type writer struct {
	bench *bench

	mu    sync.Mutex // guards wrote
	wrote []time.Time
}

// Chat is the answer of a model that does not stream; the agent asks for a stream.
func (m *writer) Chat(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	return m.ChatStream(ctx, req, func(pygent.Delta) {})
}

// ChatStream writes the pieces, each with its number.
func (m *writer) ChatStream(ctx context.Context, _ *pygent.ChatRequest, onDelta func(pygent.Delta)) (*pygent.ChatResponse, error) {
	var text strings.Builder
	rest := time.NewTicker(m.bench.pause)
	defer rest.Stop()
	for i := range m.bench.pieces {
		piece := fmt.Sprintf("piece%d of the **answer**, in `words`. ", i)
		if i%10 == 9 {
			piece += "\n\n"
		}
		m.mu.Lock()
		m.wrote = append(m.wrote, time.Now())
		m.mu.Unlock()
		onDelta(pygent.Delta{Text: piece})
		text.WriteString(piece)
		select {
		case <-rest.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: text.String()}}, nil
}

// stream has all sessions stream at once, and measures until their pages have it all.
func (b *bench) stream(ctx context.Context) error {
	server, err := web.New(web.WithUser(func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }))
	if err != nil {
		return err
	}
	behind := httptest.NewServer(server)
	defer behind.Close()
	defer server.Close()
	before := memory()
	pages := make([]*page, b.sessions)
	for i := range pages {
		model := &writer{bench: b}
		agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(nowhere{}))
		if err != nil {
			return err
		}
		defer agent.Close()
		user := strconv.Itoa(i)
		id, err := server.Add(user, agent)
		if err != nil {
			return err
		}
		pages[i] = &page{model: model, url: behind.URL + "/api/v1", user: user, id: id, bench: b}
	}
	b.idle = memory() - before
	began, busy := time.Now(), processorTime()
	errs := make([]error, len(pages))
	var all sync.WaitGroup
	for i, p := range pages {
		all.Go(func() { errs[i] = p.follow(ctx) })
	}
	all.Wait()
	b.took, b.busy = time.Since(began), processorTime()-busy
	b.streaming = memory() - before
	for _, p := range pages {
		b.delays = append(b.delays, p.delays...)
	}
	return errors.Join(errs...)
}

// memory is what is in use, once what is not is collected.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// page is the browser of a user, who looks at one session.
type page struct {
	bench         *bench
	model         *writer
	url, user, id string
	delays        []time.Duration
}

// post makes a request of the page.
func (p *page) post(ctx context.Context, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-User", p.user)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", path, resp.Status)
		resp.Body.Close()
	}
	return resp, err
}

// numbered is the number of a piece in the HTML.
var numbered = regexp.MustCompile(`piece(\d+) `)

// follow says something, and reads the stream until the last piece is there.
func (p *page) follow(ctx context.Context) error {
	stream, err := p.post(ctx, "/stream", `{"views":{"`+p.id+`":""}}`)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	said, err := p.post(ctx, "/sessions/"+p.id+"/messages", `{"text":"Write."}`)
	if err != nil {
		return err
	}
	said.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 16<<20)
	for len(p.delays) < p.bench.pieces && lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			p.note(data)
		}
	}
	if len(p.delays) < p.bench.pieces {
		return fmt.Errorf("the stream ended after %d pieces: %w", len(p.delays), lines.Err())
	}
	return nil
}

// note notes the pieces that an operation brings for the first time.
func (p *page) note(data []byte) {
	var op struct{ Op, HTML string }
	if json.Unmarshal(data, &op) != nil || op.Op != "put" {
		return
	}
	now := time.Now()
	p.model.mu.Lock()
	defer p.model.mu.Unlock()
	for _, found := range numbered.FindAllStringSubmatch(op.HTML, -1) {
		if n, err := strconv.Atoi(found[1]); err == nil && n == len(p.delays) {
			p.delays = append(p.delays, now.Sub(p.model.wrote[n]))
		}
	}
}
