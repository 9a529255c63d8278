package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/sessiondir"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/sessions"
	face "github.com/x/pygent/terminal"
)

// goesOn are the flags by which a session goes on.
type goesOn struct {
	Continue bool  `help:"Continue the last session of this directory." short:"c" xor:"goes-on" often:""`
	Resume   which `help:"Continue session ID, or one that you select." short:"r" xor:"goes-on" placeholder:"[ID]" often:""`
}

// which is the value of --resume, which may have none.
type which struct {
	given bool
	id    string
	next  string // the argument that follows without an ID; it may be one all the same
}

// IsBool says that the value may be missing.
func (*which) IsBool() bool { return true }

// Decode takes the next argument if it is an ID, which begins with a digit, so that a
// message may follow as well. After "=", anything is an ID.
func (w *which) Decode(ctx *kong.DecodeContext) error {
	w.given = true
	next := ctx.Scan.Peek()
	text, isText := next.Value.(string)
	w.next = text
	attached := next.Type == kong.FlagValueToken || next.Type == kong.ShortFlagTailToken
	if attached || isText && beginsID(text) {
		ctx.Scan.Pop()
		w.id = text
	}
	return nil
}

// beginsID reports whether a word can be the beginning of the ID of a session.
func beginsID(word string) bool {
	isOdd := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	return word != "" && word[0] >= '0' && word[0] <= '9' && !strings.ContainsFunc(word, isOdd)
}

// refuse returns an error if a word that follows --resume without being the ID of a
// session looks as if it were meant as one: it would be sent to the session that is
// chosen then. What is said there is more than a word, or follows "--".
func (w which) refuse(message []string, list []sessions.Info) error {
	if !w.given || w.id != "" || len(list) == 0 || len(message) == 0 || message[0] != w.next || !looksLikeID(w.next) {
		return nil
	}
	return fmt.Errorf("%w. To select a session from a list and send this to it, write --resume -- %s", noSession(list, w.next), quoted(message))
}

// looksLikeID reports whether a word is one that a person may take for an ID.
func looksLikeID(word string) bool {
	isOdd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("!?,;:'\"", r) }
	return word != "" && len(word) <= maxValue && !strings.ContainsFunc(word, isOdd)
}

// quoted is a message as it is written on a command line.
func quoted(words []string) string {
	text := cut.Line(strings.Join(words, " "), maxValue)
	if !looksLikeID(text) {
		text = fmt.Sprintf("%q", text)
	}
	return text
}

// given reports whether a session is to go on.
func (g goesOn) given() bool { return g.Continue || g.Resume.given }

// goesOnWithFile reports whether --resume is about the history of a file.
func (g goesOn) goesOnWithFile(cfg pygent.Config) bool {
	return cfg.HistoryFile != "" && g.Resume.given && g.Resume.id == ""
}

// checkResumable returns an error if --resume is about the history of a file that has
// no conversation to resume, or if a message comes with it, which an interrupted run
// would not hear. Opening the history would create an empty one.
func (g goesOn) checkResumable(cfg pygent.Config, message []string) error {
	if !g.goesOnWithFile(cfg) {
		return nil
	}
	if len(message) > 0 {
		return errors.New("--resume continues the interrupted run and takes no message: leave one of them out")
	}
	if _, err := os.Stat(cfg.HistoryFile); err != nil {
		return fmt.Errorf("--resume: %w: %w", pygent.ErrNothingToResume, err)
	}
	return nil
}

// keeping says where a session is kept.
type keeping struct {
	dir    string        // of all sessions
	path   string        // of this one; empty if it is not kept
	before sessions.Info // of one that goes on; without an ID for a new one
	setup  pygent.Setup  // of its agent
}

