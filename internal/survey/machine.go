// Package survey looks at a place before the work there begins: what system it
// is, which of the common programs it has, what its workspace holds, and in what
// state its git repository is. It makes scripts for a shell and reads what they
// print. Everything that it is given may be hostile: what it returns is short,
// has no control characters, and is the same for the same place.
package survey

import (
	"slices"
	"strings"
)

// programs are those that a model wants to know about, the most wanted first.
var programs = []string{
	"git", "python3", "pip", "uv", "node", "npm", "go", "cargo", "java", "gcc", "make", "cmake",
	"rg", "curl", "wget", "jq", "patch", "unzip", "sqlite3",
}

// Machine is what is known of where commands run.
type Machine struct {
	System  string   // such as "Debian GNU/Linux 12 (bookworm)"; empty if it is not known
	Found   []string // of the common programs, those that are there
	Missing []string // and those that are not; both are empty if nothing is known
}

// Find makes a Machine of a system's name and a function that reports whether
// commands can run a program.
func Find(system string, runs func(program string) bool) Machine {
	m := Machine{System: systemName(system)}
	for _, name := range programs {
		if runs(name) {
			m.Found = append(m.Found, name)
		} else {
			m.Missing = append(m.Missing, name)
		}
	}
	return m
}

// IsKnown reports whether it is known what programs there are.
func (m Machine) IsKnown() bool { return len(m.Found)+len(m.Missing) > 0 }

// Lines says in sentences what commands find where they run.
func (m Machine) Lines() (lines []string) {
	if m.System != "" {
		lines = append(lines, "The system is "+m.System+".")
	}
	if !m.IsKnown() {
		return lines
	}
	there, missing := "none of the common ones", ""
	if len(m.Found) > 0 {
		there = strings.Join(m.Found, ", ")
	}
	if len(m.Missing) > 0 {
		missing = "; not there: " + strings.Join(m.Missing, ", ")
	}
	return append(lines, "Programs: "+there+missing+".")
}

// PrettyName returns the name of a system that an os-release file tells, or "".
func PrettyName(release string) string {
	for line := range strings.Lines(release) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return systemName(name)
		}
	}
	return ""
}

// begun is the line that each script prints first. What comes before it is not the
// script's: a shell complains of a locale that an image names and does not have, and
// runs files that variables name.
const begun = "-- survey --"

// begin is the beginning of each script. What its shell complains of goes nowhere.
const begin = "exec 2>/dev/null\necho '" + begun + "'\n"

// printed returns what a script printed itself.
func printed(output string) string {
	if _, own, ok := strings.Cut("\n"+output, "\n"+begun+"\n"); ok {
		return own
	}
	return ""
}

// MachineScript is the script whose output [ReadMachine] understands. It needs
// nothing but a POSIX shell.
func MachineScript() string {
	return begin + `for p in ` + strings.Join(programs, " ") + `; do command -v "$p" >/dev/null 2>&1 && printf '%s ' "$p"; done
echo
if [ -f /etc/os-release ] && [ -r /etc/os-release ]; then
while IFS= read -r l; do case $l in PRETTY_NAME=*) printf '%s\n' "${l#PRETTY_NAME=}"; break;; esac; done </etc/os-release
else uname -s; fi 2>/dev/null
echo end`
}

// ReadMachine reads the output of [MachineScript]. ok is false if the script did
// not come to its end.
func ReadMachine(output string) (m Machine, ok bool) {
	lines := strings.Split(strings.TrimRight(printed(output), "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] != "end" {
		return Machine{}, false
	}
	there, system := strings.Fields(lines[0]), ""
	if len(lines) > 2 {
		system = lines[1]
	}
	return Find(system, func(name string) bool { return slices.Contains(there, name) }), true
}

// longestSystem bounds the name of a system, in bytes.
const longestSystem = 60

// systemName returns a name as it may be shown: whoever made the system wrote it.
func systemName(s string) string {
	s = strings.Trim(strings.TrimSpace(s), `"'`)
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" ./()_+-", r):
			return r
		}
		return -1
	}, s)
	return strings.TrimSpace(s[:min(len(s), longestSystem)])
}
