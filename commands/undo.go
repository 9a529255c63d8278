package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
)

func undo(ctx context.Context, a *pygent.Agent, args string, _ io.Writer) error {
	turns, err := turnsIn(args)
	if err == nil {
		_, err = a.Undo(ctx, turns) // the event tells
	}
	return err
}

func redo(ctx context.Context, a *pygent.Agent, args string, _ io.Writer) error {
	if err := nothing(args); err != nil {
		return err
	}
	_, err := a.Redo(ctx) // the event tells
	return err
}

// turnsIn returns the number of turns that arguments say; the default is one.
func turnsIn(args string) (int, error) {
	if args == "" {
		return 1, nil
	}
	turns, err := strconv.Atoi(args)
	if err != nil || turns < 1 {
		return 0, errors.New("give a number of turns such as 2, or nothing for the last turn")
	}
	return turns, nil
}

// maxTurns is how many turns are offered.
const maxTurns = 100

// lastTurns completes a number of turns, by when they began and with what words.
func lastTurns(_ context.Context, a *pygent.Agent, _ []string) (words []string) {
	moved := map[int64]bool{}
	for _, c := range a.Checkpoints() {
		moved[c.ID] = c.HeadMoved
	}
	for n := 1; n <= maxTurns; n++ {
		c, err := a.CheckpointBefore(n)
		if err != nil {
			break
		}
		about := []string{numeral.Ago(time.Since(c.Time)), cmp.Or(c.Message, "(no words)")}
		if !c.Files {
			about = append(about, "without files")
		}
		if moved[c.ID] {
			about = append(about, "git's HEAD has moved since")
		}
		words = append(words, fmt.Sprintf("%d\t%s", n, strings.Join(about, " · ")))
	}
	return words
}

// changedSince completes a path of /diff: after a number of turns, what these have
// changed.
func changedSince(ctx context.Context, a *pygent.Agent, words []string) (names []string) {
	turns, err := turnsIn(words[0])
	if err != nil {
		return nil
	}
	changes, _, err := changesOf(ctx, a, turns)
	if err != nil {
		return nil
	}
	for _, c := range changes {
		names = append(names, c.Path)
	}
	return sortedNames(names)
}

// changesOf returns what the last turns changed, by their checkpoints.
func changesOf(ctx context.Context, a *pygent.Agent, turns int) (changes []pygent.FileChange, more bool, err error) {
	before, err := a.CheckpointBefore(turns)
	list := a.Checkpoints()
	if err != nil && len(list) == 0 {
		return nil, false, errors.New("no turn has a checkpoint yet, so there is nothing to compare")
	}
	if err != nil {
		return nil, false, err
	}
	last := list[len(list)-1]
	if !before.Files || !last.Files {
		return nil, false, errors.New("the checkpoints of these turns have no files")
	}
	return a.Differences(ctx, before.ID, last.ID)
}
