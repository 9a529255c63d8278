package openai

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/openai/openai-go/v3/option"

	"github.com/x/pygent/internal/openai/window"
)

// maxModelList bounds the list of a server's models. OpenRouter's has about half
// a megabyte.
const maxModelList = 4 << 20

// Window asks the server for the context window of a model, in tokens. It returns
// 0 if the server does not tell. It asks no server of which that is known.
func (c *Client) Window(ctx context.Context, model string) int64 {
	if !window.Tells(c.baseURL.Hostname()) {
		return 0
	}
	model = cmp.Or(model, c.model)
	body := c.get(ctx, "models")
	found, kind := window.InList(body, model)
	path := kind.Path()
	if found > 0 && kind != window.LMStudio || path == "" {
		return found
	}
	// Such a path is of the host, and the SDK refuses addresses that are not below
	// its base.
	host := url.URL{Scheme: c.baseURL.Scheme, Host: c.baseURL.Host, Path: "/"}
	body = c.get(ctx, path, option.WithBaseURL(host.String()))
	if kind == window.LlamaCpp {
		return window.InProps(body)
	}
	told, _ := window.InList(body, model)
	return cmp.Or(told, found)
}

// get returns what the server answers at a path, or nothing.
func (c *Client) get(ctx context.Context, path string, opts ...option.RequestOption) []byte {
	opts = append(opts, option.WithMiddleware(refuseErrorStatus, decodeBody))
	res, err := c.send(ctx, http.MethodGet, path, opts...)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	defer context.AfterFunc(ctx, func() { res.Body.Close() })()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxModelList+1))
	if err != nil || len(body) > maxModelList {
		return nil
	}
	return body
}

// MaxTokens is how many tokens an answer may have; 0 if the server decides.
func (c *Client) MaxTokens() int { return c.maxAnswer }
