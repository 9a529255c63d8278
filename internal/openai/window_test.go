package openai

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWindowIsAskedWhereTheServerTellsIt(t *testing.T) {
	for name, test := range map[string]struct {
		owner, path, answer string
	}{
		"llama.cpp": {"llamacpp", "/props", `{"default_generation_settings":{"n_ctx":8192}}`},
		"LM Studio": {"organization_owner", "/api/v0/models", `{"data":[{"id":"m","loaded_context_length":8192}]}`},
		"Ollama":    {"library", "/api/ps", `{"models":[{"name":"m","context_length":8192}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"` + test.owner + `"}]}`, test.path: test.answer}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer sk-test" || r.URL.Query().Get("tenant") != "ours" {
					http.Error(w, "who asks?", http.StatusUnauthorized)
					return
				}
				io.WriteString(w, answers[r.URL.Path])
			}))
			defer server.Close()
			client := testClient(t, Config{BaseURL: server.URL + "/v1?tenant=ours", Model: "m"})
			defer client.CloseIdleConnections()
			require.EqualValues(t, 8192, client.Window(t.Context(), ""))
		})
	}
}
