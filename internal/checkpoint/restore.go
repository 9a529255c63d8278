package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/treedir"
)

// Conversation is what a restore does to the conversation.
type Conversation interface {
	// Place returns where the conversation is, and how many messages it has.
	Place() (Place, int)
	// Rewind makes the conversation go on as it was at a checkpoint. restore is the
	// number of the restore.
	Rewind(ctx context.Context, to Entry, restore int64) error
	// Rewound reports whether that was the last time that the conversation went back.
	Rewound(restore int64) bool
}

// Kept is a file that is not as in the checkpoint that was restored.
type Kept struct {
	Name string
	Why  string // why it was not changed; empty if nobody asked for it: the user changed it, and not the agent
	At   string // where its former content is, if that could not be put back
}

// Outcome says what a restore did.
type Outcome struct {
	To   Entry // what was restored
	From Entry // how it was before
	Now  Entry // how it is
	Undo bool  // turns were taken back
	Kept []Kept
	// Repositories were put back, because turns had removed or replaced them.
	Repositories []string
	// Unsure are files that turns were taken back of although perhaps others have changed
	// them, while a command ran. From has them.
	Unsure  []string
	NoFiles string // why files were not restored; empty if they were
}

// Restore makes the files of a workspace and the conversation what they were at a
// checkpoint. It does not end with ctx once it has begun.
func (b *Book) Restore(ctx context.Context, w Workspace, to int64, c Conversation) (Outcome, error) {
	unlock, err := b.lock()
	if err != nil {
		return Outcome{}, err
	}
	defer unlock()
	if _, err := b.finish(ctx, w, c); err != nil {
		return Outcome{}, err
	}
	target := b.at(to)
	if target < 0 || !b.seen[target].isCheckpoint() {
		return Outcome{}, fmt.Errorf("checkpoint %d: %w", to, ErrUnknown)
	}
	from := Entry{Note: Note{Kind: Before}}
	from.Place, from.Messages = c.Place()
	if from, err = b.take(ctx, w, from, nil); err != nil {
		return Outcome{}, fmt.Errorf("keep how it is now: %w", err)
	}
	_, back := b.steps(b.at(from.N), target)
	begun, err := b.add(ctx, Entry{Note: Note{Kind: restoring, To: to, From: from.N, Undo: back, On: from.On}})
	if err != nil {
		return Outcome{}, err
	}
	return b.carryOut(context.WithoutCancel(ctx), w, begun, c, true)
}

// Recover makes the rest of a restore that was interrupted.
func (b *Book) Recover(ctx context.Context, w Workspace, c Conversation) (*Outcome, error) {
	unlock, err := b.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return b.finish(ctx, w, c)
}

// finish carries on a restore that was interrupted. Of one that was not, it makes
// sure that the conversation has it: its file may have lost more than the log.
func (b *Book) finish(ctx context.Context, w Workspace, c Conversation) (*Outcome, error) {
	if len(b.seen) == 0 {
		return nil, nil
	}
	last := b.seen[len(b.seen)-1]
	switch {
	case last.Kind == Restored && !c.Rewound(last.Restore):
		to := b.at(last.To)
		if _, messages := c.Place(); to < 0 || messages != last.Messages {
			return nil, nil
		}
		return nil, c.Rewind(ctx, b.seen[to], last.Restore)
	case last.Kind != restoring:
		return nil, nil
	}
	out, err := b.carryOut(context.WithoutCancel(ctx), w, last, c, false)
	return &out, err
}

