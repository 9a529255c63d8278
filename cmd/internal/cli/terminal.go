package cli

// The session that people see at a terminal registers itself. Without it, and
// where the input or the output is no terminal, a session is plain text.
import _ "github.com/x/pygent/terminal"
