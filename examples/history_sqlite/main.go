// Command history_sqlite keeps an agent's conversation in an SQLite database and
// continues it with each start, also after it was killed in the middle of a run:
//
//	go run . chat.db "What is in this directory?"
//	go run . chat.db
//
// It is a module of its own, so that programs that use pygent do not get SQLite.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: history_sqlite DATABASE [MESSAGE]")
	}
	msg := ""
	if len(os.Args) > 2 {
		msg = os.Args[2]
	}
	if err := talk(context.Background(), os.Args[1], msg); err != nil {
		log.Fatal(err)
	}
}

// talk runs the agent with a message, or goes on with what was interrupted.
func talk(ctx context.Context, path, msg string) (err error) {
	db, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := NewStore(ctx, db, "main")
	if err != nil {
		return err
	}
	history, err := chat.LoadHistory(ctx, store)
	if err != nil {
		return err
	}
	agent, err := pygent.New(pygent.WithHistory(history))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close(), history.Close()) }()

	result, err := run(ctx, agent, msg)
	if err != nil {
		return err
	}
	fmt.Println(result.Status)
	fmt.Println(result.Summary)
	return nil
}

func run(ctx context.Context, agent *pygent.Agent, msg string) (*pygent.Result, error) {
	if msg == "" {
		return agent.Resume(ctx)
	}
	return agent.RunUntilStop(ctx, msg)
}
