// Package denylist finds out whether a shell script runs a command that is banned.
//
// A script is parsed, not searched. A command is found in a list, a pipe, a
// substitution or a function, and behind env, sudo, xargs, find -exec and the
// like. It is also found in the argument of eval, and in what a shell gets by
// -c, a here-document or a here-string. A mere word, as in "echo do not rm", is
// no command. Whatever cannot be decided, such as a command whose name is in a
// variable, is refused.
//
// The package guards against mistakes. It is no security boundary: it does not
// look into script files, makefiles, or programs in other languages.
package denylist

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScript is the longest script that is checked, in bytes. The parser's
	// stack grows with the nesting of the script, and Go cannot recover from a
	// stack overflow.
	maxScript = 64 << 10
	// maxDepth is how deep scripts may be nested in other scripts, as by sh -c.
	maxDepth = 8
)

// List is what is banned. The zero List bans nothing.
type List struct {
	commands []command
	programs []string
}

// command is a banned command: a program with some of its arguments.
type command struct {
	text    string // as it was given
	program string
	flags   []string // single letters, and long names without their dashes
	words   []string
}

// New parses the lists of banned commands and programs.
//
// A command begins with the name of a program; a directory in the name is
// ignored. If flags follow, the program is banned only with all of these flags,
// in any order and combination; -r, -R and -f also match --recursive and
// --force. If words follow, they must occur among the arguments in the same
// order.
//
// A banned program may not be run, and no word of a script may name it.
func New(commands, programs []string) (*List, error) {
	l := &List{}
	for _, text := range commands {
		fields := strings.Fields(text)
		if len(fields) == 0 || base(fields[0]) == "" {
			return nil, fmt.Errorf("banned command %q: want the name of a program, which flags and words may follow", text)
		}
		if strings.ContainsAny(text, shellSyntax) || strings.ContainsAny(base(fields[0]), ",:") || strings.Contains(text, ", ") {
			return nil, fmt.Errorf("banned command %q: want one program with flags and words as they stand, without commas, quotes or operators of the shell", text)
		}
		c := command{text: text, program: base(fields[0])}
		for _, field := range fields[1:] {
			if names := c.flagsOf(field); names != nil {
				c.flags = append(c.flags, names...)
			} else {
				c.words = append(c.words, field)
			}
		}
		l.commands = append(l.commands, c)
	}
	for _, text := range programs {
		if strings.ContainsAny(text, " \t\n"+shellSyntax) || base(text) == "" || strings.ContainsAny(base(text), ",:") {
			return nil, fmt.Errorf("banned application %q: want the name of a program", text)
		}
		l.programs = append(l.programs, base(text))
	}
	return l, nil
}

// shellSyntax has the characters that join or quote words. A command with one
// of them would never match, because only plain words are compared. The same is
// true of several names in one text.
const shellSyntax = "|&;<>()$`\"'\\"

// base returns the name of a program without its directory, and without the
// .exe that it may have on Windows.
func base(program string) string {
	if program == "" {
		return ""
	}
	name := path.Base(program)
	if cut := len(name) - len(".exe"); cut > 0 && strings.EqualFold(name[cut:], ".exe") {
		name = name[:cut]
	}
	if name == "/" || name == "." || name == ".." {
		return ""
	}
	return name
}

// wholeFlags are programs whose flags have one dash and several letters, as in
// -name.
var wholeFlags = []string{"find", "go", "java", "openssl", "terraform", "ffmpeg", "convert", "magick"}

func (b command) flagsOf(arg string) []string {
	names := flagsOf(arg)
	if len(names) > 1 && slices.Contains(wholeFlags, b.program) {
		return []string{strings.Join(names, "")}
	}
	return names
}

// flagsOf returns the names of the flags that an argument sets: the letters of
// -rf, the name in --force=x. It returns nil if the argument is no flag.
func flagsOf(arg string) []string {
	if name, ok := strings.CutPrefix(arg, "--"); ok && name != "" {
		name, _, _ = strings.Cut(name, "=")
		return []string{name}
	}
	letters, ok := strings.CutPrefix(arg, "-")
	if !ok || letters == "" || letters == "-" {
		return nil
	}
	return strings.Split(letters, "")
}

