package web_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/web"
)

func TestNamesAreAddedToThoseOfTheMachine(t *testing.T) {
	s := serveAt(t, web.WithHosts("intranet.example"), web.WithHosts("10.0.0.1:8080"))
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "[::1]:80": http.StatusOK, "Intranet.example:443": http.StatusOK,
		"10.0.0.1:8080": http.StatusOK, "10.0.0.1:80": http.StatusMisdirectedRequest, "evil.example": http.StatusMisdirectedRequest,
	} {
		r := s.request(http.MethodGet, "/sessions", nil)
		if host != "" {
			r.Host = host
		}
		status, _ := s.do(r)
		require.Equal(t, want, status, host)
	}
}
