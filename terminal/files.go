package terminal

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
)

// Bounds of the list of files.
const (
	maxFiles   = 20_000
	listWithin = 5 * time.Second
	// filesStale is how old a list may be when file names are typed.
	filesStale = 5 * time.Second
	// filesSlow is how long a list may take before a word is said about it.
	filesSlow = 300 * time.Millisecond
)

// fileList is the files of the workspace as far as they are known. They are listed in
// the background, and again when the list is old.
type fileList struct {
	list  []listedFile // what was changed last comes first
	at    time.Time    // when the list was made; zero for never
	since time.Time    // when the list is being made since; zero if it is not
}

// listedFile is a file or directory that can be named.
type listedFile struct {
	path  string // with a slash at the end of a directory's
	lower string
	time  time.Time
}

// slow reports whether the first list takes so long that one waits for it.
func (f *fileList) slow(now time.Time) bool {
	return f.at.IsZero() && !f.since.IsZero() && now.Sub(f.since) > filesSlow
}

// refreshFiles lists the files anew if the list is old.
func (s *session) refreshFiles() {
	f := &s.fileList
	if !f.since.IsZero() || time.Since(f.at) < filesStale {
		return
	}
	f.since = time.Now()
	s.background(func() {
		ctx, cancel := context.WithTimeout(s.ctx, listWithin)
		defer cancel()
		list, _ := safecall.Outlive(ctx, func() ([]listedFile, error) { return listFiles(ctx, s.agent.Runtime()), nil })
		s.post(func() {
			f.list, f.at, f.since = list, time.Now(), time.Time{}
			c := &s.input.completion
			ed := &s.input.editor
			switch before := ed.text[:ed.cursor]; {
			case !c.isFor(ed) || c.picked:
			case c.tab && strings.HasPrefix(before, "!"):
				s.completePath()
			case pathname.MentionAt(before) >= 0:
				tab := c.tab
				s.suggest()
				if tab && c.open(ed) {
					s.takeChoice(false)
				}
			}
			s.display.changed = true
		})
	})
}

// listFiles lists a workspace level by level, as far as the bounds allow.
func listFiles(ctx context.Context, rt pygent.Runtime) (list []listedFile) {
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok {
		return nil
	}
	level := []string{"."}
	for len(level) > 0 {
		var below []string
		for _, dir := range level {
			found, _, err := lister.ListFiles(ctx, dir, 1, maxFiles-len(list))
			if err != nil { // it has gone, or cannot be read
				continue
			}
			for _, info := range found {
				name := info.Path
				if info.Mode.IsDir() {
					if !pathname.IsCache(path.Base(name)) {
						below = append(below, name)
					}
					name += "/"
				}
				list = append(list, listedFile{path: name, lower: strings.ToLower(name), time: info.ModTime})
			}
			if len(list) >= maxFiles || ctx.Err() != nil {
				return newestFirst(list)
			}
		}
		level = below
	}
	return newestFirst(list)
}

func newestFirst(list []listedFile) []listedFile {
	slices.SortStableFunc(list, func(a, b listedFile) int {
		return cmp.Or(b.time.Compare(a.time), cmp.Compare(a.path, b.path))
	})
	return list
}

// match returns the files whose path has the characters of a text in their order,
// the best first: those whose name begins with it, those that have it in the name,
// those that have it in the path, and the rest. What was changed last comes first
// among equals.
func (f *fileList) match(text string) (found []listedFile) {
	text = strings.ToLower(text)
	var tiers [5][]listedFile
	for _, file := range f.list {
		if tier := tierOf(file.lower, text); tier < len(tiers) {
			tiers[tier] = append(tiers[tier], file)
		}
	}
	for _, tier := range tiers {
		found = append(found, tier...)
		if len(found) >= maxChoices {
			return found[:maxChoices]
		}
	}
	return found
}

// tierOf says how well a path fits a text; 5 for not at all.
func tierOf(name, text string) int {
	base := name[strings.LastIndexByte(strings.TrimSuffix(name, "/"), '/')+1:]
	switch {
	case strings.HasPrefix(base, text), strings.HasPrefix(name, text):
		return 0
	case strings.Contains(base, text):
		return 1
	case strings.Contains(name, text):
		return 2
	case subsequence(base, text):
		return 3
	case subsequence(name, text):
		return 4
	}
	return 5
}

// subsequence reports whether a name has the characters of a text in their order.
func subsequence(name, text string) bool {
	for _, r := range text {
		at := strings.IndexRune(name, r)
		if at < 0 {
			return false
		}
		name = name[at+utf8.RuneLen(r):]
	}
	return true
}
