package cli

import (
	"slices"

	"github.com/alecthomas/kong"
	"github.com/x/pygent"
)

// Description is what documentation says of the command, from the tables that it works by.
type Description struct {
	Command   *kong.Node        // with its commands, arguments and flags
	Shared    []FlagGroup       // the flags that every command takes, but for --help
	Variables map[string]string // by the flag that sets each, such as "--image"
	ExitCodes []ExitCode        // of pygent run
}

// Describe describes the command.
func Describe() (Description, error) {
	var c cli
	parser, err := newParser(&c)
	if err != nil {
		return Description{}, err
	}
	d := Description{Command: parser.Model.Node, Variables: map[string]string{}, ExitCodes: exitCodes}
	d.Shared = slices.DeleteFunc(flagGroups(d.Command), func(g FlagGroup) bool { return g.Title == "" })
	for _, f := range c.flagValues(nil) {
		d.Variables[f.flag] = f.variable
	}
	return d, nil
}

// Check reports what the command would say against its arguments, before it does anything.
func Check(args []string) error {
	var c cli
	parser, err := newParser(&c, kong.NoDefaultHelp())
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	return err
}

// Commands returns the commands of a command that the help lists.
func Commands(of *kong.Node) []*kong.Node { return shownCommands(of) }

// Synopsis says how a command is called, without its flags.
func Synopsis(c *kong.Node) string { return synopsis(c) }

// FlagSynopsis says how a flag is written.
func FlagSynopsis(f *kong.Flag) string { return flagSynopsis(f) }

// SlashCommands returns the commands of a session.
func SlashCommands() []pygent.Command { return sessionCommands() }
