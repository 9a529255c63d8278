package web

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/pathname"
)

// attachWithin is how long the files that a message names may take.
const attachWithin = 30 * time.Second

// getSession describes an open session.
func (s *Server) getSession(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"session": one.listed(), "state": one.agent.State(), "usage": one.agent.Usage(), "epoch": one.epoch}, nil
}

// attachment is a file that goes along with a message.
type attachment struct {
	Name string `json:"name"`
	Data []byte `json:"data"` // base64
}

// postMessage says something to the agent.
func (s *Server) postMessage(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in struct {
		Text        string       `json:"text"`
		Attachments []attachment `json:"attachments"`
		Queue       bool         `json:"queue"` // the page showed that the agent works
		Held        bool         `json:"held"`  // send what is held back
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if in.Held {
		return nil, one.do(c.Context(), func() error {
			one.requeue()
			one.sendUnheard()
			return nil
		})
	}
	msg, missing, err := one.message(c.Context(), in.Text, in.Attachments)
	if err != nil {
		return nil, err
	}
	var id string
	err = one.do(c.Context(), func() (err error) {
		if len(missing) > 0 {
			one.view.notice("warn", "Not in the workspace: "+strings.Join(missing, ", "))
		}
		id, err = one.deliver(msg, in.Queue)
		return err
	})
	return &status{http.StatusAccepted, map[string]string{"id": id}}, err
}

// message makes a message of a text, with the files that go along and those of the
// workspace that it mentions.
func (s *session) message(ctx context.Context, text string, attachments []attachment) (msg pygent.Message, missing []string, err error) {
	if strings.TrimSpace(text) == "" && len(attachments) == 0 {
		return msg, nil, fail(http.StatusBadRequest, "empty", "the message is empty")
	}
	var parts []pygent.Part
	for _, a := range attachments {
		part, err := chat.FilePart(a.Name, a.Data)
		if err != nil {
			return msg, nil, fail(http.StatusUnprocessableEntity, "attachment", oneLine(err.Error()))
		}
		if part.ImageURL != "" { // whose name nothing else keeps
			part.FileName = head(path.Base(a.Name), 255)
		}
		parts = append(parts, part)
	}
	if len(pathname.Mentions(text)) > 0 {
		ctx, cancel := context.WithTimeout(ctx, attachWithin)
		defer cancel()
		mentioned, names, err := s.agent.AttachMentioned(ctx, text)
		if err != nil {
			return msg, nil, fail(http.StatusUnprocessableEntity, "attachment", "not sent: could not read the files: "+oneLine(err.Error()))
		}
		parts, missing = append(parts, mentioned...), names
	}
	return chat.UserMessage(text, parts...), missing, nil
}

// deleteMessage takes back a message that nobody has heard.
func (s *Server) deleteMessage(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var back draft
	err = one.do(c.Context(), func() error {
		msg, ok := one.takeBack(c.PathValue("id"))
		if !ok {
			return fail(http.StatusConflict, "heard", "the agent has already received this message")
		}
		back = draftOf(msg)
		return nil
	})
	return back, err
}

// interrupt stops the turn that goes on, or else the person's command line.
func (s *Server) interrupt(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return nil, one.do(c.Context(), func() error {
		one.interrupt()
		return nil
	})
}

// retry goes on with the conversation as it is, after a failure.
func (s *Server) retry(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return nil, one.do(c.Context(), func() error {
		if one.turn != nil {
			return fail(http.StatusConflict, "busy", "the agent is already working")
		}
		one.requeue() // with the message that failed, if the agent never got it
		one.startTurn(func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error) {
			return one.agent.RunUntilStop(ctx, "", opts...)
		})
		return nil
	})
}

// getHistory returns the conversation.
func (s *Server) getHistory(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	state := one.agent.State() // before the entries: see [pygent.Agent.State]
	return map[string]any{"entries": one.agent.History().Current(), "at": position(one.epoch, state.Seq)}, nil
}
