package cli

// Words that more than one test looks for.
const (
	asksForName    = "To remove it, give its name: "
	noSessions     = "there are no sessions\n"
	returnsHere    = "Return to it: pygent --resume "
	sessionSaved   = " saved. Resume it: pygent --resume "
	showsAll       = "v: show all"
	tabCompletes   = "Tab accept"
	wasInterrupted = "was interrupted. Use /resume"
)
