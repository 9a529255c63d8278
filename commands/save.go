package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/snapshot"
)

// replaceFlag lets /save replace a snapshot.
const replaceFlag = "--force"

// save keeps the agent in a directory of this machine.
func save(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 1, 2, "/save DIR [--force]")
	if err != nil {
		return err
	}
	var opts []snapshot.SaveOption
	if i := slices.Index(names, replaceFlag); i >= 0 {
		names, opts = slices.Delete(names, i, i+1), append(opts, snapshot.Replace())
	}
	if len(names) != 1 {
		return errors.New("name one directory: /save DIR [--force]")
	}
	dir, err := pathname.Host().Read(names[0])
	if err != nil {
		return err
	}
	s, err := snapshot.Save(ctx, a, dir, opts...)
	switch {
	case errors.Is(err, snapshot.ErrExists):
		return fmt.Errorf("%w; choose another directory, or replace the snapshot: /save %s %s", err, slash.Quote(names[0]), replaceFlag)
	case errors.Is(err, pygent.ErrAgentBusy):
		return fmt.Errorf("%w: wait for it to end, or interrupt it", err)
	case err != nil:
		return err
	}
	count, size := s.Files()
	text := fmt.Sprintf("saved to %s: %s, %s of %s\n", s.Dir(),
		numeral.Count(spoken(a.History()), "message"), numeral.Count(int(count), "file"), numeral.Bytes(size))
	if left := s.LeftOut(); len(left) > 0 {
		const shown = 5
		text += fmt.Sprintf("not saved: %s\n", numeral.Some(left, shown, false))
	}
	_, err = fmt.Fprintf(out, "%sContinue from it: pygent --load %s\n", text, escape.Word(s.Dir()))
	return err
}

// spoken is how many messages a conversation has, without the system message and what
// was undone.
func spoken(h *pygent.History) (n int) {
	for _, e := range h.Current() {
		if e.Message.Role != "" && e.Message.Role != chat.RoleSystem {
			n++
		}
	}
	return n
}
