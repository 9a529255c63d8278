package pygent

// tellRepairs emits what was repaired in the history's file, or happened to it,
// since the last time.
func (a *Agent) tellRepairs() {
	for _, repair := range a.history.untold() {
		a.emit(Event{Type: EventWarning, Text: "history: " + repair})
	}
}

// untold returns the repairs that it has not returned before.
func (h *History) untold() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	repairs := h.repairs[h.told:]
	h.told = len(h.repairs)
	return repairs
}
