package localserver

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyServersOfModelsAreFound(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	serve := func(answer http.HandlerFunc) Server {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		return Server{Name: "one", BaseURL: server.URL + "/v1"}
	}
	lists := serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" && r.Header.Get("Authorization") == "" {
			_, _ = w.Write([]byte(`{"data":[{"id":"qwen3"},{"id":""},{"id":"gemma"}]}`))
		}
	})
	hangs := serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	page := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	empty := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[]}`)) })
	redirects := serve(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, lists.BaseURL+"/models", http.StatusFound)
	})
	found := Find(t.Context(), []Server{hangs, page, lists, empty, redirects, {BaseURL: "http://127.0.0.1:9/v1"}})
	lists.Models = []string{"qwen3", "gemma"}
	require.Equal(t, []Server{lists}, found)
}

func TestOnlyThisMachineIsAsked(t *testing.T) {
	t.Parallel()
	for _, s := range Usual() {
		address, err := url.Parse(s.BaseURL)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", address.Hostname(), s.Name)
	}
}
