package faces

import "github.com/x/pygent"

// Queue is what was said while the agent worked and what the model has not heard.
// While a turn goes on, the agent has it: see [pygent.Agent.Say]. After a turn that
// ended otherwise than the model wanted, the session holds it back, so that it
// neither answers a question nor begins a turn.
type Queue struct {
	Unheard []pygent.Said // what the agent has
	Held    []pygent.Said // what the session holds back, in order
}

// Hold takes what the agent has not heard.
func (q *Queue) Hold(agent *pygent.Agent) {
	for _, said := range agent.State().Unheard {
		if agent.Unsay(said.ID) {
			q.Held = append(q.Held, said)
		}
	}
	q.Unheard = nil
}

// Return gives the agent what was held back. What follows one that the agent refuses, and
// that one, stay held.
func (q *Queue) Return(agent *pygent.Agent) error {
	for i, said := range q.Held {
		if _, err := agent.Say(said.Message); err != nil {
			q.Held = q.Held[i:]
			return err
		}
	}
	q.Held = nil
	return nil
}

// All is all of it, what is held back first.
func (q *Queue) All() []pygent.Said { return append(q.Held[:len(q.Held):len(q.Held)], q.Unheard...) }
