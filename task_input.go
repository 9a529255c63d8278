package pygent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/x/pygent/internal/crew"
)

// SendOption adjusts a message to a task.
type SendOption func(*taskInput)

// WithMessageID names a message. Sending a second one of the same name to the
// task has no effect but to return the number of the first, so a failed Send can be repeated safely.
func WithMessageID(id string) SendOption { return func(in *taskInput) { in.ID = "message-" + id } }

// WithNextStep has a task at work hear the message before its model is asked the
// next time, as [Agent.Say] has an agent.
func WithNextStep() SendOption { return func(in *taskInput) { in.Early = true } }

// message is the message that a task begins with.
func (s TaskSpec) message() taskMessage { return taskMessage{text: s.Prompt, parts: s.Parts} }

// taskMessage is what a run of a task begins with, or hears on its way.
type taskMessage struct {
	text  string
	parts []Part
	early bool // a run that goes on may hear it
}

// Early implements [crew.Message].
func (m taskMessage) Early() bool { return m.early }

// Size is about how many bytes the message has.
func (m taskMessage) Size() int { return sizeOfMessage(UserMessage(m.text, m.parts...)) }

// same reports whether both messages say the same.
func (m taskMessage) same(other taskMessage) bool {
	return m.text == other.text && slices.EqualFunc(m.parts, other.parts, func(a, b Part) bool {
		one, err := a.MarshalJSON()
		two, failed := b.MarshalJSON()
		return cmp.Or(err, failed) == nil && bytes.Equal(one, two)
	})
}

// check refuses a message that no agent could take up.
func (m taskMessage) check() error {
	switch {
	case m.text == "" && len(m.parts) == 0:
		return errors.New("the message is empty")
	case m.Size() > crew.MaxMailBytes:
		return fmt.Errorf("the message has %d bytes, more than %d", m.Size(), crew.MaxMailBytes)
	}
	_, err := encodeForHistory(UserMessage(m.text, m.parts...))
	return err
}

// taskInput is what is sent to a task.
type taskInput struct {
	ID    string        `json:"id"` // sending an input with the same id twice has no effect
	Kind  taskInputKind `json:"kind"`
	Text  string        `json:"text,omitempty"`  // the message, or why the task is cancelled
	Parts []Part        `json:"parts,omitempty"` // of the message
	Early bool          `json:"early,omitempty"` // a run that goes on may take the message up

	Request  int64    `json:"request,omitempty"` // number of the event that asked for the decision; 0 if Call names the call
	Call     string   `json:"call,omitempty"`    // id of the call that is decided about
	Decision Decision `json:"decision,omitzero"`
}

type taskInputKind string

const (
	inputMessage  taskInputKind = "message"  // of the user; a task at work takes it up when it rests, or before its next step
	inputDecision taskInputKind = "decision" // about a call that needs approval
	inputCancel   taskInputKind = "cancel"   // a request to end; the status tells when that is done
)
