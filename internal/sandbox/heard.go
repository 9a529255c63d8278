package sandbox

// heard keeps the end of what a command has printed, as it was passed on while the
// command ran: all that is known of the output if nobody can tell the result. It
// belongs to who passes the output on, until the command has ended.
type heard struct {
	most int
	at   int64 // the position of data in the whole output
	data []byte
}

// write takes a piece of output, which does not begin before the end of the last one.
func (h *heard) write(offset int64, data []byte) {
	if offset != h.at+int64(len(h.data)) { // what is between them was left out
		h.at, h.data = offset, h.data[:0]
	}
	h.data = append(h.data, data...)
	if over := len(h.data) - h.most; over > h.most { // not at each write
		h.drop(over)
	}
}

// drop removes n bytes from the front. What is left moves there, so that the memory
// does not grow.
func (h *heard) drop(n int) {
	h.at += int64(n)
	h.data = append(h.data[:0], h.data[n:]...)
}

// into gives a result the output, unless it has one.
func (h *heard) into(r *Result) {
	if r.ExitCode >= 0 || r.Output != "" || len(h.data) == 0 {
		return
	}
	h.drop(max(len(h.data)-h.most, 0))
	r.SetOutput(nil, h.data, h.at)
}
