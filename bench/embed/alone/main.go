// Command alone uses only openai-go and the Docker client. Its size is that of a
// program which does without pygent.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/openai/openai-go/v3"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer engine.Close()
	created, err := engine.ContainerCreate(ctx, &container.Config{Image: "python:3.12-slim"}, &container.HostConfig{AutoRemove: true}, nil, nil, "")
	if err != nil {
		return err
	}
	if err := engine.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return err
	}
	model := openai.NewClient()
	answer, err := model.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    "gpt-5-mini",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello.")},
	})
	if err != nil {
		return err
	}
	fmt.Println(answer.Choices[0].Message.Content)
	return nil
}