// carryOut makes the steps of a restore that are left after a line of it, then
// changes the conversation, and notes the end. A new one is given up if somebody else
// changes the files just then: nothing has happened yet.
func (b *Book) carryOut(ctx context.Context, w Workspace, line Entry, c Conversation, isNew bool) (Outcome, error) {
	from, to := b.at(line.From), b.at(line.To)
	if from < 0 || to < 0 {
		return Outcome{}, fmt.Errorf("checkpoint %d: %w", line.To, ErrUnknown)
	}
	line.Restore = cmp.Or(line.Restore, line.N)
	out := Outcome{From: b.seen[from], To: b.seen[to], Undo: line.Undo}
	out.NoFiles = noFiles(w, out.From, out.To)
	conflicts := map[string]treedir.Conflict{}
	var changed []string
	if out.NoFiles == "" {
		var err error
		done := 0
		if out.NoFiles, done, changed, err = b.change(ctx, w, line.Note, conflicts); err != nil {
			if isNew && done == 0 && errors.Is(err, objstore.ErrInUse) {
				_, dropping := b.add(ctx, Entry{Note: Note{Kind: dropped, To: line.To, From: line.From}})
				err = errors.Join(err, dropping)
			}
			return out, err
		}
	}
	if !c.Rewound(line.Restore) {
		if err := c.Rewind(ctx, out.To, line.Restore); err != nil {
			return out, err
		}
	}
	now := Entry{Note: Note{Kind: Restored, Restore: line.Restore, To: line.To, From: line.From, Undo: line.Undo}}
	now.Place, now.Messages = c.Place()
	var err error
	if !isNew {
		changed = nil // the files were not read just before
	}
	if out.Now, err = b.take(ctx, w, now, changed); err != nil {
		return out, err
	}
	if out.NoFiles == "" {
		err = errors.Join(b.compare(ctx, &out, conflicts), b.putBack(ctx, &out))
	}
	if err == nil && out.NoFiles == "" {
		out.Unsure, err = b.unsure(ctx, from, to)
	}
	return out, err
}

// noFiles says why a restore leaves the files alone, if it does.
func noFiles(w Workspace, from, to Entry) string {
	switch {
	case w == nil:
		return "no checkpoints are kept of the files of this runtime"
	case to.Tree.IsZero():
		return "the checkpoint has no files"
	case from.Tree.IsZero() || from.Dir != to.Dir:
		return noFilesOf(to.Dir)
	}
	return ""
}

func noFilesOf(dir string) string {
	return fmt.Sprintf("the files of the checkpoint are those of %s", dir)
}

// change makes the steps of a restore to the files that are left after a line, or
// says why it does not. done is how many are made, and changed are the names that they
// have changed.
func (b *Book) change(ctx context.Context, w Workspace, line Note, conflicts map[string]treedir.Conflict) (no string, done int, changed []string, err error) {
	there, err := w()
	if err != nil {
		return "", line.Done, nil, err
	}
	defer there.Close()
	files := &noting{Files: there, made: []string{}}
	if of := b.seen[b.at(line.To)].Dir; of != files.Dir() {
		return noFilesOf(of), line.Done, nil, nil
	}
	if err := b.recover(ctx, files, &line, conflicts); err != nil {
		return "", line.Done, nil, err
	}
	steps, err := b.allSteps(ctx, b.at(line.From), b.at(line.To))
	if err != nil {
		return "", line.Done, nil, err
	}
	for line.Done < len(steps) {
		s := steps[line.Done]
		found, err := b.store.Apply(ctx, files, b.seen[s.from].Tree, b.seen[s.to].Tree, objstore.ApplyOptions{Leave: leave, But: s.but, Only: s.only, Not: s.not})
		noteConflicts(conflicts, found)
		if err != nil {
			return "", line.Done, nil, err
		}
		line.On = onOf(files) // a step may have moved them
		if line.Done++; line.Done < len(steps) {
			if _, err := b.add(ctx, Entry{Note: line}); err != nil {
				return "", line.Done, nil, err
			}
		}
	}
	return "", line.Done, files.made, nil
}

// noting notes the names of the steps that are made.
type noting struct {
	Files
	made []string
}

// Make implements [treedir.Target].
func (n *noting) Make(ctx context.Context, s treedir.Step, content io.Reader) error {
	n.made = append(n.made, s.Name)
	return n.Files.Make(ctx, s, content)
}

// allSteps are the steps of a restore, and then that of repositories, if there are any.
func (b *Book) allSteps(ctx context.Context, from, to int) ([]step, error) {
	steps, _ := b.steps(from, to)
	back, err := b.putsBack(ctx, from, to)
	if len(back.but) > 0 {
		steps = append(steps, back)
	}
	return steps, err
}

