package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/web"
)

// uiCmd has a session on a page in the browser.
type uiCmd struct {
	Message     []string `arg:"" optional:"" help:"The first message."`
	Listen      string   `help:"Listen at ADDRESS (default: a free port of 127.0.0.1)." placeholder:"ADDRESS"`
	NoOpen      bool     `help:"Print the address without opening the browser."`
	AllowRemote bool     `help:"Accept connections from other machines; needs TLS."`
	TLSCert     string   `name:"tls-cert" help:"Certificate for TLS." placeholder:"FILE"`
	TLSKey      string   `name:"tls-key" help:"Its key." placeholder:"FILE"`
	BehindProxy bool     `help:"A proxy in front of pygent terminates TLS."`
	Host        []string `help:"Host name by which others reach the page." placeholder:"NAME" sep:"none"`
	goesOn
}

// Help tells who can reach the page.
func (uiCmd) Help() string {
	return `Only this machine can connect, with the address that pygent prints: it contains
a token. Sessions are stored like those at a terminal, and you can continue them
in either. Ctrl-C ends the page and everything that runs.

Anyone who can open the page can run commands. --allow-remote accepts
connections from other machines that have the token, over TLS: with --tls-cert
and --tls-key, or --behind-proxy.`
}

// Run shows the page until Ctrl-C.
func (c uiCmd) Run(ctx context.Context, s *settings, logs *libraryLog) error {
	if err := c.check(); err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if cfg, err := s.load(); err == nil { // else open returns the error
		s.askRepository(ctx, &cfg)
	}
	opener := &uiOpener{settings: s}
	agent, kept, cfg, err := opener.open(tellingOfEngine(ctx), *s, c.goesOn, c.Message)
	if err != nil {
		return asUsage(err)
	}
	defer kept.prune(ctx, cfg.SessionLimits)()
	defer opener.agents.work.Wait()
	cleans, end := endAtSecondInterrupt(ctx, opener.agents.left)
	defer end()
	server, err := web.New(web.WithOpen(opener.more), web.WithList(opener.list), web.WithRemove(opener.remove),
		web.WithClosing(func(a *pygent.Agent) { tellFiles(ctx, a) }), web.WithHosts(c.hosts()...))
	if err == nil {
		pygent.RegisterFace(pygent.FaceWeb, server.Face(web.ServeOptions{
			Listen: c.Listen, AllowRemote: c.AllowRemote, CertFile: c.TLSCert, KeyFile: c.TLSKey, BehindProxy: c.BehindProxy,
			Open: !c.NoOpen,
		}))
		tellPlace(ctx, agent)
		note("open this address; Ctrl-C ends the page and everything that runs")
		release := logs.hold()
		err = errors.Join(agent.RunGUI(ctx), server.Close())
		release()
	}
	tellCost(cfg, agent)
	kept.tell(agent)
	tellFiles(ctx, agent)
	cleans()
	return errors.Join(err, cleanUp(agent))
}

// check refuses flags by which nobody would be let in, or anybody, before there is an
// agent. It names the flags that are missing.
func (c uiCmd) check() error {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key must be given together")
	}
	if c.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %s: give a host and a port, such as 127.0.0.1:8080", c.Listen)
	case host == "localhost", ip != nil && ip.IsLoopback():
		return nil
	case !c.AllowRemote:
		return fmt.Errorf("--listen %s is reachable from other machines, which could run commands; add --allow-remote to accept those that have the token", c.Listen)
	case c.TLSCert == "" && !c.BehindProxy:
		return errors.New("--allow-remote needs TLS: --tls-cert FILE and --tls-key FILE, or --behind-proxy if a proxy terminates it")
	case len(c.Host) == 0 && (host == "" || ip != nil && ip.IsUnspecified()):
		return fmt.Errorf("--listen %s needs --host NAME, the host name or address by which others reach the page; requests for other hosts are rejected", c.Listen)
	}
	return nil
}

