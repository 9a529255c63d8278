// Package commands has commands for the person at whose machine an agent runs:
// they run programs in the agent's workspace, copy files between it and the
// machine, change the agent's settings, and show its work. The command pygent has
// them; other programs give them to an agent by
//
//	pygent.New(pygent.WithCommands(commands.All()...))
//
// They have the rights of the process. A program that passes on lines of strangers
// to [pygent.Agent.RunCommand] must not have them.
package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/slash"
)

// All returns the commands, sorted by name.
func All() []pygent.Command {
	all := []pygent.Command{
		{
			Name: "cmd", Usage: "COMMAND", Summary: "run a command in the workspace; the agent does not hear of it",
			Help:   "The command is given to the shell as it is. No rule of approval and no ban applies, since it is yours.",
			Script: script,
		}, {
			Name: "confirm-bash", Usage: "[on|off]", Summary: "ask before each command, or no longer",
			Run: confirmBash, Complete: byPosition(oneOf("on", "off")),
		}, {
			Name: "cp", Usage: "SRC [DEST]", Summary: "copy a file or directory of this machine into the workspace",
			Help: "Quote names with blanks as in a shell. A name that begins with / or ~ is read from there, others from the directory where pygent was started.",
			Run:  upload, Complete: byPosition(hostFiles, workspaceFiles),
		}, {
			Name: "diff", Usage: "[PATH]", Summary: "show what the agent's tools have changed in files",
			Help: "With PATH, only what is there or below it. What commands have changed is not shown.",
			Run:  diff, Output: pygent.OutputDiff, Complete: byPosition(changedFiles),
		}, {
			Name: "export", Usage: "PATH DEST", Summary: "copy a file or directory of the workspace to this machine",
			Help: "A directory is copied into a DEST that is there, and files of the same names are replaced.",
			Run:  export, Complete: byPosition(workspaceFiles, hostFiles),
		}, {
			Name: "init", Usage: "[WISHES]", Summary: "have the agent write an AGENTS.md for the workspace",
			Message: describeProject,
		}, {
			Name: "jobs", Summary: "list the commands in the background",
			Run: listJobs, Output: pygent.OutputTable,
		}, {
			Name: "model", Usage: "[NAME]", Summary: "show or change the model",
			Help: "A name that the model's server does not list is taken with a warning, since servers know names that they do not list.",
			Run:  setModel, Complete: byPosition(models),
		}, {
			Name: "retry", Summary: "send your last message again",
			Help:    "If its run was interrupted, /resume goes on with it instead.",
			Message: lastMessage,
		}, {
			Name: "tasks", Summary: "list the tasks that the agent has delegated",
			Run: listTasks, Output: pygent.OutputTable,
		}, {
			Name: "tools", Usage: "[list|enable|disable NAME…]", Summary: "list the agent's tools, or switch some on or off",
			Run: switchTools, Output: pygent.OutputTable, Complete: toolNames,
		}, {
			Name: "usage", Summary: "show tokens and cost by model, and how full the context is",
			Run: usage, Output: pygent.OutputTable,
		},
	}
	slices.SortFunc(all, func(a, b pygent.Command) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// arguments divides a line of arguments. Too few or too many are an error, which says
// how the command is written.
func arguments(args string, least, most int, form string) ([]string, error) {
	fields, err := slash.Fields(args)
	if err == nil && (len(fields) < least || len(fields) > most) {
		err = fmt.Errorf("the arguments do not fit: %s (quote names with blanks)", form)
	}
	return fields, err
}
