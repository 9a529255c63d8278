package compact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/cut"
)

// Made is a call that was made, in our words, and how it ended.
type Made struct {
	Tool      string
	Arguments string
	OK        bool
	End       string // of a command, such as "exit code 0"; empty if it did not run
}

// Bounds of a record.
const (
	mostFiles    = 40
	mostCommands = 8
	mostOpen     = 12
	ofCommand    = 160 // bytes
)

// changers are the tools that change a file, with the argument that names it.
var changers = map[string]string{"write_file": "path", "edit_file": "path", "collect_file": "dest"}

// Record says what calls did, and what is still at work, in at most about max bytes: which files they
// changed, and how the last commands ended. It stands beside a summary, which a model may
// get wrong. What happened last comes before what fits no more. It is empty if there is nothing.
func Record(made []Made, open []string, max int) string {
	var b strings.Builder
	section := func(title string, lines []string, most int) {
		size := b.Len() + len(title)
		fitting := 0
		for _, line := range slices.Backward(lines) {
			if size += len(line) + len("- \n"); size > max && fitting > 0 || fitting == most || size > max+ofCommand {
				break
			}
			fitting++
		}
		if fitting == 0 {
			return
		}
		b.WriteString(title + "\n")
		if less := len(lines) - fitting; less > 0 {
			fmt.Fprintf(&b, "- (%d before them are left out)\n", less)
		}
		for _, line := range lines[len(lines)-fitting:] {
			b.WriteString("- " + line + "\n")
		}
	}
	section("Still at work:", open, mostOpen)
	section("Files that tools changed:", filesOf(made), mostFiles)
	section("The last commands:", commandsOf(made), mostCommands)
	return b.String()
}

// filesOf returns the files that calls changed, each once, where it was changed last.
func filesOf(made []Made) (files []string) {
	for _, m := range made {
		file := argument(m, changers[m.Tool])
		if file == "" || !m.OK {
			continue
		}
		file = quoted(file)
		files = append(slices.DeleteFunc(files, func(f string) bool { return f == file }), file)
	}
	return files
}

// commandsOf returns the commands that ran, with how they ended.
func commandsOf(made []Made) (commands []string) {
	for _, m := range made {
		if m.Tool == "bash" && m.End != "" {
			commands = append(commands, m.End+": "+quoted(argument(m, "cmd")))
		}
	}
	return commands
}

func argument(m Made, name string) string {
	if name == "" {
		return ""
	}
	var args map[string]any
	_ = json.Unmarshal([]byte(m.Arguments), &args)
	text, _ := args[name].(string)
	return text
}

// quoted is a text in a line, which cannot be taken for one of the record's own.
func quoted(text string) string {
	encoded, _ := json.Marshal(cut.Head(text, ofCommand))
	return string(encoded)
}
