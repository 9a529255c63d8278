package safecall

import "time"

// Late calls f if the returned function is not called in time. That one waits for f.
func Late(after time.Duration, f func()) (inTime func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(done)
		f()
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}
