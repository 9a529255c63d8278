package openai

import (
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

func FuzzParseErrorBody(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"m","type":"t","param":"p","code":"c"}}`))
	f.Add([]byte(`[{"error":{"code":429,"details":[{"retryDelay":"1s"}]}}]`))
	f.Add([]byte(`{"error":{"error":{"error":{"error":{"error":"deep"}}}}}`))
	f.Add([]byte(`{"detail":[{"loc":["body"]}],"metadata":{"raw":{}}}`))
	f.Add([]byte(`{"error":{"message":"m","code":429,"metadata":{"raw":"{\"error\":{\"message\":\"x\",\"code\":\"c\"}}","headers":{"Retry-After":"1e300"}}}}`))
	f.Add([]byte(`{"error":"Please try again in 1h2m3.5s or retry after 99999999999999999999 days."}`))
	f.Add([]byte("<html>\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := newStatusError(http.StatusTooManyRequests, http.Header{}, body)
		require.NotEmpty(t, e.Message)
		require.True(t, utf8.ValidString(e.Message))
		require.GreaterOrEqual(t, int64(e.RetryAfter), int64(0))
		require.LessOrEqual(t, e.RetryAfter, longestRetryAfter)
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"1", "1.5", "-1", "NaN", "1e400", "6m0s", "1893456000", "1893456000000", "Wed, 21 Oct 2015 07:28:00 GMT", ""} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ratelimit-Reset"} {
			h := http.Header{name: {v}, "X-Ratelimit-Remaining": {"0"}}
			require.GreaterOrEqual(t, int64(retryAfter(h)), int64(0))
		}
	})
}

// TestAnOverloadInWordsIsOne has errors of status 200 that say, by a code or in words, that
// the server is overloaded: they are waited for as those with the status are.
func TestAnOverloadInWordsIsOne(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"error":{"message":"Too many requests"}}`:                                   true,
		`{"error":{"message":"The engine is overloaded, please try again"}}`:          true,
		`{"base_resp":{"status_code":1002,"status_msg":"slow down"}}`:                 true,
		`{"error":{"code":"rate_limit_exceeded","message":"x"}}`:                      true,
		`{"error":{"code":503,"message":"x"}}`:                                        true,
		`{"error":{"message":"Internal error, please try again"}}`:                    false,
		`{"error":{"message":"x"}}`:                                                   false,
		`{"error":{"code":"insufficient_quota","message":"the rate limit is zero"}}`:  false,
		`{"error":{"message":"Unauthorized"}}`:                                        false,
		`{"error":{"code":"tool_use_failed","message":"Failed to call a function."}}`: false,
	} {
		err := responseError(chatstream.NewServerError([]byte(body)), &http.Response{StatusCode: 200, Header: http.Header{}})
		var api *Error
		require.ErrorAs(t, err, &api)
		require.Equal(t, want, api.Retryable && IsOverload(api.Status, api.Err), body)
		if want && api.Status == 0 {
			require.ErrorIs(t, api, errOverloaded)
		}
	}
}
