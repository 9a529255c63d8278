// Command attach sends files and an image beside the text of a message. The model
// is scripted and tells what it got, so no key is needed.
package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New(pygent.WithModel(pygent.ModelFunc(answer)))
	if err != nil {
		return err
	}
	defer agent.Close()

	// Attach reads files of this machine, and FilePart takes what is in memory.
	parts, err := chat.Attach("go.mod")
	if err != nil {
		return err
	}
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		return err
	}
	picture, err := chat.FilePart("drawn.png", drawn.Bytes())
	if err != nil {
		return err
	}
	parts = append(parts, picture)
	result, err := agent.RunUntilStop(ctx, "What are these?", pygent.WithParts(parts...), pygent.WithEndOnReply())
	if err != nil {
		return err
	}
	fmt.Println(result.Summary)

	// What no message takes is an error before anything is sent.
	_, err = chat.FilePart("program.exe", []byte{0x4d, 0x5a, 0x90, 0x00})
	fmt.Println("error:", err)
	return nil
}

// answer is a model that tells what the last message holds.
func answer(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	text := "I see:"
	for _, part := range req.Messages[len(req.Messages)-1].Parts {
		switch {
		case part.ImageURL != "":
			text += " an image."
		case part.FileURL != "":
			text += " the file " + part.FileName + "."
		default:
			text += fmt.Sprintf(" %.15q.", part.Text)
		}
	}
	return &pygent.ChatResponse{Message: chat.AssistantMessage(text)}, nil
}
