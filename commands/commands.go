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
			Name: "cmd", Usage: "COMMAND", Summary: "run a command in the workspace; the agent doesn't see it",
			Help:   "The command goes to the shell unchanged. Approvals and bans do not apply to your own commands.",
			Script: script,
		}, {
			Name: "confirm-bash", Usage: "[on|off]", Summary: "turn the question before each command on or off",
			Run: confirmBash, Complete: byPosition(oneOf("on", "off")),
		}, {
			Name: "cp", Usage: "SRC [DEST]", Summary: "copy a file or directory from this machine into the workspace",
			Help: "Quote names with spaces as in a shell. Relative names start at the directory where you started pygent. --force replaces existing files.",
			Run:  upload, Complete: byPosition(hostFiles, workspaceFiles, oneOf(replaceFlag)),
		}, {
			Name: "diff", Usage: "[N] [PATH]", Summary: "show changes to files",
			Help: "Without a number: all changes since the session began. With N: the changes of the last N turns. With PATH: only that file or directory. Without checkpoints, only changes made by the agent's tools are shown.",
			Run:  diff, Output: pygent.OutputDiff, Complete: byPosition(either(lastTurns, changedFiles), changedSince),
		}, {
			Name: "export", Usage: "PATH DEST", Summary: "copy a file or directory from the workspace to this machine",
			Help: "If DEST is an existing directory, the copy goes into it. --force replaces existing files.",
			Run:  export, Complete: byPosition(workspaceFiles, hostFiles, oneOf(replaceFlag)),
		}, {
			Name: "fork", Usage: forkUsage, Summary: "start another session from here, or from before the last N turns",
			Help: "The new session gets a copy of the files from that point, in DIR (new or empty) or in a new directory beside the workspace. This session does not change, and both can run at the same time. Background commands and files that no checkpoint has are not copied.",
			Run:  fork, Complete: byPosition(lastTurns, hostFiles),
		}, {
			Name: "init", Usage: "[WISHES]", Summary: "let the agent write an AGENTS.md for the workspace",
			Message: describeProject,
		}, {
			Name: "jobs", Summary: "list background commands",
			Run: listJobs, Output: pygent.OutputTable,
		}, {
			Name: "model", Usage: "[NAME]", Summary: "show or change the model",
			Help: "A name that the server does not list is accepted with a warning: servers accept names that they do not list.",
			Run:  setModel, Complete: byPosition(models),
		}, {
			Name: "redo", Summary: "redo what the last /undo undid",
			Help: "Repeat /redo to redo more, until you send another message.",
			Run:  redo,
		}, {
			Name: "retry", Summary: "send your last message again",
			Help:    "If its run was interrupted, use /resume to continue it instead.",
			Message: lastMessage,
		}, {
			Name: "save", Usage: "DIR [--force]", Summary: "save files, conversation and settings to a new directory on this machine",
			Help: "Continue from it with pygent --load DIR. --force replaces an existing snapshot, but no other directory. Keys are not saved, but all files of the workspace are, including .env files.",
			Run:  save, Complete: byPosition(hostFiles, oneOf(replaceFlag)),
		}, {
			Name: "tasks", Summary: "list background tasks",
			Run: listTasks, Output: pygent.OutputTable,
		}, {
			Name: "tools", Usage: toolsUsage, Summary: "list the agent's tools, or turn some on or off",
			Run: switchTools, Output: pygent.OutputTable, Complete: toolNames,
		}, {
			Name: "undo", Usage: "[N]", Summary: "undo the last turn, or the last N turns, including changes to files",
			Help: "Files that you changed since are left alone and listed. Ignored directories, ignored files of more than 1 MiB and the .git directory are left alone; a note says if git's HEAD has moved. The history keeps everything, and /redo brings it back.",
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
	return fmt.Errorf("usage: %s (quote names with spaces)", form)
}
