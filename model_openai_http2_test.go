package pygent_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/x/pygent"
)

// http2Server answers every request by HTTP/2 in the same way, and sends on got
// once per request. respond gets the request's stream, and says
// whether the connection ends.
func http2Server(t *testing.T, respond func(f *http2.Framer, stream uint32) (last bool), settings ...http2.Setting) (url string, got chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got = make(chan struct{}, 100)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveHTTP2(conn, respond, got, settings) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String(), got
}

// serveHTTP2 serves a connection until the client closes it. Errors of writing
// show in the client.
func serveHTTP2(conn net.Conn, respond func(f *http2.Framer, stream uint32) (last bool), got chan<- struct{}, settings []http2.Setting) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	_ = f.WriteSettings(settings...)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		h := frame.Header()
		switch {
		case h.Type == http2.FrameSettings && !h.Flags.Has(http2.FlagSettingsAck):
			_ = f.WriteSettingsAck()
		case h.Type == http2.FrameHeaders || h.Type == http2.FrameData:
			if h.Type == http2.FrameHeaders {
				got <- struct{}{}
			}
			if h.Flags.Has(http2.FlagDataEndStream) && respond(f, h.StreamID) {
				return
			}
		}
	}
}

func resets(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) { return f.WriteRSTStream(stream, code) != nil }
}

func goesAway(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) { return f.WriteGoAway(stream, code, nil) == nil }
}

// sendsHeaders answers with n headers and no status.
func sendsHeaders(n int) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for i := range n {
			_ = encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 1000) + strconv.Itoa(i)})
		}
		first := block.Next(16 << 10)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: true, EndHeaders: block.Len() == 0})
		for block.Len() > 0 {
			_ = f.WriteContinuation(stream, block.Len() <= 16<<10, block.Next(16<<10))
		}
		return false
	}
}

// TestFaultsOfHTTP2 tells those that the same request meets again from those of
// servers that are overloaded or restarted: golang/go#47635 for PROTOCOL_ERROR,
// anthropics/anthropic-sdk-go#219 for ENHANCE_YOUR_CALM, and curl/curl#22923 for
// HTTP_1_1_REQUIRED.
func TestFaultsOfHTTP2(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		respond  func(*http2.Framer, uint32) bool
		settings []http2.Setting
		want     string // part of an error that a retry would not improve; empty if it may
	}{
		"reset by the protocol":         {respond: resets(http2.ErrCodeProtocol)},
		"reset inside":                  {respond: resets(http2.ErrCodeInternal)},
		"reset as cancelled":            {respond: resets(http2.ErrCodeCancel)},
		"reset as too much":             {respond: resets(http2.ErrCodeEnhanceYourCalm)},
		"goes away":                     {respond: goesAway(http2.ErrCodeInternal)},
		"goes away as too much":         {respond: goesAway(http2.ErrCodeEnhanceYourCalm)},
		"reset for HTTP/1.1":            {respond: resets(http2.ErrCodeHTTP11Required), want: "the server wants HTTP/1.1"},
		"goes away for HTTP/1.1":        {respond: goesAway(http2.ErrCodeHTTP11Required), want: "the server wants HTTP/1.1"},
		"goes away for TLS":             {respond: goesAway(http2.ErrCodeInadequateSecurity), want: "other settings of TLS"},
		"no status":                     {respond: sendsHeaders(1), want: "that is not HTTP"},
		"headers that are too long":     {respond: sendsHeaders(254), want: "no server of a model sends that much"},
		"headers that it does not take": {respond: resets(http2.ErrCodeRefusedStream), settings: []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 10}}, want: "does not take headers of that size"},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := http2Server(t, tt.respond, tt.settings...)
			transport := &http.Transport{Protocols: &http.Protocols{}, MaxResponseHeaderBytes: 256 << 10}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(url), pygent.OpenAIHTTPClient(&http.Client{Transport: transport})),
				pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}))
			_, err := agent.Step(t.Context(), "Go.")
			if tt.want == "" {
				require.True(t, apiError(t, err).Retryable, "%v", err)
				require.GreaterOrEqual(t, len(got), 2) // net/http may have asked again, too
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.False(t, apiError(t, err).Retryable)
			require.LessOrEqual(t, len(got), 1)
		})
	}
}
