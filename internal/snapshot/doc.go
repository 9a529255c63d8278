// Package snapshot writes and reads the directories in which an agent is saved.
//
// # Layout
//
//	snapshot.json               what it is: the version, the time, how the agent was set up, counts, the digest of the list
//	files.jsonl                 a line for each file, directory and link: its permissions, its size and its digest
//	history.json                the conversation, as OpenAI's chat format has it
//	history.json.pygent-meta    what else is known of its messages, such as compactions
//	workspace/                  the files
//	pygent.log                  the log since the agent began, if it keeps one
//
// # Guarantees
//
// A [Draft] is written beside its place, in a directory that is locked, put on
// stable storage, and renamed. After kill -9 or a power failure at any moment there
// is all of the snapshot or nothing of it; where it replaces another one, there is
// the old one or the new one (on systems that exchange two names at once: Linux and
// macOS; on others the old one may be beside it). What a kill leaves is removed by
// the next draft in the same directory.
//
// [Open] reads a snapshot that a stranger may have written. It compares everything
// with the list, so that damage is told, and refuses links in place of its own files,
// devices, and sizes and counts without bound. Nothing that it reads leads out of the
// directory.
package snapshot
