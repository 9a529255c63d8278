package terminal_test

// Words that more than one test looks for.
const (
	answerHere   = "answer (or press Enter to skip): "
	showsAll     = "v: show all"
	tabCompletes = "Tab accept"
	wouldStop    = " would be stopped"
)
