// Package objstore keeps trees of files, named after their content, so that taking
// a tree again costs what has changed and not its size. Sessions, undo and
// snapshots are built on it.
//
// A [Source] tells what is in a tree and reads its files; [Store.Take] stores
// what is new and returns the name of the whole, a [Tree]. [Store.Diff] compares
// two trees, [Store.FS] reads one, and [Store.Apply] changes a [Target] from one
// to another. A [Log] says which trees are kept; [Store.Collect] removes the rest.
// [Local] is a directory of this machine, as a source and as a target.
//
// # Format
//
// Everything is a blob of at most 1 MiB, named by the SHA-256 of its kind and its
// content. A file up to 1 MiB is a blob; a larger one is a list of blobs of 1 MiB
// each, so a line at the end of a large log costs one part and the list. A
// directory is a node: the sorted names of what is in it, with kind, permissions,
// size, time, and the names of the contents. So a tree is a Merkle tree: ten edited
// files are ten blobs and the nodes above them.
//
// The new blobs of one checkpoint are one pack, packs/NAME.pack: a head, the blobs,
// deflated where that makes them smaller, and an index with a checksum,
// which is also the name. It is written under another name, synced once, and
// renamed: a reader sees all of a pack or nothing of it. The index is read when the
// pack is first seen, and blobs are compared with their names whenever they are
// read, so damage is told and never passed on. logs/NAME.log has a JSON line for
// each checkpoint of a session. unfinished/ has what Apply has begun and not ended.
//
// # Guarantees
//
// After kill -9 or a power failure at any moment, a tree that a log names is there
// completely; a line that was not written completely is dropped; and Recover
// continues an interrupted Apply. A file of the target is at any moment the old or
// the new one, never half of it, and never missing where the system exchanges two
// names at once (Linux, macOS).
//
// Apply never overwrites what it does not know. It writes a new file beside the
// old one, exchanges the two, looks at what came out, and exchanges them back if
// that is not what the first tree has. New files are linked into place, which fails
// if something is there. Only a program that keeps the old file open and writes
// into it after the exchange is not noticed.
//
// Several processes may use a store at once. From the first look for a blob until
// the tree is in a log, a shared lock (flock) keeps others from collecting, which
// takes the lock alone and does not wait. A log has one writer.
//
// A file counts as unchanged if its size, mode, inode, and its times of
// modification and change are the same, and if the latter was at least 35 seconds
// past when the file was read. (The kernel gives a file that is written through
// mmap its new time only at write-back, which vm.dirty_expire_centisecs and
// vm.dirty_writeback_centisecs put off by 30 and 5 seconds; see proc(5) and mmap(2),
// and "racy git" in git's documentation for the same problem within a second.) On
// systems that tell no time of change, the time of modification stands for both.
//
// # What is not kept
//
// Left out, and told in the [Report]: directories that .gitignore names, and those
// that other programs fill (node_modules, .venv, __pycache__, and target beside
// Cargo.toml or pom.xml); ignored files of more than 1 MiB; whatever is no file,
// directory or link; what cannot be read. Of what is below a directory .git, names
// and .gitignore leave out nothing, so a repository is whole. Nodes say that something was left out, so
// Apply never removes it. Owners, extended attributes, hard links and the times of
// directories are not stored, nor are the bits setuid, setgid and sticky. Holes of
// sparse files are found when they are restored: whole 64 KiB of zeros.
//
// All paths are resolved by os.Root, element by element, and no link is followed.
// What is read from a source or from a pack is not trusted: names, order, sizes
// and counts are checked before they are used.
package objstore
