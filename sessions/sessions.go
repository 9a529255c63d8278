// Package sessions keeps the sessions of agents: the conversation of each, and what is known
// of it, in a directory of its own. It lists them, removes them, and leads other ways from
// one:
//
//	dir, err := sessions.Dir()
//	agent, err := pygent.New(sessions.Keep(filepath.Join(dir, sessions.NewID())))
//	…
//	list, err := sessions.List(dir)
package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/sessiondir"
)

// ErrInUse is returned for a session that an agent has open, of this process or
// of another one.
var ErrInUse = sessiondir.ErrInUse

// ErrNotKept is returned by [pygent.New] if the session of [Keep] cannot be kept,
// because its directory cannot be made or written, for example.
var ErrNotKept = errors.New("the session cannot be kept")

// Keep keeps the agent's session in a directory of its own: the conversation as
// [pygent.WithHistoryFile] does, and in session.json what [Info] says, without any
// secret. If the directory has a session, the agent goes on with its conversation. A
// missing directory is made, for this user alone. The last part of its name is the id
// of the session: one of [NewID], or 1 to 64 letters, digits, dashes and
// underscores.
//
// While the agent is open no other one can open the session: it gets
// [ErrInUse]. With checkpoint.Keep the files of a temporary workspace go on,
// too: the last checkpoint's are put into the new one, instead of initial files, which
// an event tells; if that fails, [pygent.New] does. What cannot be written later, because the disk is full, for
// example, is a warning and not an error as with WithHistoryFile: the agent goes on,
// and tries again. A session in which nothing was said is removed when the agent
// closes. Of two such options the later one counts; an empty dir keeps nothing, which is
// the default.
func Keep(dir string) pygent.Option {
	return bridge.WithSession(dir, func(inside any) (any, error) {
		k, err := open(dir, inside.(agent))
		if err != nil {
			return nil, err // not a nil *keeper
		}
		return k, nil
	}).(pygent.Option)
}

// Info describes a kept session. Its texts are one line each, without control
// characters.
type Info struct {
	ID        string             `json:"id"`
	Title     string             `json:"title,omitempty"`     // what the user said first, or its beginning
	Dir       string             `json:"dir,omitempty"`       // the working directory of the program that used it last
	Workspace string             `json:"workspace,omitempty"` // on this machine; empty if it is elsewhere or was removed
	Temporary bool               `json:"temporary,omitempty"` // the workspace is, or was, a temporary one
	Persona   string             `json:"persona,omitempty"`   // the name
	Model     string             `json:"model,omitempty"`     // the name; empty if it is not known
	Messages  int                `json:"messages"`            // of the conversation, without the system message and what was undone
	Created   time.Time          `json:"created,omitzero"`
	Used      time.Time          `json:"used,omitzero"` // the last time
	Usage     pygent.UsageReport `json:"usage,omitzero"`

	Open    bool   `json:"open,omitempty"`    // an agent has it open, of this process or of another one
	Damaged string `json:"damaged,omitempty"` // why only the id and the time are known; the conversation may be unharmed

	setup json.RawMessage
}

// Setup returns how the agent of the session was set up, which
// [pygent.Config.WithSetup] takes.
func (i Info) Setup() (pygent.Setup, error) {
	var s pygent.Setup
	if err := json.Unmarshal(i.setup, &s); err != nil {
		return s, fmt.Errorf("settings of session %s: %w", i.ID, err)
	}
	return s, nil
}

// version is the version of the form of session.json.
const version = 1

// infoFile is session.json.
type infoFile struct {
	Version int `json:"version"`
	Info
	Setup json.RawMessage `json:"setup,omitempty"`
}

// Bounds of the texts in session.json, in bytes.
const (
	maxTitle = 120
	maxText  = 4096
)

// Dir returns the directory in which the command pygent keeps the sessions of
// this user: pygent/sessions in $XDG_STATE_HOME, or where the system has such data. It
// need not exist.
func Dir() (string, error) {
	dir, err := owner.StateDir()
	if err != nil {
		return "", fmt.Errorf("directory of sessions: %w", err)
	}
	return filepath.Join(dir, "sessions"), nil
}

