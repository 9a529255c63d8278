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
			Help: "Quote names with blanks as in a shell. A name that begins with / or ~ is read from there, others from the directory where pygent was started. Files are replaced only with --force.",
			Run:  upload, Complete: byPosition(hostFiles, workspaceFiles, oneOf(replaceFlag)),
		}, {
			Name: "diff", Usage: "[N] [PATH]", Summary: "show what has changed in files",
			Help: "Without a number, what is other than when the session began; with one, what the last N turns have changed. Where there are no checkpoints, only what the agent's tools have changed is known. With PATH, only what is there or below it.",
			Run:  diff, Output: pygent.OutputDiff, Complete: byPosition(either(lastTurns, changedFiles), changedSince),
		}, {
			Name: "export", Usage: "PATH DEST", Summary: "copy a file or directory of the workspace to this machine",
			Help: "A directory is copied into a DEST that is there. Files are replaced only with --force.",
			Run:  export, Complete: byPosition(workspaceFiles, hostFiles, oneOf(replaceFlag)),
		}, {
			Name: "fork", Usage: forkUsage, Summary: "make another session that goes on from here, or from before the last N turns",
			Help: "It has a copy of the files of then: in DIR, which must be new or empty, or else in a new directory beside the workspace. This session stays as it is, and both can be at work. What no checkpoint has is not there, and neither are commands in the background.",
			Run:  fork, Complete: byPosition(lastTurns, hostFiles),
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
			Name: "redo", Summary: "take the last /undo back",
			Help: "Until you say something else, each /redo takes back one more.",
			Run:  redo,
		}, {
			Name: "retry", Summary: "send your last message again",
			Help:    "If its run was interrupted, /resume goes on with it instead.",
			Message: lastMessage,
		}, {
			Name: "save", Usage: "DIR [--force]", Summary: "save files, conversation and settings in a new directory of this machine",
			Help: "Go on from there with pygent --load DIR. --force replaces a snapshot, and no other directory. Keys are not saved; what the workspace has in files is, .env files too.",
			Run:  save, Complete: byPosition(hostFiles, oneOf(replaceFlag)),
		}, {
			Name: "tasks", Summary: "list the tasks that the agent has delegated",
			Run: listTasks, Output: pygent.OutputTable,
		}, {
			Name: "tools", Usage: toolsUsage, Summary: "list the agent's tools, or switch some on or off",
			Run: switchTools, Output: pygent.OutputTable, Complete: toolNames,
		}, {
			Name: "undo", Usage: "[N]", Summary: "take back the last turn, or the last N, with what they did to files",
			Help: "Files that you have changed since stay as they are, and are named. What .gitignore names stays, and so does .git: it is said if its HEAD was another. The history keeps everything, and /redo takes it back.",
			Run:  undo, Complete: byPosition(lastTurns),
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
		err = misfit(form)
	}
	return fields, err
}

// misfit is the error for too few or too many arguments of a command, which is written
// as form says.
func misfit(form string) error {
	return fmt.Errorf("the arguments do not fit: %s (quote names with blanks)", form)
}
