package terminal

import "strings"

// keysHelp says which keys there are, for a draft that is a question mark.
var keysHelp = [][2]string{
	{"Enter", "send"},
	{"Ctrl-J, Alt-Enter", "begin a line; also a \\ before Enter"},
	{"Ctrl-C", "clear the draft, else interrupt; again: leave"},
	{"Ctrl-D, Ctrl-Z", "leave; suspend"},
	{"/", "a command; /help lists them"},
	{"@", "a file of the workspace, which goes along"},
	{"!", "a command line for the workspace, without the agent"},
	{"Tab, Up, Down, Esc", "complete; select; close the list"},
	{"Up, Down", "take back what is queued; earlier messages"},
	{"Ctrl-R", "search the earlier messages"},
	{"Ctrl-G", "edit the draft in $VISUAL or $EDITOR"},
	{"Ctrl-A, -E, -K, -U, -W, -Y", "begin and end of line; kill to end, to begin, word; yank"},
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