// longNames maps common short flags to the long names that nearly all programs
// give them.
var longNames = map[string]string{"r": "recursive", "R": "recursive", "f": "force"}

// sets reports whether the flag given is the banned one. A long name may be
// abbreviated, as most programs allow.
func sets(given, banned string) bool {
	long := banned
	if name, ok := longNames[banned]; ok {
		long = name
		if len(given) == 1 && longNames[given] == name {
			return true
		}
	} else if name, ok := longNames[given]; ok && name == banned {
		return true
	}
	return given == banned || len(given) > 1 && len(long) > 1 && strings.HasPrefix(long, given)
}

// Check returns an error that says why a script is refused, or nil if it may
// run.
func (l *List) Check(script string) (err error) {
	if len(l.commands)+len(l.programs) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("some commands are banned here, and the script cannot be checked for them (%v)", p)
		}
	}()
	c := &checker{list: l}
	return c.script(script)
}

// checker checks one script, and the scripts that it passes to shells.
type checker struct {
	list  *List
	depth int
}

// undecided returns the error for something that cannot be known before the
// script runs.
func undecided(format string, args ...any) error {
	return fmt.Errorf("some commands are banned here, and %s", fmt.Sprintf(format, args...))
}

func (c *checker) script(text string) error {
	if len(text) > maxScript {
		return undecided("a script of %d bytes is too long to be checked for them; put it into a file", len(text))
	}
	if c.depth++; c.depth > maxDepth {
		return undecided("shells within shells are nested too deep to be checked for them")
	}
	defer func() { c.depth-- }()
	file, err := parse(text)
	if err != nil {
		return undecided("the script cannot be checked for them because it does not parse (%v)", err)
	}
	return c.walk(file)
}

// parse parses a script as bash, or if that fails as a POSIX shell.
func parse(text string) (*syntax.File, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err == nil {
		return file, nil
	}
	if file, posixErr := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), ""); posixErr == nil {
		return file, nil
	}
	return nil, err
}

// run checks a command that is executed: its name and its arguments.
func (c *checker) run(args []word, in stdin) error {
	if len(args) == 0 {
		return nil
	}
	name, known := args[0].program()
	if !known {
		return undecided("it cannot be told what %s runs; write the name of the command out", args[0])
	}
	for _, banned := range c.list.commands {
		if banned.program != name {
			continue
		}
		switch banned.match(args[1:]) {
		case matches:
			return fmt.Errorf("the command %q is banned here", banned.text)
		case mayMatch:
			return undecided("it cannot be told whether this is %q; write the arguments out, and put -- before those that are no flags", banned.text)
		}
	}
	if slices.Contains(c.list.programs, name) {
		return fmt.Errorf("the application %q is banned here", name)
	}
	return c.within(name, args[1:], in)
}

type verdict int

const (
	differs verdict = iota
	mayMatch
	matches
)

// match compares the arguments of a program with the banned ones.
func (b command) match(args []word) verdict {
	missing := slices.Clone(b.flags)
	words := b.words
	unknown, first, onlyWords := false, true, false
	for _, arg := range args {
		text, known := arg.literal()
		switch {
		case !known:
			// A word that begins with known text other than a dash is no flag.
			mayBeFlag := !onlyWords && (arg.prefix() == "" || arg.prefix()[0] == '-')
			unknown = unknown || mayBeFlag && len(missing) > 0 || first && len(words) > 0
			first = false
		case !onlyWords && text == "--":
			onlyWords = true
		case !onlyWords && b.flagsOf(text) != nil:
			for _, flag := range b.flagsOf(text) {
				missing = slices.DeleteFunc(missing, func(banned string) bool { return sets(flag, banned) })
			}
		default:
			first = false
			if len(words) > 0 && text == words[0] {
				words = words[1:]
			}
		}
	}
	switch {
	case len(missing)+len(words) == 0:
		return matches
	case unknown:
		return mayMatch
	}
	return differs
}

// errNoScript is the reason to refuse a shell whose input cannot be seen in the
// script.
var errNoScript = errors.New("some commands are banned here, and what a shell reads from a pipe cannot be checked for them; put it into a script with -c")
