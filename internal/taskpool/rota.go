package taskpool

import "slices"

// Rota hands out turns, numbered from 1. A turn that was not used can be given
// back, and is handed out again first. The zero Rota is ready to use. It is not
// safe for concurrent use.
type Rota struct {
	last     int
	returned []int // in ascending order
}

// Take returns the lowest turn that was given back, or else a new one.
func (r *Rota) Take() int {
	if len(r.returned) > 0 {
		turn := r.returned[0]
		r.returned = r.returned[1:]
		return turn
	}
	r.last++
	return r.last
}

// GiveBack returns a turn that was not used.
func (r *Rota) GiveBack(turn int) {
	at, _ := slices.BinarySearch(r.returned, turn)
	r.returned = slices.Insert(r.returned, at, turn)
}
