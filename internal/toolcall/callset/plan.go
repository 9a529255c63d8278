package callset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/pathname"
)

// Files are those of the workspace, as far as a plan needs them.
type Files struct {
	// Locate returns the path of the workspace that is meant by a given one.
	Locate func(name string) (string, error)
	// Read returns what a file holds. It follows links.
	Read func(name string) ([]byte, error)
	// Stat describes a file. It does not follow links.
	Stat func(name string) (pathname.Info, error)
	// Names returns the names in a directory. Without it, nothing is known but whether a
	// file can be read, which is then the only error of Stat.
	Names func(dir string) []string
}

// Calls returns the calls of a set, in order, with what to tell the model of them. Of a patch
// they are planned by what the files hold now. If a part of it cannot be done, the only call
// is the one that fails by that. Without an error there is at least one.
func (s *Set) Calls(files Files) (calls []Call, note string, err error) {
	calls, note, err = s.plan(files)
	if s.instead != nil && err != nil {
		return []Call{*s.instead}, "", nil
	}
	return calls, note, err
}

func (s *Set) plan(files Files) (calls []Call, note string, err error) {
	if len(s.files) == 0 && len(s.calls) == 0 {
		return nil, "", errors.New("there is no call in it")
	}
	if len(s.files) == 0 {
		return s.calls, "", nil
	}
	located, err := s.located(files)
	if err != nil {
		return nil, "", err
	}
	if s.removes(files, located[0].path) {
		return []Call{s.taken}, "", nil
	}
	p := newPlan(files, located)
	for _, f := range located {
		failing, err := p.add(f)
		if failing != nil && s.instead != nil {
			err = errUnclear
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w; nothing was changed", f.path, err)
		}
		if failing != nil && len(s.files)+len(f.hunks) > 2 {
			note = "nothing of the whole patch was done, since this part of it cannot be"
		}
		if failing != nil {
			return []Call{*failing}, note, nil
		}
	}
	if len(p.steps) > maxCalls {
		return nil, "", fmt.Errorf("the patch needs %d calls, more than the %d that one may", len(p.steps), maxCalls)
	}
	if len(p.steps) == 0 {
		return nil, "", errors.New("the patch changes nothing")
	}
	for _, step := range p.steps {
		calls = append(calls, step.Call)
	}
	return append(calls, s.after...), "", nil
}

// removes reports whether a file holds what an edit that could be a patch would remove.
func (s *Set) removes(files Files, name string) bool {
	if len(s.removed) == 0 {
		return false
	}
	data, err := files.Read(name)
	holds := plainEnds(string(filetext.Decode(data)))
	return err == nil && !slices.ContainsFunc(s.removed, func(text string) bool { return !strings.Contains(holds, plainEnds(text)) })
}

// located returns the files of a patch with clean paths of the workspace.
func (s *Set) located(files Files) (located []file, err error) {
	for _, f := range s.files {
		if f.path, err = files.Locate(join(s.dir, f.path)); err == nil && f.to != "" {
			f.to, err = files.Locate(join(s.dir, f.to))
		}
		if err != nil {
			return nil, err
		}
		if f.path = path.Clean(f.path); f.to != "" {
			f.to = path.Clean(f.to)
		}
		located = append(located, f)
	}
	return located, nil
}

// plan collects the calls of a patch. It knows what files hold after the calls so far, each
// by the one path that it has there.
type plan struct {
	files   Files
	links   pathname.Links
	resolve bool // paths may lead through links
	now     map[string]state
	steps   []*step
	from    map[string]*origin
}

// step is a call of a plan.
type step struct {
	Call
	edits []edit.Edit // nil for a call that edits nothing
}

// origin tells where the content of a file comes from that the plan changes or renames.
type origin struct {
	path   string // the name of the file there
	step   *step  // the call that writes it; nil for none
	before *step  // the command that renames it then; nil for none
}

type state struct {
	data    string
	missing bool
	err     error // why data is not known
}

// newPlan returns the plan of a patch. Only where paths may lead to one file, links in their
// directories are looked for.
func newPlan(files Files, patch []file) *plan {
	p := &plan{files: files, links: pathname.Links{Lstat: files.Stat}, now: map[string]state{}, from: map[string]*origin{}}
	var names []string
	for _, f := range patch {
		names = append(names, f.path)
		if f.to != "" {
			names = append(names, f.to)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); files.Names == nil || len(names) == 1 {
		return p
	}
	var folds bool
	if p.resolve, folds = p.links.Shared(names); folds {
		p.links.Names = files.Names
	}
	return p
}

// content returns the path of the file that a name leads to.
func (p *plan) content(name string) (string, error) {
	if !p.resolve {
		return name, nil
	}
	return p.links.File(name)
}

// entry returns the path by which a file is listed, which may be a link itself.
func (p *plan) entry(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errOutside
	}
	if !p.resolve {
		return name, nil
	}
	return p.links.Entry(name)
}