// choose returns where the session is kept, and sets up the configuration as that of
// the one that goes on, if any, to which message is then sent.
func (g goesOn) choose(ctx context.Context, cfg *pygent.Config, s *settings, message []string) (k keeping, err error) {
	if err := g.insteadOfSnapshot(cfg); err != nil {
		return k, err
	}
	if g.given() && cfg.Sessions != nil && !*cfg.Sessions && s.asksFor(*cfg, "sessions") {
		return k, errors.New("--continue and --resume need stored sessions: leave out --no-session (or PYGENT_SESSIONS). To continue from a snapshot, use --load")
	}
	if cfg.HistoryFile != "" {
		if g.Continue || g.Resume.id != "" {
			err = fmt.Errorf("the conversation is stored in %s and continues from there: leave out --history (or PYGENT_HISTORY_FILE, or history_file), or leave out --continue and the ID of --resume", short(cfg.HistoryFile))
		}
		return keeping{}, err
	}
	if !g.given() && cfg.Sessions != nil && !*cfg.Sessions {
		return keeping{}, nil
	}
	if k.dir, err = sessions.Dir(); err != nil {
		if !g.given() {
			warnNotKept(err)
			return keeping{}, nil
		}
		return k, err
	}
	if !g.given() {
		k.path = filepath.Join(k.dir, sessions.NewID())
		return k, nil
	}
	if k.before, err = g.find(ctx, k.dir, message); err != nil {
		return k, err
	}
	k.path = filepath.Join(k.dir, k.before.ID)
	return k, k.setUp(cfg, s)
}

// asksFor reports whether the command line gives a setting, by its key in [continued]: a flag, -e, or a file or a
// script that it names.
func (s *settings) asksFor(cfg pygent.Config, key string) bool {
	return slices.ContainsFunc(cfg.Sources(), func(given pygent.ConfigSetting) bool {
		return cmp.Or(given.Key, given.Name) == key && (given.Source == "-e" || slices.Contains(s.Config, given.Source) || key != "script" && given.Source == s.namedScript(cfg))
	})
}

// namedScript is the script that the command line names; empty for none.
func (s *settings) namedScript(cfg pygent.Config) string {
	if !s.asksFor(cfg, "script") {
		return ""
	}
	return cfg.Script
}

// find returns the session that is to go on, and to which message is then sent.
func (g goesOn) find(ctx context.Context, dir string, message []string) (sessions.Info, error) {
	list, err := sessions.List(dir)
	if err == nil {
		err = g.Resume.refuse(message, list)
	}
	if err != nil {
		return sessions.Info{}, err
	}
	var chosen sessions.Info
	switch {
	case g.Resume.id != "":
		chosen, err = withID(list, g.Resume.id)
	case g.Continue:
		here := ofDirectory(list, workingDir())
		if len(here) == 0 {
			return chosen, fmt.Errorf("this directory has no session; \"pygent sessions list --all\" lists those of other directories, \"pygent --resume ID\" continues one")
		}
		chosen = here[0]
	default:
		chosen, err = pick(ctx, list)
	}
	if err == nil && chosen.Open {
		if err = sessiondir.InUse(dir, chosen.ID); err != nil {
			err = fmt.Errorf("session %s: %w", chosen.ID, err)
		}
	}
	return chosen, err
}

// withID returns the session whose ID is a text, or the only one whose ID begins so.
func withID(list []sessions.Info, id string) (sessions.Info, error) {
	var found []sessions.Info
	for _, info := range list {
		if info.ID == id {
			return info, nil
		}
		if strings.HasPrefix(info.ID, id) {
			found = append(found, info)
		}
	}
	switch len(found) {
	case 0:
		return sessions.Info{}, noSession(list, id)
	case 1:
		return found[0], nil
	}
	return sessions.Info{}, fmt.Errorf("%d session IDs start with %s, such as %s and %s; give more characters", len(found), id, found[0].ID, found[1].ID)
}

// noSession says that no session has an ID that begins so.
func noSession(list []sessions.Info, id string) error {
	if len(list) == 0 {
		return errNoSessions
	}
	beginnings := make([]string, len(list))
	for i, info := range list {
		beginnings[i] = info.ID[:min(len(info.ID), max(len(id), shortestID))]
	}
	hint := ";"
	if like := spelling.Nearest(id, beginnings); like != "" {
		hint = ". Did you mean " + like + "?"
	}
	return fmt.Errorf("no session ID starts with %q%s \"pygent sessions list --all\" lists the sessions", cut.Line(id, maxValue), hint)
}

