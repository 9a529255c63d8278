package terminal

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// atPTY makes a session in this process, at a terminal of its own. shown returns what
// the terminal got in the end.
func atPTY(t *testing.T) (s *session, tty *os.File, shown func() string) {
	t.Helper()
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	pty, tty := termtest.OpenPTY(t)
	all := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(pty)
		all <- string(text)
	}()
	t.Cleanup(func() { tty.Close(); pty.Close() })
	terminal, err := openTTY(t.Context(), tty, screen.New(tty))
	require.NoError(t, err)
	face := pygent.FaceSession{Agent: agent, In: tty, Out: tty}
	return newSession(t.Context(), face, terminal), tty, func() string { tty.Close(); return <-all }
}

func TestAPanicOfTheSessionGivesTheTerminalBack(t *testing.T) {
	for name, fails := range map[string]func(s *session) error{
		"in its goroutine": func(s *session) error {
			go s.post(func() { panic("oops") })
			require.PanicsWithValue(t, "oops", func() { defer s.close(); _ = s.run() })
			return nil
		},
		"when it is drawn": func(s *session) error {
			go s.post(func() { s.display.area = nil })
			require.Panics(t, func() { defer s.close(); _ = s.run() })
			return nil
		},
		"in another goroutine": func(s *session) error {
			go s.post(func() { s.background(func() { panic("oops") }) })
			defer s.close()
			return s.run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, tty, shown := atPTY(t)
			before := s.tty.before
			err := fails(s)
			if name == "in another goroutine" {
				require.ErrorContains(t, err, "panic: oops")
			}
			after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.NotZero(t, after.Lflag&unix.ICANON)
			require.NotNil(t, before)
			text := shown()
			require.Contains(t, text, endKeys)
			require.Greater(t, strings.LastIndex(text, "\x1b[?25h"), strings.LastIndex(text, "\x1b[?25l"), "the cursor is shown")
		})
	}
}
