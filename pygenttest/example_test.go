package pygenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func Example() {
	ctx := context.Background()
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Let me look.", pygenttest.Call("bash", map[string]any{"cmd": "ls"})),
		pygenttest.RateLimited(2*time.Second),
		pygenttest.Text("There is one file, main.go."),
	)

	// These lines do what an agent does.
	messages := []pygent.Message{chat.UserMessage("What is here?")}
	for {
		resp, err := model.Chat(ctx, &pygent.ChatRequest{Messages: messages})
		var apiErr *pygent.APIError
		if errors.As(err, &apiErr) && apiErr.Retryable {
			fmt.Println("again after", apiErr.RetryAfter)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Message.Content)
		messages = append(messages, resp.Message)
		if len(resp.Message.ToolCalls) == 0 {
			break
		}
		for _, call := range resp.Message.ToolCalls {
			fmt.Println(call.ID, call.Name, call.Arguments)
			messages = append(messages, chat.ToolMessage(call.ID, "main.go"))
		}
	}

	last := model.Requests()[2].Messages
	fmt.Println(len(last), pygenttest.CheckConversation(last))
	// Output:
	// Let me look.
	// call_1 bash {"cmd":"ls"}
	// again after 2s
	// There is one file, main.go.
	// 3 <nil>
}

func ExampleScriptedModel_On() {
	model := pygenttest.NewScriptedModel(pygenttest.Text("I delegate.")).
		On("Write the tests", pygenttest.Text("I test.")).
		On("Write the docs", pygenttest.Text("I explain."))
	for _, prompt := range []string{"Release it", "Write the docs for it", "Write the tests for it"} {
		resp, err := model.Chat(context.Background(), &pygent.ChatRequest{Messages: []pygent.Message{chat.UserMessage(prompt)}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Message.Content)
	}
	// Output:
	// I delegate.
	// I explain.
	// I test.
}

func ExampleServer() {
	server, err := pygenttest.Start(
		pygenttest.Overloaded(),
		pygenttest.Text("Hello!").WithUsage(pygent.Usage{PromptTokens: 9, CompletionTokens: 2}),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	for range 2 {
		body := strings.NewReader(`{"model":"m1","messages":[{"role":"user","content":"Hi"}],"stream":true}`)
		resp, err := http.Post(server.URL()+"/chat/completions", "application/json", body)
		if err != nil {
			log.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.StatusCode, strings.Count(string(answer), "data: "))
	}
	fmt.Println(server.Requests()[1].Chat.Messages[0].Content, server.Requests()[1].Stream)
	// Output:
	// 503 0
	// 200 4
	// Hi true
}
