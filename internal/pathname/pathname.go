// Package pathname reads the paths that models and people give. They write "~/x",
// "$HOME/x", "file:///home/me/My%20Notes", `C:\Users\me\x`, `src\main.go`, a name in
// quotes or with a blank behind it, or a name whose accents are composed otherwise than
// on the disk. [Place.Read] returns the file that is meant, so that nobody creates one
// that is called "~", "$HOME" or "C:". What cannot be meant is refused in a sentence
// that says what to write instead.
//
// A file that has the given name already is always the one that is meant. What is read
// here is only the name: whether a file may be used is checked by who opens it.
//
// [Inside] finds out whether a file of the user lies where other programs may write: in a
// workspace, or in a directory that is mounted into a container.
//
// [IsCache] knows the directories of a project that hold nothing of the project's own: what
// programs install, build or cache there, and can put there again, and the directories in
// which a version control keeps its own files. Nobody names a file in them, and nobody wants
// a copy of them who copies the directory above. Names that projects also give to
// directories of their own, such as "build", are not among them. Checkpoints have a shorter
// list of their own (internal/checkpoint/objstore): what an undo does not bring back has to be lost
// without harm.
//
// [Mentions] finds the names of files that a message mentions, such as "look at @main.go" and
// `@"a name.txt"`, and [Mention] writes them.
package pathname

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Place is where a path is read: a workspace, or this machine.
type Place struct {
	// Roots are the absolute paths of a workspace, slash-separated: the one that
	// commands see, and the one on this machine. Without any, a path may lead
	// anywhere.
	Roots []string
	// Home is what "~" and "$HOME" mean; empty if that is not known.
	Home string
	// Exists reports whether there is a file or directory of that very name.
	Exists func(name string) bool
	// Names returns the names in a directory; nil if it cannot be listed.
	Names func(dir string) []string
	// Windows says that "\" separates directories and "C:" is a drive.
	Windows bool
}

