// Package localserver finds servers of models on this machine: it asks the ports on which
// Ollama, LM Studio, llama.cpp, vLLM and Docker Model Runner listen by default for their
// models. It sends no key, uses no proxy, follows no redirect, and asks no other machine.
package localserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limit is how long the servers may take to answer in all.
const Limit = 500 * time.Millisecond

// maxList is the size of the longest list of models that is read, in bytes.
const maxList = 1 << 20

// Server is a server of models on this machine.
type Server struct {
	Name    string   // such as "Ollama"
	BaseURL string   // of its API
	Models  []string // that it lists
}

// Usual are the servers on their usual ports, without their models.
func Usual() []Server {
	return []Server{
		{Name: "Ollama", BaseURL: "http://127.0.0.1:11434/v1"},
		{Name: "LM Studio", BaseURL: "http://127.0.0.1:1234/v1"},
		{Name: "llama.cpp", BaseURL: "http://127.0.0.1:8080/v1"},
		{Name: "vLLM", BaseURL: "http://127.0.0.1:8000/v1"},
		{Name: "Docker Model Runner", BaseURL: "http://127.0.0.1:12434/engines/v1"},
	}
}

// Find returns those of some servers that list models, in the same order.
func Find(ctx context.Context, servers []Server) []Server {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	transport := &http.Transport{} // without a proxy
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	lists := make([][]string, len(servers)) // each is written by its own goroutine
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { lists[i] = models(ctx, client, s.BaseURL) })
	}
	asking.Wait()
	var found []Server
	for i, s := range servers {
		if s.Models = lists[i]; len(s.Models) > 0 {
			found = append(found, s)
		}
	}
	return found
}

// models returns the names that a server lists; none if it is no server of models.
func models(ctx context.Context, client *http.Client, base string) []string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil
	}
	response, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, maxList)).Decode(&list) != nil {
		return nil
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names
}