func (p *plan) read(name string) (state, error) {
	if s, ok := p.now[name]; ok {
		return s, s.err
	}
	if p.resolve {
		if _, err := p.links.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return state{missing: true}, nil
		}
	}
	data, err := p.files.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return state{missing: true}, nil
	}
	return state{data: string(data)}, err
}

// add plans what is done with one file. It returns a call that fails for a reason that the
// tool knows best.
func (p *plan) add(f file) (failing *Call, err error) {
	if f.kind == remove {
		return nil, p.remove(f.path)
	}
	name, err := p.content(f.path)
	if err != nil {
		return nil, err
	}
	if f.kind == create {
		return nil, p.create(name, f.content)
	}
	if len(f.hunks) > 0 {
		if failing, err := p.update(name, f); failing != nil || err != nil {
			return failing, err
		}
	}
	if f.to == "" || f.to == f.path {
		return nil, nil
	}
	return nil, p.move(f.path, f.to)
}

// create plans a file that is new, or takes the place of one.
func (p *plan) create(name, content string) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return errOutside
	}
	was, err := p.read(name)
	if err != nil {
		return err
	}
	if lost := edit.Elided(string(filetext.Decode([]byte(was.data))), content); lost != "" {
		return fmt.Errorf("*** Add File replaces the whole file, so that %s; change a part with *** Update File, or give the whole content by write_file", lost)
	}
	return p.write(name, content)
}

// write plans that a file is written. One that is written already is written once, so that
// who is asked sees what becomes of it.
func (p *plan) write(name, content string) error {
	if err := p.becomes(name, content); err != nil {
		return err
	}
	o := p.origin(name)
	now := step{Call: call("write_file", map[string]any{"path": o.path, "content": content})}
	if o.step != nil {
		*o.step = now
		return nil
	}
	p.insert(o, &now)
	return nil
}

// edit plans that a file is edited, together with the edits that are planned already.
func (p *plan) edit(name, text string, edits []edit.Edit) error {
	o := p.origin(name)
	if o.step != nil && o.step.edits == nil {
		return p.write(name, text)
	}
	if err := p.becomes(name, text); err != nil {
		return err
	}
	if o.step != nil && len(o.step.edits)+len(edits) <= edit.MaxEdits {
		o.step.edits = append(o.step.edits, edits...)
		o.step.Call = *editCall(o.path, o.step.edits)
		return nil
	}
	p.insert(o, &step{*editCall(o.path, edits), edits})
	return nil
}

// origin returns where the content of a file comes from.
func (p *plan) origin(name string) *origin {
	if o, ok := p.from[name]; ok {
		return o
	}
	return &origin{path: name}
}

// insert puts a call that writes a file where the file has the name that the call gives: a
// file is changed before it is renamed, so that who is asked sees the change of what is there.
func (p *plan) insert(o *origin, s *step) {
	if o.before == nil {
		p.from[o.path] = o
		p.steps = append(p.steps, s)
	} else {
		p.steps = slices.Insert(p.steps, slices.Index(p.steps, o.before), s)
	}
	o.step = s
}

// becomes notes what a file will hold, unless it cannot be written.
func (p *plan) becomes(name, content string) error {
	if _, planned := p.now[name]; !planned && p.files.Names != nil {
		if err := p.links.Writable(name); err != nil {
			return err
		}
	}
	if err := p.fits(name); err != nil {
		return err
	}
	p.now[name] = state{data: content}
	p.links.Set(name, pathname.Info{Mode: 0o600}, nil)
	return nil
}

// fits refuses a file that would be a directory of another one of the patch.
func (p *plan) fits(name string) error {
	for other, s := range p.now {
		if !s.missing && (strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")) {
			return fmt.Errorf("the patch also writes %s, and one of the two would have to be a directory", other)
		}
	}
	return nil
}

var errOutside = errors.New("it is outside the workspace")

func (p *plan) remove(name string) error {
	name, err := p.entry(name)
	if err != nil {
		return err
	}
	if err := p.exists(name, "remove it with rm -r in bash"); err != nil {
		return err
	}
	p.gone(name)
	p.steps = append(p.steps, &step{Call: call("bash", map[string]any{"cmd": "rm -- " + escape.Word(name)})})
	return nil
}

