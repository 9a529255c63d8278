// Package rota says whose turn it is.
package rota

import "slices"

// Rota hands out turns, from 1. A turn that came to nothing is given back, and
// is the next one then. The zero Rota is ready to use. It belongs to one
// goroutine at a time.
type Rota struct {
	last     int
	returned []int // the lowest first
}

// Take returns the next turn.
func (r *Rota) Take() int {
	if len(r.returned) > 0 {
		turn := r.returned[0]
		r.returned = r.returned[1:]
		return turn
	}
	r.last++
	return r.last
}

// GiveBack returns a turn.
func (r *Rota) GiveBack(turn int) {
	at, _ := slices.BinarySearch(r.returned, turn)
	r.returned = slices.Insert(r.returned, at, turn)
}
