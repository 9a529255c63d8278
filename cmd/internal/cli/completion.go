package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

// completionCmd prints a script that makes a shell complete commands and flags.
// The script asks completeCmd at each key.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help tells how the script is used.
func (completionCmd) Help() string {
	return `For bash, in ~/.bashrc:   source <(pygent completion bash)
For zsh, in ~/.zshrc:     source <(pygent completion zsh)
For fish:                 pygent completion fish | source`
}

// Run prints the script for the shell.
func (c completionCmd) Run(out *output) error {
	out.println(strings.TrimSpace(completionScripts[c.Shell]))
	return nil
}

// completionScripts make a shell complete the arguments of pygent. Each gives
// the words up to the cursor to completeCmd.
var completionScripts = map[string]string{
	"bash": `
_pygent() {
	local cur=${COMP_WORDS[COMP_CWORD]} line
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == :files ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		else
			COMPREPLY+=("${line%%$'\t'*}")
		fi
	done < <(pygent complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _pygent pygent`,
	"zsh": `
#compdef pygent
_pygent() {
	local line
	local -a found
	for line in "${(@f)$(pygent complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ $line == :files ]]; then
			_files
		elif [[ -n $line ]]; then
			found+=("${${line//:/\\:}/$'\t'/:}")
		fi
	done
	(( ! $#found )) || _describe pygent found
}
if [[ $funcstack[1] == _pygent ]]; then _pygent; else compdef _pygent pygent; fi`,
	"fish": `
function __pygent_complete
	set -l words (commandline -opc) (commandline -ct)
	for line in (pygent complete-words -- $words[2..-1] 2>/dev/null)
		if test "$line" = :files
			__fish_complete_path (commandline -ct)
		else
			echo $line
		end
	end
end
complete -c pygent -f -a '(__pygent_complete)'`,
}

// completeCmd prints what the last of some words may become: a line for each,
// with a tab before its description, or ":files" where files are meant.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the words.
func (c completeCmd) Run(parsed *kong.Context, out *output) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, word := range completions(parsed.Model.Node, words, sessionIDs) {
		out.println(word)
	}
	return nil
}

// files stands for the names of files, which the shell completes itself.
const files = ":files"

// sessionIDs returns the IDs of the kept sessions, with what they are about.
func sessionIDs() (ids []string) {
	_, list, _ := kept() // what cannot be read is not offered
	for _, info := range list {
		ids = append(ids, info.ID+"\t"+numeral.Ago(time.Since(info.Used))+", "+cut.Line(info.Title, shownTitle))
	}
	return ids
}

// completions returns what the last word may become. sessions returns the IDs.
func completions(root *kong.Node, words []string, sessions func() []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last, before := words[len(words)-1], words[:len(words)-1]
	command, open := place(root, before)
	switch {
	case command.Name == "check" && open == nil && !strings.HasPrefix(last, "-"):
		return []string{files}
	case open != nil && takesFile(open.PlaceHolder):
		return []string{files}
	case open != nil:
		return nil
	case strings.HasPrefix(last, "-"):
		return flagsLike(last, root, command)
	case takesID(command, before):
		return beginning(sessions(), last)
	case command.Name == "export" && len(before) > 0:
		return []string{files}
	}
	return beginning(choices(root, command), last)
}

// beginning returns those of some words that begin with a text.
func beginning(words []string, text string) (found []string) {
	for _, one := range words {
		if strings.HasPrefix(one, text) {
			found = append(found, one)
		}
	}
	return found
}

// takesID reports whether the ID of a session may follow the words of a command.
func takesID(command *kong.Node, before []string) bool {
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	isFirst := last == command.Name
	switch command.Name {
	case "show", "export":
		return isFirst
	case "rm":
		return true
	}
	return (last == "--resume" || last == "-r") && slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "resume" })
}

// place returns the command that words name, or the default one, and the flag
// whose value comes after them, if any.
func place(root *kong.Node, words []string) (command *kong.Node, open *kong.Flag) {
	command = root.DefaultCmd
	for _, word := range words {
		if open != nil {
			open = nil
			continue
		}
		children := command.Children
		if command == root.DefaultCmd {
			children = root.Children
		}
		for _, child := range children {
			if child.Name == word {
				command = child
				break
			}
		}
		for _, flag := range append(root.Flags[:len(root.Flags):len(root.Flags)], command.Flags...) {
			short := flag.Short != 0 && word == "-"+string(flag.Short)
			if (short || word == "--"+flag.Name) && !flag.IsBool() {
				open = flag
			}
		}
	}
	return command, open
}

// flagsLike returns the flags that begin with a text, with their descriptions.
func flagsLike(text string, root, command *kong.Node) []string {
	var found []string
	for _, flag := range append(command.Flags[:len(command.Flags):len(command.Flags)], root.Flags...) {
		if name := "--" + flag.Name; !flag.Hidden && strings.HasPrefix(name, text) {
			found = append(found, name+"\t"+flag.Help)
		}
	}
	return found
}

// choices returns what the first argument of a command may be.
func choices(root, command *kong.Node) []string {
	switch {
	case command == root.DefaultCmd:
		var all []string
		for _, one := range shownCommands(root) {
			all = append(all, one.Name+"\t"+one.Help)
		}
		return all
	case command.Name == "help":
		all := []string{"flags"}
		for _, one := range shownCommands(root) {
			all = append(all, one.Name)
		}
		return all
	case len(command.Children) > 0:
		var all []string
		for _, one := range command.Children {
			all = append(all, one.Name+"\t"+one.Help)
		}
		return all
	case len(command.Positional) > 0 && command.Positional[0].Enum != "":
		return strings.Split(command.Positional[0].Enum, ",")
	}
	return nil
}

// takesFile reports whether a placeholder stands for a path.
func takesFile(placeholder string) bool {
	return placeholder == "FILE" || placeholder == "DIR" || strings.HasPrefix(placeholder, "SOURCE:")
}
