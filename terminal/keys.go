package terminal

import "strings"

// keysHelp says which keys there are, for a draft that is a question mark.
var keysHelp = [][2]string{
	{"Enter", "send"},
	{"Ctrl-J, Alt-Enter", "start a new line; also \\ before Enter"},
	{"Ctrl-C", "clear the input, or interrupt; again: leave"},
	{"Ctrl-D, Ctrl-Z", "leave; suspend"},
	{"/", "a command; /help lists them"},
	{"@", "attach a file of the workspace"},
	{"!", "run a command in the workspace, unseen by the agent"},
	{"Tab, Up, Down, Esc", "complete; select; close the list"},
	{"Up, Down", "edit queued messages; earlier messages"},
	{"Ctrl-R", "search earlier messages"},
	{"Ctrl-G", "edit in $VISUAL or $EDITOR"},
	{"Ctrl-A, -E, -K, -U, -W, -Y", "start and end of line; delete to end, to start, word; paste"},
	{"Ctrl-_", "undo"},
}

// keyRows lists the keys while the draft is a question mark.
func (s *session) keyRows(most int) (rows []string) {
	if s.input.editor.text != "?" {
		return nil
	}
	const width = len("Ctrl-A, -E, -K, -U, -W, -Y")
	for _, k := range keysHelp[:min(max(most, 0), len(keysHelp))] {
		rows = append(rows, "  "+k[0]+strings.Repeat(" ", width-len(k[0]))+s.theme.dim("  "+k[1]))
	}
	return rows
}
