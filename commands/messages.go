package commands

import (
	"context"
	"errors"
	"slices"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// project asks for an AGENTS.md. What belongs there is said by https://agents.md.
const project = `Write a file AGENTS.md in the workspace, or improve the one that is there, for coding agents that will work here after you. Look at the code, the build files, the tests and the continuous integration first; run what you can, so that each command in the file is one that you have seen work. Say in at most 60 lines: what the project is, how to build, test (also a single test), lint and run it, how the code is laid out, which conventions a change must follow, and what is easily done wrong. Leave out what every agent knows, and what the code says itself. Do not change anything else.`

func describeProject(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
	text := project
	if args != "" {
		text += "\n\nAlso: " + args
	}
	return chat.UserMessage(text), nil
}

// lastMessage is what the user said last in this conversation, with its files.
func lastMessage(_ context.Context, a *pygent.Agent, args string) (pygent.Message, error) {
	if err := nothing(args); err != nil {
		return pygent.Message{}, err
	}
	for _, e := range slices.Backward(a.History().Current()) {
		if e.Compaction != nil && e.Compaction.Anew {
			break
		}
		if e.Message.Role == chat.RoleUser && (e.Source == "" || e.Source == chat.SourceUser) {
			return e.Message, nil
		}
	}
	return pygent.Message{}, errors.New("you have not sent a message yet")
}