// gone notes that there will be no such file.
func (p *plan) gone(name string) {
	p.now[name] = state{missing: true}
	p.links.Set(name, pathname.Info{}, fs.ErrNotExist)
	delete(p.from, name)
}

// exists returns an error if there is no such file, or a directory, with what to do then.
func (p *plan) exists(name, instead string) error {
	s, known := p.now[name]
	is, err := p.links.Stat(name)
	switch {
	case known && !s.missing:
		return nil
	case known, errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file")
	case err == nil && is.Mode.IsDir():
		return fmt.Errorf("it is a directory; %s", instead)
	case errors.Is(err, fs.ErrPermission):
		return nil // it need not be read
	}
	return err
}

func (p *plan) move(from, to string) error {
	from, err := p.entry(from)
	if err != nil {
		return err
	}
	if to, err = p.entry(to); err != nil || to == from {
		return err
	}
	if err := p.exists(from, "rename it with mv in bash"); err != nil {
		return err
	}
	if err := p.mayBecome(to); err != nil {
		return fmt.Errorf("it cannot be renamed to %s: %w", to, err)
	}
	cmd := "mv -f -- " + escape.Word(from) + " " + escape.Word(to)
	if dir := path.Dir(to); dir != "." {
		cmd = "mkdir -p -- " + escape.Word(dir) + " && " + cmd
	}
	mv := &step{Call: call("bash", map[string]any{"cmd": cmd})}
	o, is := p.origin(from), pathname.Info{}
	if is, err = p.links.Stat(from); err == nil && is.IsLink() {
		delete(p.now, to)
	} else {
		s, err := p.read(from)
		p.now[to] = state{data: s.data, err: err} // a move does not mind what it holds
		o.before = cmp.Or(o.before, mv)
	}
	p.gone(from)
	delete(p.from, to)
	if p.links.Set(to, is, nil); o.before != nil {
		p.from[to] = o
	}
	p.steps = append(p.steps, mv)
	return nil
}

