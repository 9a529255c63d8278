package pygent

// tellRepairs emits what was repaired in the history's file, or happened to it,
// since the last time.
func (a *Agent) tellRepairs() {
	for _, repair := range a.history.untold() {
		a.emit(Event{Type: EventWarning, Text: "history: " + repair})
	}
}
