package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/sessions"
)

// checkpointError puts an error of checkpoints into a status.
func checkpointError(err error) error {
	switch {
	case errors.Is(err, pygent.ErrAgentBusy):
		return fail(http.StatusConflict, "busy", "the agent is working; stop it first")
	case errors.Is(err, pygent.ErrNothingToUndo), errors.Is(err, pygent.ErrNothingToRedo):
		return fail(http.StatusConflict, "nothing", oneLine(err.Error()))
	case errors.Is(err, pygent.ErrNoCheckpoints), errors.Is(err, sessions.ErrNone), errors.Is(err, pygent.ErrUnknownCheckpoint):
		return fail(http.StatusNotFound, "no_checkpoint", oneLine(err.Error()))
	}
	return err
}

// listCheckpoints lists the checkpoints of a session.
func (s *Server) listCheckpoints(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"checkpoints": append([]pygent.Checkpoint{}, one.agent.Checkpoints()...)}, nil
}

// restored is what a restore did, for people.
type restored struct {
	Restored pygent.Restored `json:"restored"`
	Notes    []string        `json:"notes"`
	draft
}

// notes are what a restore did that is worth telling. The images of the message that is
// taken back are not: the page puts them back into its field.
func notes(done pygent.Restored) []string {
	if done.Message != nil {
		m := *done.Message
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p pygent.Part) bool {
			return len(imagesOf(pygent.Message{Parts: []pygent.Part{p}})) > 0
		})
		done.Message = &m
	}
	return append([]string{}, done.Notes()...)
}

// restoring makes a function of the API of one that restores. words are what the status
// line says meanwhile.
func restoring(c call, s *Server, words string, restore func(ctx context.Context, a *pygent.Agent) (pygent.Restored, error)) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var done pygent.Restored
	err = one.errand(c.Context(), words, func(ctx context.Context) (err error) {
		done, err = restore(ctx, one.agent)
		return err
	})
	if err != nil {
		return nil, checkpointError(err)
	}
	answer := restored{Restored: done, Notes: notes(done), draft: draftOf(pygent.Message{})}
	if done.Message != nil {
		answer.draft = draftOf(*done.Message)
	}
	one.log.filesChanged()
	return answer, nil
}

// draft is a message of the user that is to be said otherwise.
type draft struct {
	Text   string       `json:"text"`
	Images []attachment `json:"images"` // that went along
}

func draftOf(m pygent.Message) draft {
	text, _ := faces.Spoken(m)
	return draft{Text: strings.TrimSpace(text), Images: append([]attachment{}, imagesOf(m)...)}
}

// imagesOf returns the images of a message as they were attached. A file that was quoted
// is a part of the text that the model saw, and cannot be told from it for certain.
func imagesOf(m pygent.Message) (images []attachment) {
	for i, p := range m.Parts {
		kind, data, ok := strings.Cut(p.ImageURL, ";base64,")
		decoded, err := base64.StdEncoding.DecodeString(data)
		if !ok || err != nil {
			continue
		}
		suffix := strings.TrimPrefix(kind, "data:image/")
		images = append(images, attachment{Name: cmp.Or(p.FileName, fmt.Sprintf("image-%d.%s", i+1, suffix)), Data: decoded})
	}
	return images
}

