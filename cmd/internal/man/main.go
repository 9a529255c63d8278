// Command man writes the man page of pygent to standard output, from the tables that the
// command works by: pygent(1), with its commands, flags, exit codes, variables and files.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/x/pygent/cmd/internal/cli"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/script"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("man: ")
	d, err := cli.Describe()
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(os.Stdout)
	write(out, d)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// page is a man page in the macros of man(7).
type page struct{ io.Writer }

// files are those that the command reads and writes by itself.
var files = [][2]string{
	{"~/" + settings.HomeFile, "Your settings."},
	{settings.ProjectFile, "Settings of the project. The file is untrusted: it can set only what is harmless, and lower limits."},
	{"~/.pygent.star", "Your start-up script."},
	{script.ProjectFile, "The start-up script of the project, which is untrusted."},
}

// write writes the page.
func write(w io.Writer, d cli.Description) {
	p := page{w}
	name, about, _ := strings.Cut(d.Command.Help, ": ")
	p.macro("TH", strings.ToUpper(name), "1", "", name, "User Commands")
	p.macro("SH", "NAME")
	p.text(name + ", " + name + "-ui - " + strings.TrimSuffix(about, "."))
	p.macro("SH", "SYNOPSIS")
	for _, command := range cli.Commands(d.Command) {
		p.macro("B", cli.Synopsis(command)+" [flags]")
		p.macro("br")
	}
	p.macro("B", name+"-ui [MESSAGE] [flags]")
	p.macro("SH", "DESCRIPTION")
	p.text(name + " works on files with a language model, which can run commands. The commands run in a Docker container with no network, unless you allow it. " +
		name + "-ui is " + name + " ui under a name of its own.")
	p.macro("SH", "COMMANDS")
	for _, command := range cli.Commands(d.Command) {
		p.command(command)
	}
	p.macro("SH", "FLAGS OF EVERY COMMAND")
	for _, group := range d.Shared {
		p.macro("SS", group.Title)
		for _, flag := range group.Flags {
			p.item(cli.FlagSynopsis(flag), flag.Help)
		}
	}
	p.macro("SH", "EXIT STATUS")
	for _, c := range d.ExitCodes {
		p.item(strconv.Itoa(c.Code), c.Meaning)
	}
	p.variables(d.Variables)
	p.macro("SH", "FILES")
	for _, f := range files {
		p.item(f[0], f[1])
	}
	p.macro("SH", "SEE ALSO")
	p.text(name + " help flags, " + name + " config, https://github.com/x/pygent")
}

// command writes a command with its arguments, its flags and the commands below it.
func (p page) command(c *kong.Node) {
	p.macro("SS", cli.Synopsis(c))
	p.text(c.Help)
	if c.Detail != "" {
		p.macro("PP")
		p.macro("nf")
		p.text(c.Detail)
		p.macro("fi")
	}
	for _, arg := range c.Positional {
		p.item(strings.ToUpper(arg.Name), arg.Help)
	}
	for _, flag := range c.Flags {
		if !flag.Hidden {
			p.item(cli.FlagSynopsis(flag), flag.Help)
		}
	}
	for _, child := range cli.Commands(c) {
		p.command(child)
	}
}

// variables writes the variables of settings, with the key of each in a file, and the flag
// that sets it.
func (p page) variables(byFlag map[string]string) {
	flags := map[string][]string{}
	for _, flag := range slices.Sorted(maps.Keys(byFlag)) {
		flags[byFlag[flag]] = append(flags[byFlag[flag]], flag)
	}
	p.macro("SH", "ENVIRONMENT")
	p.text("Flags take precedence over variables, and variables over files.")
	for _, s := range bridge.Settings() {
		if s.Env == "" {
			continue
		}
		text := "No file can set it."
		if s.Key != "" {
			text = fmt.Sprintf("In a file: %s.", s.Key)
		}
		if f := flags[s.Env]; f != nil {
			text += fmt.Sprintf(" Flag: %s.", strings.Join(f, ", "))
		}
		p.item(s.Env, text)
	}
}

// item writes an entry of a list.
func (p page) item(name, text string) {
	p.macro("TP")
	p.macro("B", name)
	p.text(text)
}

func (p page) macro(name string, args ...string) {
	line := "." + name
	for _, arg := range args {
		line += ` "` + strings.ReplaceAll(quoted(arg), `"`, `\(dq`) + `"`
	}
	fmt.Fprintln(p, line)
}

// text writes lines, none of which is taken for a macro.
func (p page) text(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		fmt.Fprintln(p, quoted(line))
	}
}

// quoted is a text in which nothing is an escape of the formatter, and dashes can be copied.
func quoted(text string) string {
	return strings.NewReplacer(`\&`, `\&`, `\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`).Replace(text)
}
