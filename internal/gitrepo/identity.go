package gitrepo

// Identity says which directory of this machine is meant, whatever is at its path later.
// Where the system has no such numbers that pygent reads, it is zero.
type Identity struct{ Dev, Ino uint64 }