// shortestID is how many characters of an ID are suggested at least.
const shortestID = 4

var errNoSessions = errors.New("there are no sessions; \"pygent\" starts one")

// ofDirectory returns the sessions that were last used in a directory, or work in it.
func ofDirectory(list []sessions.Info, dir string) []sessions.Info {
	is := func(path string) bool { return path != "" && (path == dir || resolved(path) == resolved(dir)) }
	return slices.DeleteFunc(slices.Clone(list), func(info sessions.Info) bool {
		return !is(info.Dir) && (info.Temporary || !is(info.Workspace))
	})
}

func workingDir() string {
	dir, _ := os.Getwd() // of one that is gone there are no sessions
	return dir
}

// resolved is a path without links, if it is there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// setUp sets up the configuration as that of the session that goes on, where no flag
// says otherwise.
func (k *keeping) setUp(cfg *pygent.Config, s *settings) error {
	setup, err := k.before.Setup()
	if k.before.Damaged != "" {
		err = errors.New(k.before.Damaged)
	}
	if err != nil {
		warn(fmt.Sprintf("session %s continues with default settings, because its own could not be read: %v", k.before.ID, err))
		return nil
	}
	k.setup = setup
	*cfg = cfg.WithSetup(setup)
	for _, name := range setup.Env {
		if _, ok := cfg.Env[name]; !ok {
			warn(fmt.Sprintf("commands of session %s had the variable %s, whose value is not stored; set it again: -e %s=VALUE", k.before.ID, name, name))
		}
	}
	if err := s.checkContainer(*cfg, "session "+k.before.ID+" runs commands on this machine"); err != nil {
		return err
	}
	switch {
	case s.asksFor(*cfg, "workspace"):
	case k.before.Temporary:
		cfg.Workspace = "" // the agent makes one, and puts the files back
	case k.before.Workspace != "":
		if info, err := os.Stat(k.before.Workspace); err != nil || !info.IsDir() {
			return fmt.Errorf("the workspace %s of session %s no longer exists; choose another one with --workspace DIR or --cwd", short(k.before.Workspace), k.before.ID)
		}
		cfg.Workspace = k.before.Workspace
	}
	return nil
}

// newAgent makes the agent, in whose session people can type some commands. A new session
// that cannot be kept goes on without that.
func (k *keeping) newAgent(ctx context.Context, typed []pygent.Command, opts []pygent.Option) (agent *pygent.Agent, err error) {
	ctx, stop := interruptible(ctx) // an engine is not waited for any longer, and a workspace that is being filled is removed
	defer stop()
	defer func() { agent, err = unlessInterrupted(ctx, agent, err) }()
	with := func(session string) []pygent.Option {
		return slices.Concat(opts, wired(typed, session, treesOf(k.dir)))
	}
	agent, err = pygent.NewWithContext(ctx, with(k.path)...)
	if k.path == "" {
		return agent, err
	}
	if errors.Is(err, sessions.ErrNotKept) && k.before.ID == "" {
		notKept := err
		if agent, err = pygent.NewWithContext(ctx, with("")...); err == nil { // else that error says what is wrong
			warnNotKept(notKept)
			k.path = ""
		}
		return agent, err
	}
	if err == nil {
		k.warnOfMissing(agent.Setup())
	}
	return agent, err
}

// company looks for a session that another process has open in the same workspace, beside
// what else goes on. said waits for it and tells of it, with "" for none.
func (k *keeping) company(cfg pygent.Config) (said func() string) {
	if cfg.Workspace == "" { // a temporary one is nobody else's
		return func() string { return "" }
	}
	found := make(chan string, 1)
	go func() { found <- k.otherIn(cfg.Workspace) }()
	return func() string { return <-found }
}

