package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/sessions"
)

// sessionsCmd is about the sessions that are kept.
type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" default:"withargs" help:"List the sessions of this directory, newest first."`
	Show   sessionsShowCmd   `cmd:"" help:"Show what a session is about, and how it ended."`
	Rm     sessionsRmCmd     `cmd:"" help:"Remove sessions."`
	Export sessionsExportCmd `cmd:"" help:"Write the conversation of a session to a file."`
}

// Help tells how sessions go on, and where they are.
func (*sessionsCmd) Help() string {
	return `"pygent --continue" continues the last session of this directory, and
"pygent --resume ID" the session whose ID starts with ID. Sessions are stored in
pygent/sessions below $XDG_STATE_HOME or ~/.local/state: at most 500 sessions
and 4 GiB, for 90 days (max_sessions, max_sessions_size, max_sessions_age).
--no-session or sessions = false turns this off.`
}

// kept returns the sessions that are kept, and their directory.
func kept() (dir string, list []sessions.Info, err error) {
	if dir, err = sessions.Dir(); err == nil {
		list, err = sessions.List(dir)
	}
	return dir, list, err
}

// sessionsListCmd lists sessions.
type sessionsListCmd struct {
	All  bool `help:"List the sessions of all directories." short:"a"`
	JSON bool `help:"Print them as JSON."`
}

// Run prints the sessions.
func (c sessionsListCmd) Run(out *output) error {
	out.readerMayLeave()
	_, all, err := kept()
	if err != nil {
		return err
	}
	list := all
	if !c.All {
		list = ofDirectory(all, workingDir())
	}
	switch {
	case c.JSON:
		return writeJSON(out, append([]sessions.Info{}, list...))
	case len(list) == 0 && len(all) > 0:
		out.println("this directory has no session; \"pygent sessions list --all\" lists the", len(all), "of others")
		return nil
	case len(list) == 0:
		out.println("there are no sessions")
		return nil
	}
	width := 0
	if s := screen.Stdout(); s.Terminal() {
		width, _ = s.Size()
	}
	for _, line := range sessionLines(list, width, c.All) {
		out.println(line)
	}
	return nil
}

// sessionCommands are the commands of a session.
func sessionCommands() []pygent.Command {
	return append(commands.All(), pygent.Command{
		Name: "sessions", Summary: "list the sessions of this directory", Output: pygent.OutputTable,
		Help: "To continue one, leave and run pygent --resume ID.",
		Run: func(_ context.Context, _ *pygent.Agent, args string, out io.Writer) error {
			if args != "" {
				return errors.New("it takes no arguments; \"pygent sessions list --all\" lists the sessions of all directories")
			}
			return listHere(out)
		},
	})
}

// listHere lists the sessions of this directory in one of them.
func listHere(out io.Writer) error {
	_, all, err := kept()
	if err != nil {
		return err
	}
	list := ofDirectory(all, workingDir())
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "this directory has no session")
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nTo continue one: /exit, then pygent --resume ID\n", strings.Join(sessionLines(list, 0, false), "\n"))
	return err
}

// Bounds of the columns of a list, in bytes.
const (
	shownTitle = 60
	shownDir   = 40
)

// narrow is the width of a terminal, in columns, below which a list has room for what
// tells the sessions apart alone.
const narrow = 60

// sessionLines describe sessions in a list for a terminal with so many columns; 0 stands for
// as many as are needed.
func sessionLines(list []sessions.Info, width int, withDir bool) []string {
	rows, widths := make([][]string, len(list)), []int{}
	for i, info := range list {
		rows[i] = columns(info, width > 0 && width < narrow, withDir)
		widths = append(widths, make([]int, len(rows[i])-min(len(rows[i]), len(widths)))...)
		for c, cell := range rows[i] {
			widths[c] = max(widths[c], livearea.Width(cell))
		}
	}
	lines := make([]string, len(list))
	for i, row := range rows {
		for c, cell := range row {
			row[c] = cell + strings.Repeat(" ", widths[c]-livearea.Width(cell))
		}
		lines[i] = strings.TrimRight(strings.Join(row, "  "), " ")
		if width > 0 {
			lines[i] = livearea.Cut(lines[i], width)
		}
	}
	return lines
}

// columns describe a session in a list. A short description is one for a narrow
// terminal.
func columns(info sessions.Info, short, withDir bool) []string {
	messages, title := numeral.Count(info.Messages, "message"), cut.Line(info.Title, shownTitle)
	switch {
	case info.Damaged != "":
		messages, title = "damaged", "(damaged) "+cut.Line(info.Damaged, shownTitle)
	case info.Open:
		title = "(open) " + title
	}
	row := []string{info.ID, numeral.Ago(time.Since(info.Used))}
	if !short {
		row = append(row, messages)
	}
	row = append(row, title)
	if withDir && !short {
		row = append(row, shortTail(info.Dir))
	}
	return row
}

// shortTail is the end of a path.
func shortTail(path string) string { return cut.Tail(short(path), shownDir) }

// sessionsShowCmd shows a session.
type sessionsShowCmd struct {
	ID string `arg:"" name:"id" help:"The ID, or its first characters."`
}

// shownMessages is how many messages at the end of a session are shown.
const shownMessages = 10

