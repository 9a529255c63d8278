package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/x/pygent/cmd/internal/cli"
)

// commandPage has the commands, flags and exit codes.
func commandPage(string) (string, error) {
	d, err := cli.Describe()
	if err != nil {
		return "", err
	}
	p := newPage("Commands and flags", "Every command of `pygent`, its arguments and its flags.")
	p.section(2, "Commands")
	for _, command := range cli.Commands(d.Command) {
		p.command(command, 3)
	}
	p.section(2, "Flags of every command")
	p.WriteString("Each flag sets a variable, which you can also set in the environment, or with `-e NAME=VALUE`. [Configuration](configuration.md) has the same settings for a file.\n")
	for _, group := range d.Shared {
		p.section(3, group.Title)
		var rows [][]string
		for _, flag := range group.Flags {
			rows = append(rows, []string{code(cli.FlagSynopsis(flag)), code(d.Variables["--"+flag.Name]), flag.Help})
		}
		p.table([]string{"Flag", "Variable", "Meaning"}, rows)
	}
	p.section(2, "Exit codes")
	p.WriteString("These are the exit codes of `pygent run`. A session whose input is not a terminal ends with the code of the first turn that did not end well, with 1 after a command that failed, and with 3 if its last question was not answered.\n\n")
	var rows [][]string
	for _, c := range d.ExitCodes {
		rows = append(rows, []string{strconv.Itoa(c.Code), c.Meaning})
	}
	p.table([]string{"Code", "Meaning"}, rows)
	return p.String(), nil
}

// command writes a command with those below it.
func (p *page) command(c *kong.Node, level int) {
	p.section(level, code(cli.Synopsis(c)))
	p.WriteString(c.Help + "\n")
	if c.Detail != "" {
		fmt.Fprintf(p, "\n```text\n%s\n```\n", strings.TrimRight(c.Detail, "\n"))
	}
	var rows [][]string
	for _, arg := range c.Positional {
		rows = append(rows, []string{code(strings.ToUpper(arg.Name)), arg.Help})
	}
	for _, flag := range c.Flags {
		if !flag.Hidden {
			rows = append(rows, []string{code(cli.FlagSynopsis(flag)), flag.Help})
		}
	}
	if len(rows) > 0 {
		p.WriteString("\n")
		p.table([]string{"Argument or flag", "Meaning"}, rows)
	}
	for _, child := range cli.Commands(c) {
		p.command(child, level+1)
	}
}
