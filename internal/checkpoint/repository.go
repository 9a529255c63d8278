package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/treedir"
)

// A restore leaves a repository as it is, since git has a history of its own: a commit
// of a turn stays, and only the files are as before. But a repository that the turns have
// removed, or put another one in the place of, comes back as a whole, with its commits,
// branches and staged files. It is another one, or broken, if a branch, a tag or the
// HEAD of then names a commit that it does not have. None is ever removed: what a turn
// has begun with git init stays.
//
// The same goes for one that a file or a link has replaced, which may name where it was
// moved to: that goes with the turn.
//
// If others have changed it since, it stays too, and is named like any other file.

const gitDir = ".git"

// repositories returns the directories .git, and files of that name, in which two
// trees differ.
func (b *Book) repositories(ctx context.Context, from, to objstore.Tree) ([]string, error) {
	found := map[string]bool{}
	for c, err := range b.store.Diff(ctx, from, to) {
		if err != nil {
			return nil, err
		}
		if objstore.OfGit(c.Name) {
			found[repositoryOf(c.Name)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// repositoryOf returns the outermost .git of a path that has one.
func repositoryOf(name string) string {
	dir := ""
	for element := range strings.SplitSeq(name, "/") {
		if dir = path.Join(dir, element); element == gitDir {
			break
		}
	}
	return dir
}

// putsBack returns the step that puts back the repositories which the agent has removed
// or replaced on the way from one checkpoint to another; one without paths if there are
// none.
func (b *Book) putsBack(ctx context.Context, from, to int) (step, error) {
	all, err := b.repositories(ctx, b.seen[from].Tree, b.seen[to].Tree)
	s := step{from: from, to: to}
	for _, name := range all {
		gone, failed := b.isLost(ctx, name, b.seen[from].Tree, b.seen[to].Tree)
		mine := false
		if gone && failed == nil {
			mine, failed = b.isOfAgent(ctx, name, from, to)
		}
		if err = errors.Join(err, failed); mine && failed == nil {
			s.but = append(s.but, name)
		}
	}
	s.only = s.but
	return s, err
}

// isOfAgent reports whether nobody but the agent has changed a repository between two
// checkpoints, as far as its commits go.
func (b *Book) isOfAgent(ctx context.Context, name string, from, to int) (bool, error) {
	top := b.ancestor(from, to)
	if top < 0 {
		return false, nil
	}
	for _, leg := range []int{from, to} {
		for at := leg; at != top; at = b.parent(at) {
			parent := b.parent(at)
			same, err := b.sameCommits(ctx, name, b.seen[parent].Tree, b.seen[at].Tree)
			if err != nil {
				return false, err
			}
			theirs := b.seen[at].Only != nil || slices.ContainsFunc(b.seen[at].Not, func(n string) bool { return strings.HasPrefix(n, name+"/") })
			if !same && (theirs || !b.byAgent(parent, at) && b.seen[at].Kind != Restored) {
				return false, nil
			}
		}
	}
	return true, nil
}

// sameCommits reports whether a repository has the same commits and branches in two
// trees. Its index changes whenever somebody asks for its status.
func (b *Book) sameCommits(ctx context.Context, name string, x, y objstore.Tree) (bool, error) {
	for _, part := range []string{"HEAD", "packed-refs", "refs", "objects"} {
		in, err := b.store.Find(ctx, x, path.Join(name, part))
		if err != nil {
			return false, err
		}
		now, err := b.store.Find(ctx, y, path.Join(name, part))
		if err != nil || in.Kind != now.Kind || in.Content != now.Content {
			return false, err
		}
	}
	return true, nil
}

// isLost reports whether a repository that one tree has is missing in another, or is not
// the same there.
func (b *Book) isLost(ctx context.Context, name string, now, then objstore.Tree) (bool, error) {
	is, err := b.store.Find(ctx, now, name)
	if err != nil {
		return false, err
	}
	was, err := b.store.Find(ctx, then, name)
	switch {
	case err != nil || was.Kind != treedir.Dir && was.Kind != treedir.File:
		return false, err
	case is.Kind != was.Kind:
		return true, nil // what it was moved to goes with the turn
	case was.Kind != treedir.Dir:
		return false, nil // whether the file names the same repository is not known
	}
	before, err := fs.Sub(b.store.FS(ctx, then), name)
	if err != nil {
		return false, err
	}
	after, err := fs.Sub(b.store.FS(ctx, now), name)
	return err == nil && (repository{before}).lostIn(repository{after}), err
}

// repository is the content of a directory .git.
type repository struct{ fs.FS }

// lostIn reports whether a repository is broken or another one in a later state.
func (r repository) lostIn(now repository) bool {
	names := r.refs()
	switch {
	case r.has("HEAD") && !now.has("HEAD") || r.has("reftable") != now.has("reftable"):
		return true
	case len(names) == 0 || r.has("objects/info/alternates"):
		return false // there is nothing to lose, or it is elsewhere
	case len(now.refs()) == 0:
		return true
	}
	packs := r.indexes()
	samePacks := !slices.ContainsFunc(packs, func(name string) bool { return !now.has(name) })
	for id := range names {
		loose := looseObject(id)
		if !now.has(loose) && (r.has(loose) || !samePacks) && !now.packed(id) {
			return true
		}
	}
	return false
}

func (r repository) has(name string) bool {
	_, err := fs.Stat(r, name)
	return err == nil
}

// Bounds of what is read of a repository.
const (
	maxNames = 10_000
	maxIndex = 256 << 20 // bytes of a pack's index
)

// refs are the names of what branches, tags, the stash and HEAD point to.
func (r repository) refs() map[string]bool {
	ids := map[string]bool{}
	note := func(id string) {
		if id = commit(id); id != "" && len(ids) < maxNames {
			ids[id] = true
		}
	}
	note(readLine(r, "HEAD"))
	packed, _ := readAll(r, "packed-refs")
	for line := range strings.Lines(string(packed)) {
		id, _, _ := strings.Cut(line, " ")
		note(id)
	}
	_ = fs.WalkDir(r, "refs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			note(readLine(r, name))
		}
		return nil // what cannot be read names nothing
	})
	return ids
}

// looseObject is where an object is that is in no pack.
func looseObject(id string) string { return path.Join("objects", id[:2], id[2:]) }

// indexes are the names of the indexes of all packs.
func (r repository) indexes() []string {
	names, _ := fs.Glob(r, "objects/pack/*.idx") // the pattern is right
	return names
}

// packed reports whether an object is in a pack.
func (r repository) packed(id string) bool {
	name, err := hex.DecodeString(id)
	if err != nil {
		return false
	}
	for _, index := range r.indexes() {
		if f, err := r.Open(index); err == nil {
			data, err := io.ReadAll(io.LimitReader(f, maxIndex))
			if f.Close(); err == nil && inIndex(data, name) {
				return true
			}
		}
	}
	return false
}

// inIndex reports whether the index of a pack has an object: see gitformat-pack(5).
func inIndex(index, name []byte) bool {
	const head, fanout = 8, 256 * 4
	if len(index) < head+fanout || !bytes.HasPrefix(index, []byte("\xfftOc\x00\x00\x00\x02")) {
		return false
	}
	count := int(binary.BigEndian.Uint32(index[head+fanout-4:]))
	names := index[head+fanout:]
	if count < 0 || count > len(names)/len(name) {
		return false
	}
	at := func(i int) []byte { return names[i*len(name) : (i+1)*len(name)] }
	i := sort.Search(count, func(i int) bool { return bytes.Compare(at(i), name) >= 0 })
	return i < count && bytes.Equal(at(i), name)
}
