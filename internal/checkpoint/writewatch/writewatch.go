// Package writewatch tells which files of a directory are written by programs of this
// machine, and not by commands that reach the directory through a mount of their own:
// those of a container, or of a sandbox with its own mount namespace.
//
// Linux tells a listener (fanotify) what is written through one mount. That holds also for
// a program that has ended meanwhile, and a file that was renamed since is known by its
// inode and the time when that was made. The listener needs CAP_SYS_ADMIN, which root has, so most users have no watch;
// Open then fails.
//
// It proves that others wrote a file, and never that they did not: it does not tell what
// they remove, rename, link or move there, what they write through another mount, such as
// that of another container, and what the kernel drops because there is too much.
package writewatch

// maxFiles is how many files a watch remembers.
const maxFiles = 100_000