// Run prints what is known of the session, and the end of its conversation.
func (c sessionsShowCmd) Run(out *output) error {
	out.readerMayLeave()
	dir, info, err := theSession(c.ID)
	if err != nil {
		return err
	}
	printSession(out, info)
	messages, err := conversation(dir, info.ID)
	if err != nil {
		return err
	}
	from := max(len(messages)-shownMessages, 0)
	if from > 0 {
		out.println(fmt.Sprintf("\n(%s before; pygent sessions export %s FILE writes all)", numeral.Count(from, "message"), info.ID))
	}
	for _, m := range messages[from:] {
		out.println()
		out.println(screen.Visible(said(m)))
	}
	return nil
}

// printSession prints what is known of a session.
func printSession(out *output, info sessions.Info) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	row("session", info.ID)
	row("title", info.Title)
	row("damaged", info.Damaged)
	if info.Open {
		row("open", "in another process")
	}
	row("directory", short(info.Dir))
	row("workspace", workspaceOf(info))
	row("persona", info.Persona)
	row("model", info.Model)
	row("messages", fmt.Sprint(info.Messages))
	row("tokens", numeral.Grouped(info.Usage.Total().Total()))
	if info.Usage.Cost > 0 {
		row("cost", fmt.Sprintf("%.4f", info.Usage.Cost))
	}
	if !info.Created.IsZero() {
		row("begun", info.Created.Local().Format(time.DateTime))
	}
	row("used", info.Used.Local().Format(time.DateTime))
	_ = table.Flush() // out remembers the error
}

func workspaceOf(info sessions.Info) string {
	if info.Temporary {
		return "temporary; its files are restored with the session"
	}
	return short(info.Workspace)
}

// theSession returns the session with an ID, or whose ID begins so.
func theSession(id string) (dir string, info sessions.Info, err error) {
	dir, list, err := kept()
	if err == nil {
		info, err = withID(list, id)
	}
	if err != nil {
		err = &exitError{exitUsage, err}
	}
	return dir, info, err
}

// conversation returns the messages of a session, without that of the system. It may be
// open in another process.
func conversation(dir, id string) ([]pygent.Message, error) {
	h, err := chat.ReadHistory(filepath.Join(dir, id, "history.json"))
	if err != nil {
		return nil, err
	}
	for _, repair := range h.Repairs() {
		warn("history: " + repair)
	}
	return slices.DeleteFunc(h.Messages(), func(m pygent.Message) bool { return m.Role == chat.RoleSystem }), nil
}

// said is a message in short, for people.
func said(m pygent.Message) string {
	const shown = 400
	var lines []string
	if text := strings.TrimSpace(m.Text()); text != "" {
		lines = append(lines, cut.Head(text, shown))
		if len(text) > shown {
			lines[0] += "…"
		}
	}
	for _, call := range m.ToolCalls {
		lines = append(lines, cut.Line("» "+call.Name+" "+call.Arguments, shown))
	}
	who := map[chat.Role]string{chat.RoleUser: "you", chat.RoleAssistant: "agent", chat.RoleTool: "result"}[m.Role]
	return who + ": " + strings.ReplaceAll(strings.Join(lines, "\n"), "\n", "\n  ")
}

// sessionsExportCmd writes a conversation to a file.
type sessionsExportCmd struct {
	ID    string `arg:"" name:"id" help:"The ID, or its first characters."`
	File  string `arg:"" name:"file" help:"The file to write: JSON for --history if its name ends in .json, otherwise Markdown; - for standard output."`
	Force bool   `help:"Replace the file if it exists."`
}

// Run writes the conversation.
func (c sessionsExportCmd) Run(out *output) error {
	dir, info, err := theSession(c.ID)
	if err != nil {
		return err
	}
	if c.File, err = pathname.Host().Read(c.File); err != nil {
		return err
	}
	messages, err := conversation(dir, info.ID)
	if err != nil {
		return err
	}
	text := []byte(markdown(info, messages))
	if strings.EqualFold(filepath.Ext(c.File), ".json") {
		if text, err = json.MarshalIndent(messages, "", "  "); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	if c.File == "-" {
		out.readerMayLeave()
		_, _ = out.Write(text) // out remembers the error
		return nil
	}
	if err := c.write(text); err != nil {
		return err
	}
	out.println("wrote", numeral.Count(len(messages), "message"), "to", screen.Visible(c.File))
	return nil
}

func (c sessionsExportCmd) write(text []byte) error {
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.File, flag, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w; use --force to replace it", err)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// markdown is a conversation for people to read.
func markdown(info sessions.Info, messages []pygent.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nSession %s, %s\n", info.Title, info.ID, info.Created.Local().Format(time.DateTime))
	for _, m := range messages {
		text := screen.Visible(strings.TrimSpace(m.Text()))
		switch {
		case m.Role == chat.RoleTool:
			fmt.Fprintf(&b, "\n%s\n", fenced("", text))
			continue
		case m.Role == chat.RoleUser:
			b.WriteString("\n## User\n")
		case text != "":
			b.WriteString("\n## Agent\n")
		}
		if text != "" {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, "\n**%s**\n\n%s\n", screen.Visible(call.Name), fenced("json", screen.Visible(call.Arguments)))
		}
	}
	return b.String()
}

// fenced is a block of code, whose fence is longer than any in the text.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + "\n" + fence
}
