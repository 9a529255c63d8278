// Command alone uses only openai-go and the Docker client: it asks a model, whose
// answer streams, and runs the answer as a command in a container. Its size is that
// of a program which does without pygent.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/openai/openai-go/v3"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	command, err := ask(ctx, "Write a shell command that says hello. Answer with the command alone.")
	if err != nil {
		return err
	}
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer engine.Close()
	id, err := start(ctx, engine)
	if err != nil {
		return err
	}
	defer engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	return execute(ctx, engine, id, command)
}

// ask returns the model's answer, which is shown while it arrives.
func ask(ctx context.Context, question string) (string, error) {
	model := openai.NewClient()
	stream := model.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:    "gpt-5-mini",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	})
	defer stream.Close()
	var answer openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		answer.AddChunk(chunk)
		for _, choice := range chunk.Choices {
			fmt.Print(choice.Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		return "", err
	}
	if len(answer.Choices) == 0 {
		return "", fmt.Errorf("the model did not answer")
	}
	return answer.Choices[0].Message.Content, nil
}

// start starts a container that waits for its input to end, and returns its id.
func start(ctx context.Context, engine *client.Client) (string, error) {
	created, err := engine.ContainerCreate(ctx, &container.Config{Image: "python:3.12-slim", Cmd: []string{"cat"}, OpenStdin: true, StdinOnce: true, AttachStdin: true}, &container.HostConfig{AutoRemove: true}, nil, nil, "")
	if err != nil {
		return "", err
	}
	attached, err := engine.ContainerAttach(ctx, created.ID, container.AttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, attached.Close)
	return created.ID, engine.ContainerStart(ctx, created.ID, container.StartOptions{})
}

// execute runs a command in the container and shows its output.
func execute(ctx context.Context, engine *client.Client, id, command string) error {
	exec, err := engine.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"sh", "-c", command}, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	attached, err := engine.ContainerExecAttach(ctx, exec.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	if _, err := stdcopy.StdCopy(os.Stdout, os.Stderr, attached.Reader); err != nil && err != io.EOF {
		return err
	}
	ended, err := engine.ContainerExecInspect(ctx, exec.ID)
	if err != nil {
		return err
	}
	if ended.ExitCode != 0 {
		return fmt.Errorf("exit code %d", ended.ExitCode)
	}
	return nil
}