// hosts are the names by which the page is reached besides those of this machine for
// itself.
func (c uiCmd) hosts() []string {
	names := slices.Clone(c.Host)
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			names = append(names, host)
		}
	}
	return names
}

// uiOpener makes the agents of a page.
type uiOpener struct {
	mu       sync.Mutex // one agent is made at a time
	settings *settings
	agents   openAgents
}

// openAgents are the agents that are not closed yet.
type openAgents struct {
	work sync.WaitGroup // the goroutines that follow them

	mu  sync.Mutex // guards what follows
	all []*openAgent
}

// openAgent is an agent that is not closed yet.
type openAgent struct {
	*pygent.Agent
	boxes boxes // its containers
}

// follow follows an agent until it is closed.
func (o *openAgents) follow(agent *pygent.Agent) {
	one := &openAgent{Agent: agent, boxes: boxes{}}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, one)
	o.work.Go(func() {
		pass := func(e pygent.Event) bool {
			o.note(one, e)
			return true
		}
		faces.Follow(context.Background(), agent, 0, pass, func() (int64, bool) {
			state := agent.State()
			if state.Runtime != nil {
				o.note(one, pygent.Event{Type: pygent.EventRuntime, Runtime: state.Runtime})
			}
			return state.Seq, true
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = slices.DeleteFunc(o.all, func(other *openAgent) bool { return other == one })
	})
}

// note follows the containers of an agent.
func (o *openAgents) note(one *openAgent, e pygent.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one.boxes.note(e)
}

// left is what may be left of the agents.
func (o *openAgents) left() (l leftovers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range o.all {
		l.isolated = l.isolated || one.UseDocker()
		l.containers = append(l.containers, one.boxes.names()...)
	}
	return l
}

// open makes the agent of a session, a new one or one that goes on.
// The settings are a copy, because scripts run for each agent.
func (u *uiOpener) open(ctx context.Context, s settings, goes goesOn, message []string) (*pygent.Agent, *keeping, pygent.Config, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var kept keeping
	cfg, opts, err := s.options(ctx, func(cfg *pygent.Config) (err error) {
		if err = goes.checkResumable(*cfg, message); err == nil {
			kept, err = goes.choose(ctx, cfg, &s, message)
		}
		return err
	})
	if err == nil {
		opts, err = s.goOn(ctx, cfg, opts, true)
	}
	if err != nil {
		return nil, nil, cfg, err
	}
	opts = append(opts, pygent.WithResume(goes.goesOnWithFile(cfg)),
		pygent.WithIO(nil, screen.Stdout()), pygent.WithFirstMessage(chat.UserMessage(strings.Join(message, " "))))
	made := newWorkspace(cfg)
	agent, err := kept.newAgent(ctx, commands.All(), opts)
	if err == nil {
		tellIf(made)
		u.agents.follow(agent)
	}
	return agent, &kept, cfg, s.nameOmitted(cfg, err)
}

// more makes the agent of another session. --load was about the first one.
func (u *uiOpener) more(ctx context.Context, o web.Open) (*pygent.Agent, error) {
	s := *u.settings
	s.Load = nil
	if o.Snapshot != "" {
		s.Load = &o.Snapshot
	}
	agent, _, _, err := u.open(ctx, s, goesOn{Resume: which{given: o.Continue != "", id: o.Continue}}, nil)
	return agent, err
}

// list lists the sessions of this directory.
func (u *uiOpener) list(context.Context, string) ([]sessions.Info, error) {
	_, all, err := kept()
	return ofDirectory(all, workingDir()), err
}

// remove removes a session of this directory, and the files of its checkpoints.
func (u *uiOpener) remove(ctx context.Context, _, id string) error {
	dir, all, err := kept()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ofDirectory(all, workingDir()), func(info sessions.Info) bool { return info.ID == id }) {
		return fs.ErrNotExist
	}
	if err := sessions.Remove(dir, id); err != nil {
		return err
	}
	return checkpoint.RemoveOrphans(ctx, treesOf(dir), dir)
}