// recover makes the rest of a step that was interrupted. If the files have moved
// since the restore began, into a volume, all steps are made again: those that were
// made already change nothing. So they are if the files were in a volume that has
// gone with its process, and are in the directory now as they were before it.
func (b *Book) recover(ctx context.Context, files Files, line *Note, conflicts map[string]treedir.Conflict) error {
	began := cmp.Or(line.On, files.Dir())
	if began != files.ID() {
		found, _, err := b.store.Recover(ctx, renamed{files, began})
		noteConflicts(conflicts, found)
		if err != nil {
			return err
		}
		line.Done, line.On = 0, onOf(files)
	}
	found, _, err := b.store.Recover(ctx, files)
	noteConflicts(conflicts, found)
	return err
}

// renamed are files that are a target of another name.
type renamed struct {
	Files
	id string
}

// ID implements [treedir.Target].
func (r renamed) ID() string { return r.id }

// onOf names files that are not in their directory now.
func onOf(files Files) string {
	if id := files.ID(); id != files.Dir() {
		return id
	}
	return ""
}

func noteConflicts(all map[string]treedir.Conflict, found []treedir.Conflict) {
	for _, c := range found {
		all[c.Name] = c
	}
}

// compare finds what is not as in the checkpoint.
func (b *Book) compare(ctx context.Context, out *Outcome, conflicts map[string]treedir.Conflict) error {
	told := map[string]bool{}
	for c, err := range b.store.Diff(ctx, out.Now.Tree, out.To.Tree) {
		if err != nil {
			return err
		}
		if objstore.OfGit(c.Name) {
			if err := b.compareGit(ctx, out, repositoryOf(c.Name), told); err != nil {
				return err
			}
			continue
		}
		conflict := conflicts[c.Name]
		if n := len(out.Kept); told[c.Name] || n > 0 && strings.HasPrefix(out.Kept[n-1].Name, c.Name+"/") {
			continue // another kind was there, or it is a directory of which it is told what is in it
		}
		told[c.Name] = true
		out.Kept = append(out.Kept, Kept{Name: c.Name, Why: conflict.Why, At: conflict.Kept})
	}
	return nil
}

// compareGit names a repository that is lost, unless that is told already.
func (b *Book) compareGit(ctx context.Context, out *Outcome, name string, told map[string]bool) error {
	if told[name] {
		return nil
	}
	told[name] = true
	lost, err := b.isLost(ctx, name, out.Now.Tree, out.To.Tree)
	if lost {
		out.Kept = append(out.Kept, Kept{Name: name, Why: fmt.Sprintf("the repository of then is not there any more, and checkpoint %d has it: begin a fork there", out.To.N)})
	}
	return err
}

// Repositories of git that a restore has put back are those that were lost before it and
// are not now.
func (b *Book) putBack(ctx context.Context, out *Outcome) error {
	all, err := b.repositories(ctx, out.From.Tree, out.Now.Tree)
	for _, name := range all {
		lost, failed := b.isLost(ctx, name, out.From.Tree, out.Now.Tree)
		if err = errors.Join(err, failed); lost {
			out.Repositories = append(out.Repositories, name)
		}
	}
	return err
}

const maxRefs = 4 << 20 // bytes of a file of git that are read

// head returns the commit that was checked out, or "" if that is not known. git is the
// directory .git as it was taken.
func (b *Book) head(ctx context.Context, git objstore.Tree) string {
	if git.IsZero() {
		return ""
	}
	files := b.store.FS(ctx, git)
	name := readLine(files, "HEAD")
	ref, symbolic := strings.CutPrefix(name, "ref: ")
	if !symbolic {
		return commit(name)
	}
	if !fs.ValidPath(ref) {
		return ""
	}
	if id := commit(readLine(files, ref)); id != "" {
		return id
	}
	packed, err := readAll(files, "packed-refs")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(packed)) {
		if id, of, ok := strings.Cut(strings.TrimSpace(line), " "); ok && of == ref {
			return commit(id)
		}
	}
	return ""
}

// commit returns the name of a commit, or "" for anything else.
func commit(id string) string {
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }
	if len(id) != 40 && len(id) != 64 || strings.IndexFunc(id, other) >= 0 {
		return ""
	}
	return id
}

func readLine(files fs.FS, name string) string {
	text, _ := readAll(files, name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

func readAll(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return io.ReadAll(io.LimitReader(f, maxRefs))
}