// otherIn tells of a session that another process has open in a directory.
func (k *keeping) otherIn(dir string) string {
	_, list, err := kept()
	if err != nil {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	for _, info := range list {
		if info.Open && !info.Temporary && info.ID != filepath.Base(k.path) && resolved(info.Workspace) == resolved(dir) {
			return fmt.Sprintf("session %s (%s) is open in another process and uses the same workspace: each sees the other's changes to files", info.ID, cut.Line(info.Title, shownTitle))
		}
	}
	return ""
}

// warnOfMissing says what the session had and its agent has not, as without the script
// that it was started with. What a script denied is allowed then.
func (k *keeping) warnOfMissing(is pygent.Setup) {
	var missing []string
	for _, name := range k.setup.Tools {
		if !slices.Contains(is.Tools, name) && !slices.Contains(is.DisabledTools, name) {
			missing = append(missing, "the tool "+name)
		}
	}
	if k.setup.Hooks > is.Hooks {
		missing = append(missing, "handlers of tool calls and runs")
	}
	if len(missing) > 0 {
		warn(fmt.Sprintf("session %s used things that are missing now: %s; if you started it with --script FILE, give that again", k.before.ID, cut.Line(strings.Join(missing, ", "), 4*maxValue)))
	}
}

func warnNotKept(err error) {
	warn(fmt.Sprintf("%v; this session continues but is not saved (to turn saving off, use --no-session, or sessions = false in ~/.pygent.toml)", err))
}

// name is what people call the conversation that goes on.
func (k *keeping) name(cfg pygent.Config) string {
	if k.before.ID != "" {
		return "session " + k.before.ID
	}
	return short(cmp.Or(cfg.Snapshot, cfg.HistoryFile))
}

// id is the ID of the session that is kept.
func (k *keeping) id() string { return filepath.Base(k.path) }

// onward is the command that goes on with a run, to be followed by flags. It is empty where
// nothing is kept. A file of --history has no settings, so the flags are needed again.
func (k *keeping) onward(cfg pygent.Config) string {
	switch {
	case k.path != "":
		return "pygent run --resume " + k.id()
	case cfg.HistoryFile != "":
		return "the same command with --resume in place of the prompt, and"
	}
	return ""
}

// tell says how the session goes on another time, if something was said in it, and what that
// one lacks.
func (k *keeping) tell(agent *pygent.Agent) {
	if k.path == "" || agent.State().Messages == 0 {
		return
	}
	if err := agent.History().Sync(); err != nil {
		warn(fmt.Sprintf("could not save the end of this session: %v. To continue from what was saved: pygent --resume %s", err, k.id()))
		return
	}
	note("Session %s saved. Resume it: pygent --resume %s", k.id(), k.id())
}

// How long old sessions are removed, and how long the end of a session waits for that.
const (
	pruneWithin = 5 * time.Second
	awaitPrune  = time.Second
)

// prune removes old sessions, beside what else goes on, until end is called.
func (k *keeping) prune(ctx context.Context, limits pygent.SessionLimits) (end func()) {
	if k.path == "" {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, pruneWithin)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = sessions.Prune(ctx, k.dir, treesOf(k.dir), limits) // what is left is tried again at the next start
	}()
	return func() {
		defer cancel()
		select {
		case <-done:
		case <-time.After(awaitPrune):
			cancel()
			<-done
		}
	}
}

// treesOf is where the checkpoints of all sessions are kept.
func treesOf(sessions string) string { return filepath.Join(filepath.Dir(sessions), "trees") }

// pick has the person choose a session from a list.
func pick(ctx context.Context, list []sessions.Info) (chosen sessions.Info, err error) {
	if len(list) == 0 {
		return chosen, errNoSessions
	}
	out := screen.Stdout()
	width, _ := out.Size()
	index, err := face.Choose(ctx, os.Stdin, out, "Which session do you want to continue?", sessionLines(list, width, true))
	switch {
	case errors.Is(err, face.ErrNoTerminal):
		err = errors.New("--resume needs a session ID (or --history FILE) here, because there is no terminal to select one in; \"pygent sessions list --all\" lists the sessions, --continue continues the last one of this directory")
	case errors.Is(err, face.ErrNotChosen):
		err = errors.New("no session was selected; \"pygent sessions list --all\" lists them")
	case err == nil:
		chosen = list[index]
	}
	return chosen, err
}
