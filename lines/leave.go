package lines

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/sessions"
)

// temporaryWithin is how long the list of a temporary workspace's files may take.
const temporaryWithin = 5 * time.Second

// temporaryFiles is TemporaryFiles in a bounded time. Nothing is known of a runtime
// that does not answer.
func (s *session) temporaryFiles(ctx context.Context, besides ...pygent.FileInfo) (files []pygent.FileInfo, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, temporaryWithin)
	defer cancel()
	return s.agent.TemporaryFiles(ctx, besides...)
}

// leaveFiles asks the person what becomes of the files of a temporary workspace,
// besides those that were in it when the session began. If nobody can be asked, it
// says which files go. Nobody is told who has left by a signal.
func (s *session) leaveFiles(ctx context.Context, besides []pygent.FileInfo) {
	if ctx.Err() != nil {
		return
	}
	files, more, err := s.temporaryFiles(ctx, besides...)
	switch {
	case errors.Is(err, pygent.ErrRuntimeStart), errors.Is(err, pygent.ErrRuntimeClosed), err == nil && len(files) == 0 && !more:
		return
	case s.talk.Asks():
		left := leftFiles{session: s, more: more || err != nil}
		for _, f := range files {
			left.files = append(left.files, export.File{Path: f.Path, Size: f.Size, Mode: f.Mode})
		}
		if err != nil {
			s.talk.Aside("! the files of the temporary workspace could not be listed: %v", err)
		}
		if left.ask(ctx) || ctx.Err() != nil {
			return
		}
	}
	if err != nil {
		s.talk.Aside("(the temporary workspace is deleted with its files, which could not be listed: %v)", err)
		return
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	s.talk.Aside("(%s)", export.Gone(names, more, restorable(s.agent)))
}

// restorable returns the ID of the session that puts the files back when it goes on;
// empty if there is none, or if its last checkpoint has no files.
func restorable(a *pygent.Agent) string {
	info, ok := sessions.Of(a)
	list := a.Checkpoints()
	if !ok || len(list) == 0 || !list[len(list)-1].Files {
		return ""
	}
	return info.ID
}

// leftFiles are the files of a temporary workspace about which a person decides at
// the end of a plain session.
type leftFiles struct {
	*session
	files []export.File
	more  bool // there are others
}

// mostRefusals is how often in a row a person may leave the question about the files
// by Ctrl-C or Ctrl-D. A terminal that has gone does so for ever.
const mostRefusals = 2

// ask asks until there is an answer that could be carried out, and reports whether
// there was one.
func (l *leftFiles) ask(ctx context.Context) (answered bool) {
	for refused := 0; refused < mostRefusals && !answered && ctx.Err() == nil; {
		refused++
		l.talk.Do(ctx, func(ctx context.Context) error {
			here := export.FreeName(".", time.Now())
			dir, err := l.choose(ctx, here)
			switch {
			case err != nil && refused < mostRefusals:
				l.talk.Aside("(press k to keep the files, d to delete them)")
				return nil
			case err != nil:
				return nil
			case dir == "":
				l.talk.Aside("(the files are deleted)")
				answered = true
				return nil
			}
			refused = 0
			err = l.keepIn(ctx, dir)
			answered = err == nil
			return err
		})
	}
	return answered
}

// choose asks what becomes of the files. It returns the directory in which they are
// to be kept, which is here unless the person names another, or none.
func (l *leftFiles) choose(ctx context.Context, here string) (dir string, err error) {
	q := console.Question{
		Head:   export.Question(l.files, l.more),
		Title:  "Its files",
		Text:   export.List(l.files, l.more),
		List:   true,
		Prompt: fmt.Sprintf("[k]eep them in %s, \"k DIR\" keeps them in DIR, or [d]elete them: ", "."+string(filepath.Separator)+here),
	}
	for {
		answer, err := l.console.Question(ctx, q)
		if err != nil {
			return "", err
		}
		verb, dir, _ := strings.Cut(answer, " ")
		dir = strings.TrimSpace(dir)
		switch verb = strings.ToLower(verb); {
		case dir == "" && (verb == "k" || verb == "keep" || verb == "y" || verb == "yes"):
			return here, nil
		case verb == "k" || verb == "keep":
			meant, err := pathname.Host().Read(dir)
			if err == nil {
				return meant, nil
			}
			l.talk.Aside("! %v", err)
		case dir == "" && (verb == "d" || verb == "delete" || verb == "n" || verb == "no"):
			return "", nil
		}
		l.talk.Aside("(answer k or d, or k and a directory)")
	}
}

// keepIn copies the files to a directory, and says where they are.
func (l *leftFiles) keepIn(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, export.Within)
	defer cancel()
	lost, err := l.agent.KeepTemporary(limited, dir)
	if err != nil {
		return err
	}
	l.talk.Aside("(the files are in %s)", dir)
	special, unread := export.NotCopied(l.files, lost)
	for _, note := range []string{special, unread} {
		if note != "" {
			l.talk.Aside("! %s", note)
		}
	}
	return nil
}
