// Package writewatch tells which files of a directory are written by programs of this
// machine, and not by commands that reach the directory through a mount of their own:
// those of a container, or of a sandbox with its own mount namespace.
//
// Linux tells a listener (fanotify) what is written through one mount. That is exact,
// also for a program that has ended meanwhile, and a file that was renamed since is
// known by its inode. The listener needs CAP_SYS_ADMIN, which root has, so most users
// have no watch; Open then fails, and nobody knows who wrote a file while a command ran.
// What is removed, renamed or made without being written is not told.
package writewatch

// maxFiles is how many files a watch remembers.
const maxFiles = 100_000
