// Package terminal is a session for people at a terminal. A program gets it by
// importing it, as a database driver:
//
//	import _ "github.com/x/pygent/terminal"
//
// [pygent.Agent.RunInteractive] then shows it. What is finished, such as a
// paragraph of the model or a command with its output, is printed and scrolls away
// in the terminal's own scrollback. Below it is a live area: what goes on now, a
// line that says what the agent does, and the editor for the next message. Where
// the input or the output is no terminal, and with TERM=dumb or no TERM, the session is the
// plain one of package lines.
//
// Keys: Enter sends; Ctrl-J, Alt-Enter and, where the terminal tells them apart,
// Shift-Enter begin a new line, and so does Enter after a backslash; a paste is one
// message. Up and Down go through earlier messages, and Ctrl-R looks for one. Ctrl-G
// has the draft edited by $VISUAL or $EDITOR. Ctrl-C clears what was typed, else
// interrupts the turn, and pressed again leaves. Ctrl-D leaves, and Ctrl-Z suspends.
// The keys of a shell's line editor move and erase, and Ctrl-_ undoes. A draft that
// is "?" lists the keys.
//
// A draft that begins with "/" is a command, unless its first word is a path with
// another slash. Its name and arguments are completed:
// Tab takes what is offered, the arrows select, and Esc closes the list. So are names
// of files after "@": the content of a file that a message names, such as @main.go
// or @"a b.txt", goes along as it is when the message is sent.
//
// A draft that begins with "!" is a command line that runs in the workspace, in which
// Tab completes the names of files. The agent does not hear of it. A first message that
// the program brings along goes to the agent, whatever it begins with.
//
// What is sent while the agent works is queued for it; Up takes the last one back.
// The queue is held while a question of the agent waits for its answer, and after a
// turn that failed or was interrupted.
//
// Everything that models, commands and servers say may be hostile. Their control
// characters are made visible before anything else is done with a text.
//
// What the session says begins with a sign, such as "›" before what the person has
// said and "✓" before a call. A line of the model that would begin so has a bar in
// front of it, and what commands and tools print is indented or has one, too.
package terminal

import (
	"context"
	"os"

	"golang.org/x/term"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/lines"
)

func init() { pygent.RegisterFace(pygent.FaceTerminal, Run) }

// Run shows an agent at the terminal until the person leaves or ctx ends. It is
// the [pygent.FaceTerminal] of programs that import this package.
func Run(ctx context.Context, face pygent.FaceSession) error {
	in, isFile := face.In.(*os.File)
	out := screen.New(face.Out)
	if !isFile || !term.IsTerminal(int(in.Fd())) || !out.Terminal() || screen.IsDumb() {
		return lines.Run(ctx, face)
	}
	t, err := openTTY(ctx, in, out)
	if err != nil {
		return lines.Run(ctx, face)
	}
	s := newSession(ctx, face, t)
	defer s.close()
	return s.run()
}
