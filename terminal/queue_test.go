package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/faces"
)

func TestWhatIsTakenBackKeepsItsFiles(t *testing.T) {
	image := pygent.Part{ImageURL: "data:image/png;base64,AAAA"}
	named := pygent.Part{ImageURL: "data:image/png;base64,AAAA", FileName: "a b.png"}
	dir := pygent.Part{Text: "src: 2 files", FileName: "src/"}
	for name, tt := range map[string]struct {
		message pygent.Message
		taken   bool
	}{
		"a text":                  {chat.UserMessage("go"), true},
		"files that it names":     {chat.UserMessage(`look at @"a b.png" and @src`, named, dir), true},
		"a file without a name":   {chat.UserMessage("look", image), false},
		"a file it does not name": {chat.UserMessage("look", named), false},
		"a file alone":            {chat.UserMessage("", named), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{}
			s.input.history = openHistory("")
			s.queue.Held = []pygent.Said{{Message: tt.message}}
			text, _ := faces.Spoken(tt.message)
			if !tt.taken {
				_, ok := typedAll(tt.message)
				require.False(t, ok)
				return
			}
			require.True(t, s.takeBack())
			require.Equal(t, text, s.input.editor.message())
			require.Empty(t, s.queue.Held)
		})
	}
}

func TestFilesThatAreReadTooLateAnswerNoQuestion(t *testing.T) {
	for name, tt := range map[string]struct {
		ended turn
		held  int
	}{
		"a question":    {turn{Turn: faces.Turn{Outcome: faces.Outcome{Result: &pygent.Result{Status: pygent.StatusAwaitingUser}}}}, 1},
		"a failed turn": {turn{Turn: faces.Turn{Outcome: faces.Outcome{Err: faces.ErrInterrupted}}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := onBroken(t)
			s.turn = &tt.ended
			s.deliver("look at @a.txt", "look at @a.txt")
			s.turn = nil
			(<-s.posts)()
			require.Len(t, s.queue.Held, tt.held)
			require.Nil(t, s.turn)
			require.Contains(t, s.display.take(), "! not in the workspace: a.txt")
		})
	}
}

func TestACommandIsNoAnswerEvenWhileAnotherOneGoesOn(t *testing.T) {
	s := &session{command: &command{}}
	s.menus = []*menu{{free: true, done: func(int, string) { t.Error("it answered") }}}
	s.input.history = openHistory("")
	s.input.editor.set("/help")
	s.submit()
	require.Equal(t, "/help", s.input.editor.message())
	require.Equal(t, "a command is still running", s.display.hinted)
}

// Whoever writes the next message while the files of one are read, and stops that, is
// told where it is.
func TestAMessageThatIsNotSentIsFoundAgain(t *testing.T) {
	for draft, hint := range map[string]string{"": "not sent", "another": "not sent; press Up to get the message back"} {
		t.Run(hint, func(t *testing.T) {
			s := onRuntime(t, slowRuntime{})
			s.input.history = openHistory("")
			s.input.editor.set("look at @a.txt")
			s.submit()
			s.input.editor.set(draft)
			s.input.attaching.cancel(faces.ErrInterrupted)
			(<-s.posts)()
			require.Equal(t, hint, s.display.hinted)
			if draft != "" {
				require.Equal(t, draft, s.input.editor.message())
				s.vertical("up")
			}
			require.Equal(t, "look at @a.txt", s.input.editor.message())
		})
	}
}
