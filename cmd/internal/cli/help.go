package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/x/pygent/internal/spelling"
)

// Of the help: how wide it is, and where its second column begins.
const (
	helpWidth  = 80
	helpColumn = 28
)

// helpCmd prints help.
type helpCmd struct {
	Topic []string `arg:"" optional:"" help:"A command, or flags for the flags of every command."`
}

// Run prints the help of the topic, and without one what --help prints.
func (h helpCmd) Run(parsed *kong.Context, out *output) error {
	if len(h.Topic) == 1 && h.Topic[0] == "flags" {
		printSharedFlags(out, parsed.Model.Node)
		return nil
	}
	about := parsed.Model.Node
	for i, word := range h.Topic {
		names := namesOf(about)
		at := slices.Index(names, word)
		if at < 0 {
			return &exitError{exitUsage, noHelp(h.Topic[:i+1], names)}
		}
		about = shownCommands(about)[at]
	}
	if about.Parent == nil {
		printOverview(out, about)
	} else {
		printCommandHelp(out, about)
	}
	return nil
}

// noHelp says that there is no help about a topic, and about what there is some.
func noHelp(topic, names []string) error {
	if len(topic) == 1 {
		names = append(names, "flags")
	}
	last := len(topic) - 1
	text := "no help topic " + strings.Join(topic, " ") + "."
	if like := spelling.Nearest(topic[last], names); like != "" {
		text += " Did you mean " + like + "?"
	}
	of := strings.Join(append([]string{"pygent"}, topic[:last]...), " ")
	if len(names) == 0 {
		return fmt.Errorf("%s %s has no commands of its own", text, of)
	}
	return fmt.Errorf("%s %s has help on: %s", text, of, strings.Join(names, ", "))
}

// printHelp is what --help prints.
func printHelp(_ kong.HelpOptions, parsed *kong.Context) error {
	if command := parsed.Selected(); command != nil {
		printCommandHelp(parsed.Stdout, command)
	} else {
		printOverview(parsed.Stdout, parsed.Model.Node)
	}
	return nil
}

// printOverview prints the commands, and of the flags those that are used most,
// on one screen.
func printOverview(w io.Writer, root *kong.Node) {
	fmt.Fprintf(w, "%s\n\n", root.Help)
	for _, command := range shownCommands(root) {
		printRow(w, synopsis(command), command.Help)
	}
	fmt.Fprintf(w, "\nThe most common flags:\n")
	for _, flag := range slices.Concat(root.DefaultCmd.Flags, root.Flags) {
		if flag.Tag.Has("often") {
			printRow(w, flagSynopsis(flag), flag.Help)
		}
	}
	fmt.Fprintf(w, "\n\"pygent help flags\" lists all flags, \"pygent help COMMAND\" those of a command.\n")
}

// printCommandHelp prints what a command takes besides the shared flags.
func printCommandHelp(w io.Writer, command *kong.Node) {
	fmt.Fprintf(w, "%s [flags]\n\n%s\n", synopsis(command), command.Help)
	if command.Detail != "" {
		fmt.Fprintf(w, "\n%s\n", command.Detail)
	}
	var rows [][2]string
	for _, child := range command.Children {
		rows = append(rows, [2]string{synopsis(child), child.Help})
	}
	for _, arg := range command.Positional {
		rows = append(rows, [2]string{strings.Trim(argument(arg), "[]"), arg.Help})
	}
	for _, flag := range command.Flags {
		rows = append(rows, [2]string{flagSynopsis(flag), flag.Help})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
	}
	for _, row := range rows {
		printRow(w, row[0], row[1])
	}
	fmt.Fprintf(w, "\nFlags of every command: pygent help flags\n")
}

// printSharedFlags prints the flags that every command takes, by group.
func printSharedFlags(w io.Writer, root *kong.Node) {
	fmt.Fprintf(w, "Flags of every command. You can also set each one in a file or in the\nenvironment; \"pygent config\" shows what is set, and where.\n")
	for _, group := range flagGroups(root) {
		if group.Title != "" {
			fmt.Fprintf(w, "\n%s\n", group.Title)
		}
		for _, flag := range group.Flags {
			printRow(w, flagSynopsis(flag), flag.Help)
		}
	}
}

// FlagGroup is a group of the flags that every command takes.
type FlagGroup struct {
	Title string // empty for --help
	Flags []*kong.Flag
}

// flagGroups returns the flags that every command takes and the help shows, by group.
func flagGroups(root *kong.Node) []FlagGroup {
	var groups []FlagGroup
	for _, flag := range root.Flags {
		if flag.Hidden {
			continue
		}
		title := ""
		if flag.Group != nil {
			title = flag.Group.Title
		}
		if len(groups) == 0 || groups[len(groups)-1].Title != title {
			groups = append(groups, FlagGroup{Title: title})
		}
		last := &groups[len(groups)-1]
		last.Flags = append(last.Flags, flag)
	}
	return groups
}

// shownCommands are the commands that the help tells of.
func shownCommands(root *kong.Node) []*kong.Node {
	var shown []*kong.Node
	for _, command := range root.Children {
		if !command.Hidden {
			shown = append(shown, command)
		}
	}
	return shown
}

// namesOf are the names of shownCommands.
func namesOf(root *kong.Node) (names []string) {
	for _, command := range shownCommands(root) {
		names = append(names, command.Name)
	}
	return names
}

// topicOf is what pygent help calls a command.
func topicOf(command *kong.Node) string {
	var words []string
	for at := command; at.Parent != nil; at = at.Parent {
		words = append([]string{at.Name}, words...)
	}
	return strings.Join(words, " ")
}

// synopsis is how a command is called, without its flags.
func synopsis(command *kong.Node) string {
	var words []string
	for at := command; at != nil; at = at.Parent {
		words = append([]string{at.Name}, words...)
	}
	for _, arg := range command.Positional {
		words = append(words, argument(arg))
	}
	return strings.Join(words, " ")
}

func argument(arg *kong.Positional) string {
	name := strings.ToUpper(arg.Name)
	if arg.Required {
		return name
	}
	return "[" + name + "]"
}

// flagSynopsis is how a flag is written.
func flagSynopsis(flag *kong.Flag) string {
	text := "--" + flag.Name
	if flag.Short != 0 {
		text = fmt.Sprintf("-%c, %s", flag.Short, text)
	}
	if !flag.IsBool() || flag.PlaceHolder != "" { // --resume [ID] may have a value
		text += " " + flag.FormatPlaceHolder()
	}
	return text
}

// printRow prints a name and what it is, in two columns.
func printRow(w io.Writer, name, text string) {
	line := fmt.Sprintf("  %-*s", helpColumn-2, name)
	if len(name) > helpColumn-4 { // two blanks before it and after it
		fmt.Fprintln(w, strings.TrimRight(line, " "))
		line = strings.Repeat(" ", helpColumn)
	}
	indent := true
	for word := range strings.FieldsSeq(text) {
		if !indent && len(line)+1+len(word) > helpWidth {
			fmt.Fprintln(w, line)
			line, indent = strings.Repeat(" ", helpColumn), true
		}
		if !indent {
			line += " "
		}
		line, indent = line+word, false
	}
	fmt.Fprintln(w, line)
}
