package denylist

import (
	"slices"
	"strings"
)

// runner describes a program that runs the command in its arguments.
type runner struct {
	valued  string   // letters of the flags that take a value
	long    []string // long names of those
	skip    int      // number of arguments before the command, such as a duration
	assigns bool     // NAME=value may stand before the command
	input   bool     // the program adds arguments that it reads from its input
	script  string   // letters of the flags whose value is a script
	scripts []string // long names of those
}

var runners = map[string]runner{
	"env":              {valued: "uC", long: []string{"unset", "chdir"}, assigns: true, script: "S", scripts: []string{"split-string"}},
	"sudo":             {valued: "CDghpRrTtUu", long: []string{"close-from", "chdir", "group", "host", "prompt", "chroot", "role", "command-timeout", "type", "other-user", "user"}, assigns: true},
	"doas":             {valued: "uC", assigns: true},
	"runuser":          {valued: "gGsuwc", long: []string{"group", "supp-group", "shell", "user", "whitelist-environment", "command", "session-command"}},
	"nohup":            {},
	"setsid":           {},
	"exec":             {valued: "a"},
	"command":          {},
	"builtin":          {},
	"busybox":          {},
	"toybox":           {},
	"fakeroot":         {valued: "lsifub"},
	"time":             {valued: "fo", long: []string{"format", "output"}},
	"nice":             {valued: "n", long: []string{"adjustment"}},
	"ionice":           {valued: "cn", long: []string{"class", "classdata"}},
	"chrt":             {valued: "TPD", skip: 1},
	"taskset":          {skip: 1},
	"timeout":          {valued: "ks", long: []string{"kill-after", "signal"}, skip: 1},
	"chroot":           {long: []string{"userspec", "groups"}, skip: 1},
	"stdbuf":           {valued: "ioe", long: []string{"input", "output", "error"}},
	"flock":            {valued: "wE", long: []string{"timeout", "conflict-exit-code"}, skip: 1},
	"unshare":          {valued: "RwSG", long: []string{"root", "wd", "setuid", "setgid", "propagation"}},
	"nsenter":          {valued: "tSGrw", long: []string{"target", "setuid", "setgid"}},
	"setpriv":          {long: []string{"reuid", "regid", "groups", "inh-caps", "ambient-caps", "bounding-set", "securebits"}},
	"prlimit":          {valued: "po"},
	"strace":           {valued: "abeIoOpPsSuEX", long: []string{"output", "trace"}},
	"xargs":            {valued: "adEILnPs", long: []string{"arg-file", "delimiter", "max-args", "max-procs", "max-chars"}, input: true},
	"xvfb-run":         {valued: "efnpsw"},
	"systemd-run":      {valued: "pEtMuH", long: []string{"unit", "property", "setenv", "slice", "uid", "gid"}},
	"dbus-run-session": {},
}

// shells read their script from -c, from a file or from their input.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"}

// within checks the commands that a program runs on behalf of its caller.
func (c *checker) within(name string, args []word, in stdin) error {
	switch {
	case slices.Contains(shells, name):
		return c.shell(args, in)
	case name == "command" && len(args) > 0 && (args[0].prefix() == "-v" || args[0].prefix() == "-V"):
		return nil // it only looks the name up and runs nothing
	case name == "eval":
		return c.eval(args)
	case name == "trap":
		return c.trap(args)
	case name == "alias":
		return c.alias(args)
	case name == "find":
		return c.find(args)
	case name == "watch" || name == "parallel":
		return c.joined(args)
	case name == "source" || name == ".":
		if len(args) > 0 && strings.HasPrefix(args[0].raw, "<(") {
			return errNoScript
		}
	case slices.Contains([]string{"su", "runuser", "script", "flock"}, name):
		if err := c.scriptFlag(args); err != nil {
			return err
		}
	}
	if r, ok := runners[name]; ok {
		return c.runner(r, args, in)
	}
	return nil
}

