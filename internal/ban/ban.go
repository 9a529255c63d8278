// Package ban tells whether a shell script runs a command that is banned.
//
// Scripts are parsed, not searched: a command is seen in a list, a pipe, a
// substitution, a function, behind env, sudo, xargs, find -exec and the like,
// and in what is handed to eval and to a shell by -c, a here-document or a
// here-string; a mere word, as in "echo do not rm", is none. What cannot be
// decided, such as a command whose name is in a variable, is refused.
//
// It is a guard-rail against mistakes, and no boundary: a script file, a
// makefile or a program of another language is not looked into.
package ban

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
	// stack grows with the nesting, and Go cannot recover when it overflows.
	maxScript = 64 << 10
	// maxDepth is how deep scripts may be handed to shells within scripts.
	maxDepth = 8
)

// List is what is banned. The zero List bans nothing.
type List struct {
	commands []command
	programs []string
}

// command is a command that is banned: a program with some of its arguments.
type command struct {
	text    string // as it was given
	program string
	flags   []string // single letters, and long names without the dashes
	words   []string
}

// New reads what is banned.
//
// A command is the name of a program, with or without its directory, which does
// not count. Flags after it ban the program only with all of them, in any order
// and combination; -r, -R and -f stand for --recursive and --force too. Words
// after it have to stand among the arguments in this order.
//
// A program may be neither run nor named by any word of a script.
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

// shellSyntax are characters that join or quote words. Who writes them means
// more than the words that are compared here, and would ban nothing; so would
// a list of names in one text.
const shellSyntax = "|&;<>()$`\"'\\"

// base returns the name of a program without its directory, and without the
// .exe that Windows may give it.
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

// wholeFlags are programs whose flags have one dash and several letters.
var wholeFlags = []string{"find", "go", "java", "openssl", "terraform", "ffmpeg", "convert", "magick"}

func (b command) flagsOf(arg string) []string {
	names := flagsOf(arg)
	if len(names) > 1 && slices.Contains(wholeFlags, b.program) {
		return []string{strings.Join(names, "")}
	}
	return names
}

// flagsOf returns the names of the flags that an argument sets: of -rf the
// letters, of --force=x the word. It is nil for an argument that is no flag.
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

// longNames are the long names that the usual flags have nearly everywhere.
var longNames = map[string]string{"r": "recursive", "R": "recursive", "f": "force"}

// sets reports whether a flag that an argument sets is the one that is banned.
// Long names may be cut short, as most programs let them be.
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

// Check returns an error that says why a script is refused, nil for one that
// may run.
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

// checker checks one script, and those that it hands to shells.
type checker struct {
	list  *List
	depth int
}

// undecided is the error of what cannot be told before it runs.
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

// parse reads a script as bash does, or else as a POSIX shell does.
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

// run checks a command that is run: its name and its arguments.
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

// match compares the arguments of the program with those that are banned.
func (b command) match(args []word) verdict {
	missing := slices.Clone(b.flags)
	words := b.words
	unknown, first, onlyWords := false, true, false
	for _, arg := range args {
		text, known := arg.literal()
		switch {
		case !known:
			// Text at its start says that it is no flag.
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

// errNoScript is the reason for a shell that reads what cannot be seen here.
var errNoScript = errors.New("some commands are banned here, and what a shell reads from a pipe cannot be checked for them; put it into a script with -c")