// undo takes turns back.
func (s *Server) undo(c call) (any, error) {
	var in struct {
		Turns int `json:"turns"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	return restoring(c, s, "Going back", func(ctx context.Context, a *pygent.Agent) (pygent.Restored, error) {
		return a.Undo(ctx, cmp.Or(in.Turns, 1))
	})
}

// redo brings back what was undone.
func (s *Server) redo(c call) (any, error) {
	if err := c.read(&struct{}{}); err != nil {
		return nil, err
	}
	return restoring(c, s, "Redoing", func(ctx context.Context, a *pygent.Agent) (pygent.Restored, error) { return a.Redo(ctx) })
}

// restore goes to a checkpoint.
func (s *Server) restore(c call) (any, error) {
	var in moment
	if err := c.read(&in); err != nil {
		return nil, err
	}
	return restoring(c, s, "Going back", func(ctx context.Context, a *pygent.Agent) (done pygent.Restored, err error) {
		from, _, err := in.checkpoint(a)
		if err == nil {
			done, err = a.Restore(ctx, from)
		}
		return done, err
	})
}

// moment is where a conversation goes on from: a checkpoint, or the one before a
// message of the user.
type moment struct {
	Checkpoint int64 `json:"checkpoint"`
	Said       *int  `json:"said"` // how many messages the user had said in the conversation before that one
}

// checkpoint returns the checkpoint of the moment, and the message before which it is;
// none of a moment that is named otherwise.
func (m moment) checkpoint(a *pygent.Agent) (id int64, msg pygent.Message, err error) {
	if m.Said == nil {
		return m.Checkpoint, msg, nil
	}
	msg, before, ok := messageOf(a.History(), *m.Said)
	if !ok {
		return 0, msg, fail(http.StatusNotFound, "no_message", "message not found")
	}
	for _, c := range slices.Backward(a.Checkpoints()) {
		if c.Kind == pygent.CheckpointStart && c.Messages == before {
			return c.ID, msg, nil
		}
	}
	return 0, msg, fail(http.StatusNotFound, "no_checkpoint", "there is no checkpoint before this message: you sent it while the agent was working, or too long ago")
}

// messageOf returns a message of the user in the conversation, and how many messages
// the record had before it, also those that were taken back.
func messageOf(h *pygent.History, said int) (msg pygent.Message, before int, ok bool) {
	current := h.Current()
	at := -1
	for i, e := range current {
		if isUsers(e) {
			if said == 0 {
				at = i
				break
			}
			said--
		}
	}
	if at < 0 {
		return msg, 0, false
	}
	// What is in effect is a part of the record, in its order. What was taken back
	// stands before what took its place, so that the last that is equal is the one.
	record := h.Entries()
	next := len(current) - 1
	found := false
	for _, e := range slices.Backward(record) {
		switch {
		case found:
			before += counted(e)
		case next >= 0 && same(e, current[next]):
			found = next == at
			next--
		}
	}
	return current[at].Message, before, found
}

// isUsers reports whether an entry is a message of the user.
func isUsers(e chat.HistoryEntry) bool {
	return e.Message.Role == chat.RoleUser && (e.Source == chat.SourceUser || e.Source == "")
}

// counted is how much an entry adds to [pygent.Checkpoint].Messages.
func counted(e chat.HistoryEntry) int {
	if e.Message.Role == "" || e.Message.Role == chat.RoleSystem {
		return 0
	}
	return 1
}

// same reports whether two entries are one of the record.
func same(a, b chat.HistoryEntry) bool {
	return a.Time.Equal(b.Time) && a.Message.Role == b.Message.Role && a.Message.ToolCallID == b.Message.ToolCallID && a.Message.Text() == b.Message.Text()
}

// changed is a file that changed in the session.
type changed struct {
	Path    string `json:"path"`
	Name    string `json:"name"`   // as people can read it
	Status  string `json:"status"` // A, M or D
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	HTML    string `json:"html"`
}

// listChanges tells how the files have changed in the session: since its first
// checkpoint, or else by the agent's tools.
func (s *Server) listChanges(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	changes, more := one.agent.Changes(), false
	if first, ok := firstWithFiles(one.agent); ok {
		if changes, more, err = one.agent.Differences(c.Context(), first.ID, 0); err != nil {
			return nil, checkpointError(err)
		}
	}
	list := []changed{}
	for _, change := range changes {
		list = append(list, describeChange(change))
	}
	return map[string]any{"changes": list, "more": more}, nil
}

// firstWithFiles returns the first checkpoint that has the files.
func firstWithFiles(a *pygent.Agent) (pygent.Checkpoint, bool) {
	for _, checkpoint := range a.Checkpoints() {
		if checkpoint.Files {
			return checkpoint, true
		}
	}
	return pygent.Checkpoint{}, false
}

func describeChange(c pygent.FileChange) changed {
	one := changed{Path: c.Path, Name: oneLine(c.Path), Status: "M"}
	switch {
	case c.Created:
		one.Status = "A"
	case c.Deleted:
		one.Status = "D"
	}
	one.Added, one.Removed = edit.Count(c.Before, c.After)
	one.HTML, _ = diffsHTML([]pygent.FileChange{c})
	return one
}
