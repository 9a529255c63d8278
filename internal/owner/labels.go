package owner

import (
	"maps"
	"strings"
)

// Labels of what pygent makes on an engine.
const (
	LabelRuntime      = "pygent.runtime"      // the runtime's id, which is in every name
	LabelOwner        = "pygent.owner"        // the process that made it
	LabelInstallation = "pygent.installation" // whose key proves it
	LabelHolds        = "pygent.holds"        // see Holds
	LabelProof        = "pygent.proof"        // over its kind, its name and these labels
)

// Kinds of things on an engine.
const (
	Container = "container"
	Volume    = "volume"
)

// Holds says what is lost with a thing.
type Holds string

// What things hold.
const (
	HoldsNothing   Holds = "nothing"   // that its owner's death has not made useless
	HoldsWorkspace Holds = "workspace" // that is to be kept, and has to be brought back first
)

// NamePrefix begins the names of what pygent makes on an engine; the id of the
// runtime follows.
const NamePrefix = "pygent-"

// Labels returns the labels of a thing that this process makes, but for the proof,
// which takes its name.
func (s *Self) Labels(runtime string, holds Holds) map[string]string {
	return map[string]string{
		LabelRuntime:      runtime,
		LabelOwner:        s.Name(),
		LabelInstallation: s.Installation(),
		LabelHolds:        string(holds),
	}
}

// Prove returns labels with a proof for a thing of that kind and name.
func (s *Self) Prove(kind, name string, labels map[string]string) map[string]string {
	proved := maps.Clone(labels)
	proved[LabelProof] = s.Proof(labelFacts(kind, name, labels)...)
	return proved
}

// Proved reports whether the thing of that kind and name was made with these
// labels by this user's pygent. Labels that something inherits, from an image
// say, are of another name.
func (s *Self) Proved(kind, name string, labels map[string]string) bool {
	runtime := labels[LabelRuntime]
	return runtime != "" && strings.HasPrefix(name, NamePrefix+runtime) &&
		s.Proves(labels[LabelProof], labelFacts(kind, name, labels)...)
}

func labelFacts(kind, name string, labels map[string]string) []string {
	return []string{kind, name, labels[LabelRuntime], labels[LabelOwner], labels[LabelInstallation], labels[LabelHolds]}
}
