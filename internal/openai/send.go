package openai

import (
	"context"
	"net/http"
	"slices"

	"github.com/openai/openai-go/v3/option"
)

// send sends a request below the client's base URL, once, and returns its response.
//
// It does what the SDK's Client.Execute does, but without the Client, whose package
// has every endpoint. Its types register with a decoder when the program starts, so the
// linker keeps them with all their methods: 17 MB in every program that embeds an agent.
func (c *Client) send(ctx context.Context, method, path string, opts ...option.RequestOption) (res *http.Response, err error) {
	cfg := zeroOf(option.WithMaxRetries(0).Apply) // the agent repeats
	if cfg.Request, err = http.NewRequestWithContext(ctx, method, path, nil); err != nil {
		return nil, err
	}
	cfg.Context = ctx
	cfg.ResponseBodyInto = &res
	if err := cfg.Apply(slices.Concat(c.options, opts)...); err != nil {
		return nil, err
	}
	if err := cfg.Execute(); err != nil {
		return nil, err
	}
	return res, nil
}

// zeroOf returns a zero value of what a function takes. The SDK's request
// configuration is a type that has no name outside the SDK.
func zeroOf[T any](func(*T) error) *T { return new(T) }
