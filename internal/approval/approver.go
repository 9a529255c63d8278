package approval

import (
	"cmp"
	"slices"
	"sync"
)

// Approver is the stack of those who decide. U says whom to ask about several things. It
// is safe for concurrent use after Begin.
type Approver[U any] struct {
	over    func(u, below U) U
	mu      sync.Mutex
	program entry[U]
	faces   []*entry[U] // the newest is the last
}

// entry is the program or one front end.
type entry[U any] struct {
	user    U
	confirm *bool // whether commands need approval; nil where other settings say
}

// Begin says what the program has decided. over returns whom to ask of u and below: u
// about all that it can be asked about, and below about the rest.
func (a *Approver[U]) Begin(user U, confirm *bool, over func(u, below U) U) {
	a.program, a.over = entry[U]{user, confirm}, over
}

// User returns whom to ask now.
func (a *Approver[U]) User() (u U) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.faces {
		u = a.over(f.user, u)
	}
	return a.over(a.program.user, u)
}

// Confirm reports whether commands need approval, nil where other settings say. While
// front ends are there, the strictest of them counts.
func (a *Approver[U]) Confirm() *bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.faces) == 0 {
		return a.program.confirm
	}
	confirm := new(false)
	for _, f := range a.faces {
		switch {
		case f.confirm != nil && *f.confirm:
			return f.confirm
		case f.confirm == nil:
			confirm = nil
		}
	}
	return confirm
}

// BeforeFace returns what the program has decided.
func (a *Approver[U]) BeforeFace() (user U, confirm *bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.program.user, a.program.confirm
}

// Set changes whom the program has asked. The front ends that are there are not asked
// about that any more: change is called for each with the zero user.
func (a *Approver[U]) Set(to U, change func(of *U, to U)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.program.user, to)
	for _, f := range a.faces {
		var nobody U
		change(&f.user, nobody)
	}
}

// SetConfirm changes whether commands need approval, for the time of the front ends if
// there are any.
func (a *Approver[U]) SetConfirm(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.faces) == 0 {
		a.program.confirm = &on
	}
	for _, f := range a.faces {
		f.confirm = &on
	}
}

// Enter adds a front end. Commands need approval while it is there as the program says,
// or else as byDefault does. leave may be called again.
func (a *Approver[U]) Enter(user U, byDefault *bool) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	face := &entry[U]{user, cmp.Or(a.program.confirm, byDefault)}
	a.faces = append(a.faces, face)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.faces = slices.DeleteFunc(a.faces, func(f *entry[U]) bool { return f == face })
	}
}
