package pygent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/sessiondir"
)

// ErrSessionInUse is returned for a session that an agent has open, of this process or
// of another one.
var ErrSessionInUse = sessiondir.ErrInUse

// ErrSessionNotKept is returned by [New] if the session of [WithSession] cannot be kept,
// because its directory cannot be made or written, for example.
var ErrSessionNotKept = errors.New("the session cannot be kept")

// WithSession keeps the agent's session in a directory of its own: the conversation as
// [WithHistoryFile] does, and in session.json what [SessionInfo] says, without any
// secret. If the directory has a session, the agent goes on with its conversation. A
// missing directory is made, for this user alone. The last part of its name is the id
// of the session: one of [NewSessionID], or 1 to 64 letters, digits, dashes and
// underscores.
//
// While the agent is open no other one can open the session: it gets
// [ErrSessionInUse]. With checkpoint.Keep the files of a temporary workspace go on,
// too: the last checkpoint's are put into the new one, instead of initial files, which
// an event tells; if that fails, New does. What cannot be written later, because the disk is full, for
// example, is a warning and not an error as with WithHistoryFile: the agent goes on,
// and tries again. A session in which nothing was said is removed when the agent
// closes. Default: nothing is kept.
//
//	dir, err := pygent.SessionsDir()
//	agent, err := pygent.New(pygent.WithSession(filepath.Join(dir, pygent.NewSessionID())))
func WithSession(dir string) Option {
	return option(func(o *options) {
		o.give("WithSession", "WithSession", dir != "")
		o.sessionDir = dir
	})
}

// SessionInfo describes a kept session. Its texts are one line each, without control
// characters.
type SessionInfo struct {
	ID        string      `json:"id"`
	Title     string      `json:"title,omitempty"`     // what the user said first, or its beginning
	Dir       string      `json:"dir,omitempty"`       // the working directory of the program that used it last
	Workspace string      `json:"workspace,omitempty"` // on this machine; empty if it is elsewhere or was removed
	Temporary bool        `json:"temporary,omitempty"` // the workspace is, or was, a temporary one
	Persona   string      `json:"persona,omitempty"`   // the name
	Model     string      `json:"model,omitempty"`     // the name; empty if it is not known
	Messages  int         `json:"messages"`            // of the conversation, without the system message and what was undone
	Created   time.Time   `json:"created,omitzero"`
	Used      time.Time   `json:"used,omitzero"` // the last time
	Usage     UsageReport `json:"usage,omitzero"`

	Open    bool   `json:"open,omitempty"`    // an agent has it open, of this process or of another one
	Damaged string `json:"damaged,omitempty"` // why only the id and the time are known; the conversation may be unharmed

	setup json.RawMessage
}

// Setup returns how the agent of the session was set up, which
// [Config.WithSetup] takes.
func (i SessionInfo) Setup() (Setup, error) {
	var s Setup
	if err := json.Unmarshal(i.setup, &s); err != nil {
		return s, fmt.Errorf("settings of session %s: %w", i.ID, err)
	}
	return s, nil
}

// sessionVersion is the version of the form of session.json.
const sessionVersion = 1

// sessionFile is session.json.
type sessionFile struct {
	Version int `json:"version"`
	SessionInfo
	Setup json.RawMessage `json:"setup,omitempty"`
}

// Bounds of the texts in session.json, in bytes.
const (
	maxTitle       = 120
	maxSessionText = 4096
)

// SessionsDir returns the directory in which the command pygent keeps the sessions of
// this user: pygent/sessions in $XDG_STATE_HOME, or where the system has such data. It
// need not exist.
func SessionsDir() (string, error) {
	dir, err := owner.StateDir()
	if err != nil {
		return "", fmt.Errorf("directory of sessions: %w", err)
	}
	return filepath.Join(dir, "sessions"), nil
}

// NewSessionID returns the id of a new session: a digit, and then digits and letters
// that cannot be mistaken for others.
func NewSessionID() string {
	const digits, letters = "0123456789", "0123456789abcdefghjkmnpqrstvwxyz"
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	id := []byte{digits[int(b[0])%len(digits)]}
	for _, c := range b[1:] {
		id = append(id, letters[c%byte(len(letters))])
	}
	return string(id)
}

// ListSessions returns the sessions in a directory, those that were used last first. It
// reads no conversation, so it is quick, and takes no lock. Sessions in which nothing
// was said yet are left out. A missing directory has none.
func ListSessions(dir string) ([]SessionInfo, error) {
	entries, err := sessiondir.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	list := make([]SessionInfo, 0, len(entries))
	for _, e := range entries {
		info, err := readSession(e.Info)
		if e.Err != nil {
			err = e.Err
		}
		if err != nil {
			info = SessionInfo{Used: e.Used, Damaged: oneLine(err.Error(), maxSessionText)}
		}
		info.ID, info.Open = e.ID, e.Open
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b SessionInfo) int { return b.Used.Compare(a.Used) })
	return list, nil
}

// readSession reads session.json. What it says may be damaged in any way.
func readSession(data []byte) (SessionInfo, error) {
	var f sessionFile
	if err := json.Unmarshal(data, &f); err != nil {
		return SessionInfo{}, fmt.Errorf("%s cannot be read: %w", sessiondir.InfoFile, err)
	}
	if f.Version != sessionVersion {
		return SessionInfo{}, fmt.Errorf("%s has version %d, and this pygent reads %d", sessiondir.InfoFile, f.Version, sessionVersion)
	}
	info := f.SessionInfo
	info.Title = oneLine(info.Title, 4*maxTitle) // pictures of control characters have three bytes
	for _, text := range []*string{&info.Dir, &info.Workspace, &info.Persona, &info.Model} {
		*text = oneLine(*text, maxSessionText)
	}
	info.Messages, info.Open, info.Damaged, info.setup = max(info.Messages, 0), false, "", f.Setup
	return info, nil
}

// oneLine returns the beginning of a text in one line, with its control characters made
// visible.
func oneLine(text string, most int) string { return screen.Visible(cut.Line(text, most)) }

// RemoveSession removes a session with its conversation. The error matches
// [ErrSessionInUse] for one that an agent has open, and [io/fs.ErrNotExist] if there is
// none.
func RemoveSession(dir, id string) error {
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