// mayBecome refuses a directory, and what leads to one, as the new name of a file.
func (p *plan) mayBecome(to string) error {
	is, err := p.links.Stat(to)
	if err == nil && is.IsLink() {
		if at, err := p.links.File(to); err == nil {
			is, _ = p.links.Stat(at)
		}
	}
	switch {
	case err == nil && is.Mode.IsDir():
		return errors.New("that is a directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return p.fits(to)
}

// update plans the hunks of a file.
func (p *plan) update(name string, f file) (failing *Call, err error) {
	was, err := p.read(name)
	if err != nil {
		return nil, err
	}
	encoding := filetext.CharsetOf([]byte(was.data))
	seen := func(data string) string {
		return strings.TrimPrefix(toLF(encoding.Decode([]byte(data))), "\ufeff")
	}
	text, first := seen(was.data), f.hunks[0]
	if text == "" && first.onlyAdds() && (!was.missing || first.replace != nil) {
		if err := p.write(name, first.added()); err != nil {
			return nil, err
		}
		if f.hunks = f.hunks[1:]; len(f.hunks) == 0 {
			return nil, nil
		}
		return p.update(name, f)
	}
	edits, text, failed, err := place(f.hunks, text)
	switch {
	case was.missing && (failed == nil || failed.Old == "" || p.alone(name)):
		return nil, errors.New("there is no such file; *** Add File makes one")
	case err != nil:
		return nil, err
	case failed != nil:
		return p.fails(name, was, []edit.Edit{*failed})
	case len(edits) == 0:
		return nil, errors.New("the patch changes nothing in it")
	}
	applied, err := edit.InFile([]byte(was.data), edits)
	if err != nil {
		return p.fails(name, was, edits)
	}
	if seen(applied.Text) != text {
		return nil, errUnclear
	}
	return nil, p.edit(name, applied.Text, edits)
}

// alone reports whether only the plan knows what a file holds when its turn comes.
func (p *plan) alone(name string) bool {
	_, planned := p.now[name]
	return planned || p.resolve
}

// fails returns the call whose edits fail by what a file holds, or the error of that, if the
// file does not hold it yet.
func (p *plan) fails(name string, was state, edits []edit.Edit) (*Call, error) {
	if !p.alone(name) {
		return editCall(name, edits), nil
	}
	if _, err := edit.InFile([]byte(was.data), edits); err != nil {
		return nil, errors.New(strings.TrimSuffix(err.Error(), "\n[nothing was changed]"))
	}
	return nil, errUnclear
}

var errUnclear = errors.New("the places of its changes cannot be told apart; use edit_file")

// place returns the edits that hunks are in a text, one after the other, and the text after
// them, or the first one that fails.
func place(hunks []hunk, text string) (edits []edit.Edit, after string, failed *edit.Edit, err error) {
	from, shift := 0, 0
	for _, h := range hunks {
		if h.near >= 0 { // a line of the text before all hunks
			h.near += shift
			shift += len(h.new()) - len(h.old())
		}
		e, next, ok := h.edit(text, from)
		if h.insert && !ok {
			return nil, "", nil, fmt.Errorf("it has no line %d", h.near)
		}
		now, err := edit.Apply(text, []edit.Edit{e})
		switch {
		case e.Old == e.New && e.Old != "" && ok:
			continue
		case err != nil && e.Old == "" && len(h.context) > 0 && text != "":
			return nil, "", nil, fmt.Errorf("%.80q, which a change is to follow, is no line of it", h.context[len(h.context)-1])
		case !ok || err != nil:
			return nil, "", &e, nil
		case h.replace == nil && isPartOfLine(text, e, now.Text):
			return nil, "", nil, fmt.Errorf("%.80q is only a part of a line; give whole lines", e.Old)
		}
		edits = append(edits, e)
		text, from = now.Text, next
	}
	return edits, text, nil, nil
}

// isPartOfLine reports whether an edit of whole lines, by which a text became another one, has
// found its lines within others. Where it found them with other blanks or characters, an edit
// with the breaks around them finds them, too.
func isPartOfLine(text string, e edit.Edit, became string) bool {
	if e.Old == "" || strings.HasSuffix(e.Old, "\n") {
		return false
	}
	lined := func(s string) string { return "\n" + strings.TrimSuffix(s, "\n") + "\n" }
	again, err := edit.Apply(lined(text), []edit.Edit{{Old: lined(e.Old), New: lined(e.New)}})
	return err != nil || again.Text != lined(became)
}

func toLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// editCall returns a call of edit_file.
func editCall(name string, edits []edit.Edit) *Call {
	arguments := map[string]any{"path": name}
	if len(edits) == 1 {
		arguments["old_text"], arguments["new_text"] = edits[0].Old, edits[0].New
	} else {
		list := make([]map[string]string, len(edits))
		for i, e := range edits {
			list[i] = map[string]string{"old_text": e.Old, "new_text": e.New}
		}
		arguments["edits"] = list
	}
	c := call("edit_file", arguments)
	return &c
}

// onlyAdds reports whether a hunk has no old lines.
func (h hunk) onlyAdds() bool {
	if h.replace != nil {
		return h.replace.Old == ""
	}
	return len(h.context) == 0 && !(h.insert && h.near > 0) && !slices.ContainsFunc(h.lines, func(l line) bool { return l.op != '+' && l.text != "" })
}

// added returns what a hunk adds.
func (h hunk) added() string {
	if h.replace != nil {
		return h.replace.New
	}
	return newContent([]hunk{h})
}

// old and new return the lines that a hunk replaces, and those that it puts there.
func (h hunk) old() (lines []string) { return h.without('+') }
func (h hunk) new() (lines []string) { return h.without('-') }

func (h hunk) without(op byte) (lines []string) {
	for _, l := range h.lines {
		if l.op != op {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// edit returns the edit that a hunk is, whose old text occurs once in a text, and the line
// at which the next hunk may begin. Where there is no such place, or more than one, it is the
// edit that edit_file understands or refuses. ok is false if there is none either.
func (h hunk) edit(text string, from int) (e edit.Edit, next int, ok bool) {
	if h.replace != nil {
		return *h.replace, from, true
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	plain := edit.Edit{Old: strings.Join(h.old(), "\n"), New: strings.Join(h.new(), "\n")}
	at, ok := h.place(lines, from)
	for !ok && len(h.lines) > 1 && h.lines[len(h.lines)-1] == (line{' ', ""}) {
		h.lines = h.lines[:len(h.lines)-1] // an empty line between hunks
		at, ok = h.place(lines, from)
	}
	if !ok {
		return plain, 0, !h.insert
	}
	open := !strings.HasSuffix(text, "\n")
	if h.ending != endsAsBefore && at+len(h.old()) == len(lines) {
		open = h.ending == endsOpen
	}
	e, grown := unique(text, lines, at, len(h.old()), h.replacement(lines, at), open)
	return e, grown + strings.Count(e.New, "\n"), true
}

// replacement returns the lines that come in the place of those at a line. Lines that stay
// are as they are in the file.
func (h hunk) replacement(lines []string, at int) (new []string) {
	for _, l := range h.lines {
		switch l.op {
		case '+':
			new = append(new, l.text+"\n")
		case ' ':
			new = append(new, lines[at])
			at++
		default:
			at++
		}
	}
	return new
}

// unique returns the edit that replaces n lines of a text by new ones, with as many lines
// around them as make the old text unique, and the line at which it begins. open says that
// the last line of the text will have no end.
func unique(text string, lines []string, at, n int, new []string, open bool) (e edit.Edit, begin int) {
	from, to := at, at+n
	if to == len(lines) && from == to && from > 0 {
		from-- // the last line, which may have no end
	}
	for around := 1; ; around *= 2 {
		old := strings.Join(lines[from:to], "")
		if old != "" && strings.Index(text, old) == strings.LastIndex(text, old) || from == 0 && to == len(lines) {
			after := slices.Concat(lines[from:at], new, lines[at+n:to])
			return edit.Edit{Old: old, New: terminated(after, to == len(lines) && open)}, from
		}
		from, to = max(from-around, 0), min(to+around, len(lines))
	}
}

// terminated joins lines, each with an end, but for the last one if that is open.
func terminated(lines []string, open bool) string {
	var b strings.Builder
	for i, l := range lines {
		l = strings.TrimSuffix(l, "\n")
		b.WriteString(l)
		if !open || i < len(lines)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// place returns the line at which the old lines of a hunk are. The hunks of a patch are in
// order, and the context names lines before it. Without either it has to be the only place.
func (h hunk) place(lines []string, from int) (at int, ok bool) {
	if h.insert {
		if h.near < 0 {
			return len(lines), true
		}
		return h.near, h.near <= len(lines)
	}
	old := h.old()
	after, found := behind(lines, h.context, from)
	if len(old) == 0 {
		switch {
		case found && len(h.context) > 0:
			return after, true
		case h.near >= 0 && h.near < len(lines):
			return h.near + 1, true
		}
		return len(lines), len(h.context) == 0
	}
	all := places(lines, old, "\n")
	if len(all) == 0 {
		all = places(lines, old, " \t\n")
	}
	return choose(h, all, len(lines), len(old), from, after, found)
}

// choose returns the one of several places that a hunk means.
func choose(h hunk, at []int, total, n, from, after int, found bool) (int, bool) {
	if len(at) == 1 {
		return at[0], true
	}
	if len(at) == 0 {
		return 0, false
	}
	if h.last && at[len(at)-1]+n == total {
		return at[len(at)-1], true
	}
	if h.near >= 0 {
		return nearest(at, h.near)
	}
	if len(h.context) > 0 && found {
		for _, a := range at {
			if a >= after-1 { // the context may be the first of the lines
				return a, true
			}
		}
		return 0, false
	}
	later := slices.DeleteFunc(slices.Clone(at), func(a int) bool { return a < from })
	if from > 0 && len(later) == 1 {
		return later[0], true
	}
	return 0, false
}

// nearest returns the place that is nearest to a line. The numbers of lines that models
// write are seldom quite right: another place must be more than twice as far.
func nearest(at []int, line int) (int, bool) {
	far := func(a int) int { return max(a-line, line-a) }
	at = slices.Clone(at)
	slices.SortFunc(at, func(a, b int) int { return far(a) - far(b) })
	return at[0], far(at[0]) == 0 || far(at[1]) > 2*far(at[0])
}

// behind returns the line after the context. found is false if it is not there.
func behind(lines, context []string, from int) (after int, found bool) {
	if len(context) == 0 {
		return from, true
	}
	for _, begin := range []int{from, 0} {
		at, all := begin, true
		for _, c := range context {
			n := slices.IndexFunc(lines[min(at, len(lines)):], func(l string) bool { return strings.TrimSpace(l) == strings.TrimSpace(c) })
			if n < 0 {
				n = slices.IndexFunc(lines[min(at, len(lines)):], func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), strings.TrimSpace(c)) })
			}
			if n < 0 {
				all = false
				break
			}
			at += n + 1
		}
		if all {
			return at, true
		}
	}
	return 0, false
}

// maxPlaces is how many places of the same lines are looked at.
const maxPlaces = 1000

// places returns the lines at which others occur. It takes a time in proportion to the text.
func places(lines, wanted []string, trim string) (at []int) {
	join := func(lines []string) string {
		var b strings.Builder
		b.WriteByte('\n')
		for _, l := range lines {
			b.WriteString(strings.TrimRight(l, trim))
			b.WriteByte('\n')
		}
		return b.String()
	}
	text, block := join(lines), join(wanted)
	for from, line := 0, 0; len(at) < maxPlaces; {
		n := strings.Index(text[from:], block)
		if n < 0 {
			break
		}
		line += strings.Count(text[from:from+n], "\n")
		at = append(at, line)
		from, line = from+n+1, line+1
	}
	return at
}
