// Package treedir tells what is in a directory, and changes it step by step, for
// package store. It knows nothing of how trees are kept, so the guest has it too:
// a workspace that only the guest sees is told and changed by the same code.
//
// [Local] is a directory of this machine. All paths are resolved by os.Root,
// element by element, and no link is followed.
//
// A step never overwrites what it does not know. It writes a new file beside the
// old one, exchanges the two, looks at what came out, and exchanges them back if
// that is not what the step says is there. New files are linked into place, which
// fails if something is there.
package treedir
