package guest

// MakeTemp makes a temporary directory, and returns what removes it.
type MakeTemp func() (dir string, remove func(), err error)
