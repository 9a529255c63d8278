package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// taskSpecVersion is the version of the JSON of a [TaskSpec]. A reader refuses
// versions it does not know.
const taskSpecVersion = 1

// Limits of a task when nothing is said.
const (
	// DefaultTaskStepTimeout is how long a step of a task may take.
	DefaultTaskStepTimeout = 5 * time.Minute
	// DefaultTaskMaxTime is how long a task may take, its start included.
	DefaultTaskMaxTime = 20 * time.Minute
	// DefaultMaxTasks is how many tasks of a manager run at once.
	DefaultMaxTasks = 3
	// DefaultTaskDepth is how deep agents delegate: tasks do not.
	DefaultTaskDepth = 1
)

// TaskSpec describes a task so that it can be carried out elsewhere: it is a
// small JSON value that holds no functions and no secrets. What only this
// process has, such as a Model, reaches a task through its profile.
type TaskSpec struct {
	Version int         `json:"version"`
	ID      string      `json:"id"`
	Parent  string      `json:"parent,omitempty"`  // the id of the agent that delegates
	Profile string      `json:"profile,omitempty"` // see [RegisterTaskProfile]; empty is the manager's own
	Prompt  string      `json:"prompt"`
	Persona Persona     `json:"persona,omitzero"` // zero is the profile's
	Model   string      `json:"model,omitempty"`  // a model's name; empty is the profile's
	Depth   int         `json:"depth"`            // of the task's agent, at least 1
	Files   string      `json:"files,omitempty"`  // "sha256:…" of the tar with the files to begin with
	Runtime TaskRuntime `json:"runtime,omitzero"`
	Limits  Limits      `json:"limits"`
	Queue   bool        `json:"queue,omitempty"` // wait when there is no room, instead of failing
}

// TaskRuntime says in what kind of runtime a task is carried out.
type TaskRuntime struct {
	// Kind is "docker", "local", "custom" for a runtime that only the parent
	// can make, or empty for the profile's.
	Kind string `json:"kind,omitempty"`
	// Container is how the parent's container is made, or that there is none.
	Container ContainerConfig `json:"container,omitzero"`
	// Local is what commands may reach where there is no container.
	Local LocalConfig `json:"local,omitzero"`
}

// taskID is what an id may look like: it becomes part of names and messages.
var taskID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// check refuses a spec that no executor could carry out.
func (s TaskSpec) check() error {
	switch {
	case s.Version != taskSpecVersion:
		return fmt.Errorf("task spec: version %d is not known here, only %d", s.Version, taskSpecVersion)
	case !taskID.MatchString(s.ID):
		return fmt.Errorf("task spec: id %q: want 1 to 64 letters, digits, dots, dashes or underscores", s.ID)
	case s.Prompt == "":
		return errors.New("task spec: the prompt is empty")
	case s.Depth < 1:
		return fmt.Errorf("task spec: depth %d is below 1", s.Depth)
	}
	if err := s.Limits.check(); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	return nil
}

// UnmarshalJSON decodes a spec and refuses versions that this package does not
// know, because it could not carry them out faithfully.
func (s *TaskSpec) UnmarshalJSON(data []byte) error {
	type plain TaskSpec // has no methods, and so no recursion
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	if err := TaskSpec(p).check(); err != nil {
		return err
	}
	*s = TaskSpec(p)
	return nil
}
