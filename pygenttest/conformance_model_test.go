package pygenttest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
)

func TestModelsKeepTheirPromises(t *testing.T) {
	for name, api := range map[string]openai.Protocol{"chat completions": openai.Chat, "responses": openai.Responses} {
		t.Run(name, func(t *testing.T) {
			TestModel(t, func(t *testing.T, replies ...Reply) pygent.Model {
				server := NewServer(t, replies...)
				model, err := openai.New(openai.BaseURL(server.URL()), openai.Key("k"), openai.API(api))
				require.NoError(t, err)
				return model
			})
		})
	}
	t.Run("scripted", func(t *testing.T) {
		TestModel(t, func(t *testing.T, replies ...Reply) pygent.Model { return NewScriptedModel(replies...) })
	})
}

// streamingFunc is a model whose stream differs from its answer.
type streamingFunc struct{ pygent.ModelFunc }

func (f streamingFunc) ChatStream(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	emit(pygent.Delta{Text: "something else"})
	return f.Chat(ctx, req)
}

func TestEachCheckFindsAModelThatIsWrong(t *testing.T) {
	after := func(change func(*pygent.ChatResponse, error) (*pygent.ChatResponse, error)) func(pygent.Model) pygent.Model {
		return func(m pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				res, err := m.Chat(ctx, req)
				if err == nil {
					c := *res
					res = &c
				}
				return change(res, err)
			})
		}
	}
	plainError := after(func(res *pygent.ChatResponse, err error) (*pygent.ChatResponse, error) {
		if err != nil {
			err = errors.New("it went wrong")
		}
		return res, err
	})
	faulty := map[string]func(pygent.Model) pygent.Model{
		"text": after(func(res *pygent.ChatResponse, err error) (*pygent.ChatResponse, error) {
			res.Usage = pygent.Usage{}
			return res, err
		}),
		"stream": func(m pygent.Model) pygent.Model { return streamingFunc{m.Chat} },
		"tool calls": after(func(res *pygent.ChatResponse, err error) (*pygent.ChatResponse, error) {
			for i := range res.Message.ToolCalls {
				res.Message.ToolCalls[i].ID = "the same"
			}
			return res, err
		}),
		"temporary errors": plainError,
		"lasting errors":   plainError,
		"cancelling": func(m pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				<-ctx.Done()
				return nil, errors.New("it stopped")
			})
		},
		"the request is the agent's": func(m pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				req.Messages = req.Messages[1:]
				return m.Chat(ctx, req)
			})
		},
		"an empty request": func(pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				return &pygent.ChatResponse{Message: req.Messages[0]}, nil
			})
		},
		"calls at the same time": func(m pygent.Model) pygent.Model {
			var once sync.Once
			var res *pygent.ChatResponse
			var err error
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				once.Do(func() { res, err = m.Chat(ctx, req) })
				return res, err
			})
		},
	}
	for _, check := range modelChecks {
		t.Run(check.name, func(t *testing.T) {
			wrong, ok := faulty[check.name]
			require.True(t, ok, "no model is wrong in this way")
			require.True(t, fails(t, func(t testing.TB) {
				check.run(t, func(replies ...Reply) pygent.Model { return wrong(NewScriptedModel(replies...)) })
			}), "the check does not find it")
		})
	}
}
