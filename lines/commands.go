package lines

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/pathname"
)

// command carries out a line that begins with a slash. Meanwhile the terminal
// is in its normal mode.
func (s *session) command(ctx context.Context, text string) error {
	var result pygent.CommandResult
	before := s.messages()
	err := s.talk.Lend(func() (err error) {
		out := s.waits.command(text, s.console.Printer)
		defer out.end()
		result, err = s.agent.RunCommand(ctx, text, out)
		return err
	})
	if s.messages() != before {
		s.talk.Offer("") // the question with these options may be gone
	}
	switch {
	case err != nil:
		return err
	case result.Leave:
		return console.ErrLeave
	case result.Resume:
		return s.turn(ctx, func(opts ...pygent.RunOption) (*pygent.Result, error) { return s.agent.Resume(ctx, opts...) })
	case result.Message != nil:
		return s.say(ctx, *result.Message)
	}
	return nil
}

// messages counts the messages that the conversation has now, after all that was undone.
func (s *session) messages() (n int) {
	for _, e := range s.agent.History().Current() {
		if e.Message.Role != "" {
			n++
		}
	}
	return n
}

// shellCommand is the command that runs a line which begins with "!". A program that
// wants such lines adds it, as cmd/pygent does.
const shellCommand = "cmd"

// shell runs a command line of the user's own, such as "!git status". It never gets
// to the model, since it may have what only the user should know.
func (s *session) shell(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	switch {
	case !slices.ContainsFunc(s.agent.Commands(), func(c pygent.Command) bool { return c.Name == shellCommand }):
		return errors.New(`lines that begin with "!" run commands, which this program does not support; it was not sent`)
	case line == "":
		return errors.New("type a command after \"!\"")
	}
	return s.command(ctx, "/"+shellCommand+" "+line)
}

// begin makes the first turn, with a message that the program gave.
func (s *session) begin(ctx context.Context, first pygent.Message) error {
	if len(first.Parts) > 0 || first.Name != "" {
		return s.failure(s.say(ctx, first))
	}
	return s.failure(s.hear(ctx, first.Content))
}

// hear makes a turn that begins with what the user typed, and the files that it
// mentions.
func (s *session) hear(ctx context.Context, text string) error {
	parts, missing, err := s.agent.AttachMentioned(ctx, text)
	if err != nil {
		return err
	}
	for _, name := range pathname.Dragged(text) {
		if image, err := chat.Attach(name); err == nil && image[0].ImageURL != "" {
			image[0].FileName = name
			parts = append(parts, image...)
		}
	}
	for _, p := range parts {
		s.talk.Aside("(with %s)", escape.Name(p.FileName))
	}
	if len(missing) > 0 {
		s.talk.Aside("! %s", pathname.MissingMentions(missing, faces.Describe(ctx, s.agent).Temporary))
	}
	return s.turn(ctx, func(opts ...pygent.RunOption) (*pygent.Result, error) {
		return s.agent.RunUntilStop(ctx, text, append(opts, pygent.WithParts(parts...))...)
	})
}