// Host is this machine.
func Host() Place {
	home, _ := os.UserHomeDir() // without a home, "~" is refused
	return Place{Home: home, Exists: exists, Names: namesIn, Windows: runtime.GOOS == "windows"}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// Read returns the path that is meant by a given one: relative to the workspace if it
// is in that, and else as it was given but for what a shell or a program would have
// replaced. The empty path stays empty.
func (p Place) Read(given string) (string, error) {
	if IsPlain(given) {
		return given, nil
	}
	name := given
	for _, read := range []func(Place, string) (string, error){Place.bare, Place.local, Place.expanded, Place.onDrive, Place.slashed} {
		if p.Exists(name) {
			break
		}
		var err error
		if name, err = read(p, name); err != nil {
			return "", err
		}
	}
	if err := p.literal(name); err != nil {
		return "", err
	}
	return p.canonical(name), nil
}

// literal refuses a path that would begin with a file called "~", "$HOME" or "C:", as
// "./~/x" does.
func (p Place) literal(name string) error {
	if p.Windows {
		name = strings.ReplaceAll(name, `\`, "/")
	}
	top, rest, _ := strings.Cut(p.inside(path.Clean(name)), "/")
	isDrive := aDrive.MatchString(top) && !p.Windows
	if top != "~" && !aVariable.MatchString(top) && !isDrive || p.Exists(top) {
		return nil
	}
	return fmt.Errorf("%s: there is no file or directory %s; give a path of the workspace, such as %s", name, top, example(rest))
}

// ExpandHome returns a path with the home directory in the place of "~" or "$HOME" at its
// beginning, and reads nothing else. An empty home is that of the user.
func ExpandHome(name, home string) string {
	place := Host()
	place.Home = cmp.Or(home, place.Home)
	if read, err := place.expanded(name); err == nil {
		return read
	}
	return name
}

// Real returns the absolute path of a file, without links if it is there.
func Real(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}

// IsPlain reports whether there is nothing to read in a path.
func IsPlain(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf || strings.IndexByte("\\~$%:"+quotes, name[i]) >= 0 {
			return false
		}
	}
	return strings.TrimFunc(name, unicode.IsSpace) == name
}

const quotes = "\"'`"

// bare returns a path without the quotes and the blanks around it with which people
// paste one.
func (p Place) bare(name string) (string, error) {
	name = strings.TrimFunc(name, unicode.IsSpace)
	if n := len(name); n > 2 && name[0] == name[n-1] && strings.IndexByte(quotes, name[0]) >= 0 {
		name = name[1 : n-1]
	}
	return name, nil
}

var (
	aScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:/`)
	aDrive  = regexp.MustCompile(`^[A-Za-z]:([\\/]|$)`)
	// A variable that a shell would replace. Names in lower case, such as "$id.tsx",
	// are those of files.
	aVariable = regexp.MustCompile(`^(?:\$([A-Z_][A-Z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|%([A-Za-z_][A-Za-z0-9_]*)%)([/\\].*)?$`)
)

// local returns the path that a file URL names.
func (p Place) local(name string) (string, error) {
	if !aScheme.MatchString(name) {
		return name, nil
	}
	u, err := url.Parse(name)
	switch scheme, _, _ := strings.Cut(name, ":"); {
	case !strings.EqualFold(scheme, "file"):
		if !strings.Contains(name, "://") {
			return name, nil // such as "log:/x", which may be a directory
		}
		return "", fmt.Errorf("%s is a URL, and not the path of a file", name)
	case err != nil:
		return "", fmt.Errorf("%s: no file URL can be read so; give the path itself", name)
	case u.Host != "" && !strings.EqualFold(u.Host, "localhost") && u.Host != "127.0.0.1":
		return "", fmt.Errorf("%s names a file of the machine %s; give a path of this one", name, u.Host)
	case strings.ContainsRune(u.Path, 0):
		return "", errors.New("a path has no NUL")
	}
	if rest := strings.TrimPrefix(u.Path, "/"); aDrive.MatchString(rest) {
		return rest, nil
	}
	if p.inside(u.Path) == u.Path && len(p.Roots) > 0 { // outside, as who opens it says
		return u.Path, nil
	}
	return p.inside(u.Path), nil
}

// expanded returns a path with what "~" and "$HOME" at its beginning mean.
func (p Place) expanded(name string) (string, error) {
	at, rest, ok := "", "", false
	if m := aVariable.FindStringSubmatch(name); m != nil {
		variable := cmp.Or(m[1], m[2], m[3])
		switch rest, ok = m[4], true; variable {
		case "HOME", "USERPROFILE":
			at = p.Home
		case "PWD":
			at = "."
		default:
			return "", fmt.Errorf("%s: variables such as %s are not replaced in paths; write out what it holds, %s for example", name, variable, example(rest))
		}
	} else if after, is := strings.CutPrefix(name, "~"); is {
		user, below, _ := strings.Cut(strings.ReplaceAll(after, `\`, "/"), "/")
		switch isDir := len(user) < len(after); {
		case user == "":
			at, rest, ok = p.Home, after, true
		case isDir:
			return "", fmt.Errorf("%s: ~%s is the home of another user; give a path of the workspace, such as %s", name, user, example(below))
		}
	}
	if !ok {
		return name, nil
	}
	rest = strings.ReplaceAll(rest, `\`, "/")
	if at == "." {
		return path.Clean("./" + rest), nil
	}
	switch meant := path.Join(filepath.ToSlash(at), rest); {
	case at == "" && len(p.Roots) == 0:
		return "", fmt.Errorf("%s: it is not known where the home directory is; give the whole path", name)
	case len(p.Roots) == 0:
		return filepath.FromSlash(meant + strings.Repeat("/", trailing(rest))), nil
	case at != "" && p.inside(meant) != meant:
		return p.inside(meant), nil
	}
	return "", fmt.Errorf("%s lies in the home directory, outside the workspace; give a path of the workspace, such as %s, or use bash", name, example(rest))
}

// trailing is 1 for a path that says by its end that it is a directory.
func trailing(rest string) int {
	if len(rest) > 1 && strings.HasSuffix(rest, "/") {
		return 1
	}
	return 0
}

// example is how a path that begins elsewhere could be written.
func example(rest string) string {
	base := path.Base(strings.ReplaceAll(rest, `\`, "/"))
	if base == "." || base == "/" || base == ".." {
		return "."
	}
	return base
}

// onDrive returns the path that one with a drive of Windows means here.
func (p Place) onDrive(name string) (string, error) {
	isShare := strings.HasPrefix(name, `\\`) && len(name) > 2
	if !aDrive.MatchString(name) && !isShare || p.Windows {
		return name, nil
	}
	slashes := strings.ReplaceAll(name, `\`, "/")
	if in := p.inside(slashes); in != slashes {
		return in, nil
	}
	if !isShare { // as WSL and Git for Windows name it
		drive, rest := strings.ToLower(name[:1]), slashes[2:]
		for _, mounted := range []string{"/mnt/" + drive + rest, "/" + drive + rest} {
			if in := p.inside(mounted); in != mounted {
				return in, nil
			}
			if len(p.Roots) == 0 && p.Exists(mounted) {
				return mounted, nil
			}
		}
	}
	if len(p.Roots) == 0 {
		return "", fmt.Errorf("%s is a path of Windows, which this machine does not have; give the path here", name)
	}
	return "", fmt.Errorf("%s is a path of Windows, outside the workspace; give a path of the workspace, such as %s", name, example(slashes))
}

// shellQuoted are the characters before which a shell needs a backslash.
const shellQuoted = " \t'\"`\\()[]{}<>|&;*?!#$~=,:"

// slashed returns a path whose backslashes are those of a shell, or separate directories,
// as they do on Windows.
func (p Place) slashed(name string) (string, error) {
	if p.Windows || !strings.Contains(name, `\`) {
		return name, nil
	}
	slashes := strings.ReplaceAll(name, `\`, "/")
	top, _, _ := strings.Cut(slashes, "/")
	slashes = path.Clean(slashes)
	switch bare, ok := unescaped(name); {
	case ok && p.Exists(bare):
		return bare, nil
	case ok && (strings.Contains(name, `\ `) || !p.Exists(top)):
		return p.expanded(bare)
	}
	return slashes, nil
}

// unescaped removes the backslashes that a shell needs. ok is false if there are others.
func unescaped(name string) (bare string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' {
			if i++; i == len(name) || !strings.ContainsRune(shellQuoted, rune(name[i])) || name[i] == '\\' {
				return "", false
			}
		}
		b.WriteByte(name[i])
	}
	return b.String(), true
}

// inside returns a path relative to the workspace if it begins with one of its roots, and
// else the path.
func (p Place) inside(name string) string {
	clean := path.Clean(name)
	for _, root := range p.Roots {
		if rest, ok := below(clean, root); ok {
			return rest
		}
		if rest, ok := below(norm.NFC.String(clean), norm.NFC.String(root)); ok {
			return rest
		}
	}
	return name
}

func below(name, root string) (rest string, ok bool) {
	if root == "" {
		return "", false
	}
	if name == root {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

// canonical returns a path whose elements are spelled as on the disk, where there is one
// that is canonically equal: "é" may be one character or two. What does not exist stays.
func (p Place) canonical(name string) string {
	if isASCII(name) || p.Names == nil || p.Exists(name) {
		return name
	}
	name = p.inside(name)
	separator := "/"
	if p.Windows {
		separator = string(filepath.Separator)
	}
	elements := strings.Split(filepath.ToSlash(name), "/")
	for i, element := range elements {
		upTo := strings.Join(elements[:i+1], separator)
		if isASCII(element) || p.Exists(upTo) {
			continue
		}
		dir := strings.Join(elements[:i], separator)
		if i == 0 {
			dir = "."
		} else if i == 1 && elements[0] == "" {
			dir = separator
		}
		other, ok := equalIn(p.Names(dir), element)
		if !ok {
			break
		}
		elements[i] = other
	}
	return strings.Join(elements, separator)
}

// equalIn returns the only one of the names that is canonically equal.
func equalIn(names []string, name string) (equal string, ok bool) {
	name = norm.NFC.String(name)
	for _, other := range names {
		if !isASCII(other) && norm.NFC.String(other) == name {
			if ok {
				return "", false
			}
			equal, ok = other, true
		}
	}
	return equal, ok
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}
