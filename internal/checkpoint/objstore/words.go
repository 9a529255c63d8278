package objstore

import "github.com/x/pygent/internal/treedir"

// What package treedir has for users of a store.
type (
	Source        = treedir.Source
	Opened        = treedir.Opened
	Entry         = treedir.Entry
	Target        = treedir.Target
	Step          = treedir.Step
	Conflict      = treedir.Conflict
	ConflictError = treedir.ConflictError
	Kind          = treedir.Kind
	Item          = treedir.Item
	Change        = treedir.Change
	Local         = treedir.Local
)

// ChunkSize is the largest size of a blob, and MaxFile that of a file.
const (
	ChunkSize = treedir.ChunkSize
	MaxFile   = treedir.MaxFile
)

// The kinds.
const (
	None    = treedir.None
	File    = treedir.File
	Dir     = treedir.Dir
	Link    = treedir.Link
	LeftOut = treedir.LeftOut // something of which nothing is stored
)

// OpenLocal opens a directory of this machine.
func OpenLocal(dir string) (*Local, error) { return treedir.OpenLocal(dir) }