// scriptFlag checks the scripts in the flags -c and --command, wherever they
// stand.
func (c *checker) scriptFlag(args []word) error {
	r := runner{script: "c", scripts: []string{"command", "session-command"}}
	for i := range args {
		_, scripts := r.split(args[i:min(i+2, len(args))])
		for _, s := range scripts {
			if err := c.text(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// runner checks the command in the arguments of such a program.
func (c *checker) runner(r runner, args []word, in stdin) error {
	rest, scripts := r.split(args)
	for _, s := range scripts {
		if err := c.text(s); err != nil {
			return err
		}
	}
	for r.assigns && len(rest) > 0 && strings.Contains(rest[0].prefix(), "=") {
		rest = rest[1:]
	}
	for range min(r.skip, len(rest)) {
		if rest[0].mayBeSeveral() {
			return undecided("it cannot be told where the command after %s begins; put it in quotes", rest[0])
		}
		rest = rest[1:]
	}
	if r.input && len(rest) > 0 {
		rest = append(slices.Clip(rest), unknownWord)
		for i, w := range rest {
			if placeholder(w) {
				rest[i].parts = unknownWord.parts
			}
		}
		in = stdin{piped: true}
	}
	return c.run(rest, in)
}

// split separates the arguments of a runner itself from the command that
// follows. It also returns the values of flags that are scripts.
func (r runner) split(args []word) (rest, scripts []word) {
	for len(args) > 0 {
		text := args[0].prefix()
		if text == "--" {
			return args[1:], scripts
		}
		names := flagsOf(text)
		if names == nil && text != "-" { // env treats it like -i
			return args, scripts
		}
		flag, value := args[0], args[1:]
		args = args[1:]
		takes, script, attached := r.value(text, names)
		switch {
		case attached != nil && script:
			scripts = append(scripts, flag.after(*attached))
		case attached == nil && takes && len(value) > 0:
			if script {
				scripts = append(scripts, value[0])
			}
			args = value[1:]
		}
	}
	return nil, scripts
}

// value describes the value of a flag: whether the flag takes one, whether it
// is a script, and how many bytes of the argument come before it if it is
// attached to the flag.
func (r runner) value(text string, names []string) (takes, script bool, attached *int) {
	if strings.HasPrefix(text, "--") {
		script = slices.Contains(r.scripts, names[0])
		if at := strings.IndexByte(text, '='); at >= 0 {
			return true, script, new(at + 1)
		}
		return script || slices.Contains(r.long, names[0]), script, nil
	}
	at := 1
	for _, letter := range names {
		at += len(letter)
		script = strings.Contains(r.script, letter)
		if script || strings.Contains(r.valued, letter) {
			if at < len(text) {
				attached = &at
			}
			return true, script, attached
		}
	}
	return false, false, nil
}

// after returns the word without the first n bytes of its text.
func (w word) after(n int) word {
	out := word{raw: w.raw}
	for _, p := range w.parts {
		if cut := min(n, len(p.text)); !p.unknown && cut > 0 {
			p.text, n = p.text[cut:], n-cut
		}
		out.parts = append(out.parts, p)
	}
	return out
}

// text checks a word that is executed as a script.
func (c *checker) text(w word) error {
	script, known := w.literal()
	if !known {
		return undecided("it cannot be told what the script %s runs; write it out", w)
	}
	return c.script(script)
}

// shell checks the script that a shell gets by -c or as its input. It does not
// look into files.
func (c *checker) shell(args []word, in stdin) error {
	flags, rest, err := shellFlags(args)
	switch {
	case err != nil:
		return err
	case strings.Contains(flags, "c"):
		if len(rest) > 0 {
			return c.text(rest[0])
		}
		return nil
	case len(rest) > 0 && !strings.Contains(flags, "s"):
		return nil
	case in.doc != nil:
		return c.text(wordOf(in.doc))
	case in.piped:
		return errNoScript
	}
	return nil
}

// shellFlags returns the letters of a shell's flags, and the arguments after
// them.
func shellFlags(args []word) (flags string, rest []word, err error) {
	for len(args) > 0 {
		text, known := args[0].literal()
		switch {
		case !known && strings.Contains(flags, "c"):
			return flags, args, nil
		case !known && (text == "" || text[0] == '-'):
			return "", nil, undecided("it cannot be told what a shell is given by %s; write it out", args[0])
		case text == "-" || text == "--":
			return flags, args[1:], nil
		case text == "" || text[0] != '-' && text[0] != '+':
			return flags, args, nil
		}
		args = args[1:]
		valued := text == "--rcfile" || text == "--init-file"
		if !strings.HasPrefix(text, "--") {
			flags += text[1:]
			valued = strings.ContainsAny(text, "oO") // the name of a setting
		}
		if valued {
			args = args[min(1, len(args)):]
		}
	}
	return flags, nil, nil
}

// eval checks the script that eval makes by joining its arguments.
func (c *checker) eval(args []word) error {
	var script []string
	for _, arg := range args {
		text, known := arg.literal()
		if !known {
			return undecided("it cannot be told what eval runs by %s; write it out", arg)
		}
		script = append(script, text)
	}
	return c.script(strings.Join(script, " "))
}

// trap checks the command that trap sets for a signal.
func (c *checker) trap(args []word) error {
	if len(args) > 0 && args[0].prefix() == "--" {
		args = args[1:]
	}
	if len(args) < 2 || flagsOf(args[0].prefix()) != nil {
		return nil
	}
	return c.text(args[0])
}

// alias checks the commands for which alias sets another name.
func (c *checker) alias(args []word) error {
	for _, arg := range args {
		if at := strings.IndexByte(arg.prefix(), '='); at >= 0 {
			if err := c.text(arg.after(at + 1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// find checks the commands that find executes for the files that it finds.
func (c *checker) find(args []word) error {
	for i, arg := range args {
		text, _ := arg.literal()
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, text) {
			continue
		}
		command := slices.Clone(args[i+1:])
		if end := slices.IndexFunc(command, func(w word) bool { text, _ := w.literal(); return text == ";" || text == "+" }); end >= 0 {
			command = command[:end]
		}
		for j, w := range command {
			if placeholder(w) {
				command[j] = found(w)
			}
		}
		if err := c.run(command, stdin{}); err != nil {
			return err
		}
	}
	return nil
}

// placeholder reports whether a program replaces {} in the word by a file name.
// In a script, that is a word with white space, the file name is one of several
// words.
func placeholder(w word) bool {
	return strings.Contains(w.prefix(), "{}") && !strings.ContainsAny(w.prefix(), " \t\n")
}

// found returns a word in which find has replaced {} by a path. The path begins
// with a directory that find was told to search, so a word that is just {} is
// never a flag.
func found(w word) word {
	before, _, _ := strings.Cut(w.prefix(), "{}")
	if before == "" {
		before = "./"
	}
	return word{parts: []part{{text: before}, {unknown: true}}, raw: w.raw}
}

// joined checks a program that joins its arguments to a script. The arguments
// after ::: are the input of parallel.
func (c *checker) joined(args []word) error {
	rest, _ := runner{valued: "njaIN", long: []string{"interval", "jobs", "arg-file", "max-args"}}.split(args)
	if end := slices.IndexFunc(rest, func(w word) bool { return strings.HasPrefix(w.prefix(), ":::") }); end >= 0 {
		rest = rest[:end]
	}
	return c.eval(rest)
}