// NewID returns the id of a new session: a digit, and then digits and letters
// that cannot be mistaken for others.
func NewID() string {
	const digits, letters = "0123456789", "0123456789abcdefghjkmnpqrstvwxyz"
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	id := []byte{digits[int(b[0])%len(digits)]}
	for _, c := range b[1:] {
		id = append(id, letters[c%byte(len(letters))])
	}
	return string(id)
}

// List returns the sessions in a directory, those that were used last first. It
// reads no conversation, so it is quick, and takes no lock. Sessions in which nothing
// was said yet are left out. A missing directory has none.
func List(dir string) ([]Info, error) {
	entries, err := sessiondir.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	list := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := readInfo(e.Info)
		if e.Err != nil {
			err = e.Err
		}
		if err != nil {
			info = Info{Used: e.Used, Damaged: oneLine(err.Error(), maxText)}
		}
		info.ID, info.Open = e.ID, e.Open
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b Info) int { return b.Used.Compare(a.Used) })
	return list, nil
}

// readInfo reads session.json. What it says may be damaged in any way.
func readInfo(data []byte) (Info, error) {
	var f infoFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Info{}, fmt.Errorf("%s cannot be read: %w", sessiondir.InfoFile, err)
	}
	if f.Version != version {
		return Info{}, fmt.Errorf("%s has version %d, and this pygent reads %d", sessiondir.InfoFile, f.Version, version)
	}
	info := f.Info
	info.Title = oneLine(info.Title, 4*maxTitle) // pictures of control characters have three bytes
	for _, text := range []*string{&info.Dir, &info.Workspace, &info.Persona, &info.Model} {
		*text = oneLine(*text, maxText)
	}
	info.Messages, info.Open, info.Damaged, info.setup = max(info.Messages, 0), false, "", f.Setup
	return info, nil
}

// oneLine returns the beginning of a text in one line, with its control characters made
// visible.
func oneLine(text string, most int) string { return screen.Visible(cut.Line(text, most)) }

// Remove removes a session with its conversation. The error matches
// [ErrInUse] for one that an agent has open, and [io/fs.ErrNotExist] if there is
// none.
func Remove(dir, id string) error {
	if err := sessiondir.Remove(dir, id); err != nil {
		return fmt.Errorf("remove session %s: %w", oneLine(id, maxTitle), err)
	}
	return nil
}

// titleOf returns the title of a session that begins with a message.
func titleOf(text string) string {
	short := cut.Line(text, maxTitle)
	if len(short) < len(strings.Join(strings.Fields(text), " ")) {
		short = cut.Line(text, maxTitle-len("…")) + "…"
	}
	return screen.Visible(short)
}

// Prune removes the sessions in a directory that were used longest ago, until
// the others are within the limits, and returns the ids of those that it has removed.
// checkpoints is the directory that checkpoint.Keep was given for them, empty if
// there is none: what sessions have there counts and goes with them, also that of
// sessions which were removed otherwise. It never removes one that is open, nor, for
// its size, the one that was used last. Several processes may prune at once. It stops
// when ctx ends.
func Prune(ctx context.Context, dir, checkpoints string, limits pygent.SessionLimits) (removed []string, err error) {
	if err = check(limits); err == nil {
		removed, err = checkpoint.PruneSessions(ctx, checkpoints, dir, sessiondir.Limits{ // for which a negative limit is none
			Number: cmp.Or(limits.Max, pygent.DefaultMaxSessions),
			Bytes:  cmp.Or(limits.MaxBytes, pygent.DefaultMaxSessionBytes),
			Age:    cmp.Or(limits.MaxAge, pygent.DefaultMaxSessionAge),
		})
	}
	if err != nil {
		return removed, fmt.Errorf("prune sessions: %w", err)
	}
	return removed, nil
}

// check refuses values that are no limits.
func check(limits pygent.SessionLimits) error {
	for name, limit := range map[string]int64{"Max": int64(limits.Max), "MaxBytes": limits.MaxBytes, "MaxAge": int64(limits.MaxAge)} {
		if limit < pygent.NoLimit {
			return fmt.Errorf("%s: want a positive number, 0 for the default, or NoLimit, and not %d", name, limit)
		}
	}
	return nil
}
