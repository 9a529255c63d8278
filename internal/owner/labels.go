package owner

import (
	"maps"
	"strings"
)

// Labels of the objects that pygent makes on an engine.
const (
	LabelRuntime      = "pygent.runtime"      // the runtime's id, which is also part of every name
	LabelOwner        = "pygent.owner"        // the process that made the object
	LabelInstallation = "pygent.installation" // the id of the user's key, with which the proof was made
	LabelHolds        = "pygent.holds"        // see Holds
	LabelProof        = "pygent.proof"        // the proof, over the object's kind, its name and these labels
)

// Kinds of objects on an engine.
const (
	Container = "container"
	Volume    = "volume"
)

// Holds says what would be lost with an object.
type Holds string

// Values of Holds.
const (
	HoldsNothing   Holds = "nothing"   // nothing that is still of use once the owner is dead
	HoldsWorkspace Holds = "workspace" // a workspace that must be copied back before the object is removed
)

// NamePrefix begins the names of the objects that pygent makes on an engine.
// The id of the runtime follows.
const NamePrefix = "pygent-"

// Labels returns the labels of an object that this process makes. The proof is
// not among them, because it also covers the name; see [Self.Prove].
func (s *Self) Labels(runtime string, holds Holds) map[string]string {
	return map[string]string{
		LabelRuntime:      runtime,
		LabelOwner:        s.Name(),
		LabelInstallation: s.Installation(),
		LabelHolds:        string(holds),
	}
}

// Prove returns the labels together with a proof for an object of that kind and
// name.
func (s *Self) Prove(kind, name string, labels map[string]string) map[string]string {
	proved := maps.Clone(labels)
	proved[LabelProof] = s.Proof(labelFacts(kind, name, labels)...)
	return proved
}

// Proved reports whether this user's pygent made the object of that kind and
// name with these labels. Labels that an object inherits, for example from an
// image, do not prove it, because they were made for another name.
func (s *Self) Proved(kind, name string, labels map[string]string) bool {
	runtime := labels[LabelRuntime]
	return runtime != "" && strings.HasPrefix(name, NamePrefix+runtime) &&
		s.Proves(labels[LabelProof], labelFacts(kind, name, labels)...)
}

func labelFacts(kind, name string, labels map[string]string) []string {
	return []string{kind, name, labels[LabelRuntime], labels[LabelOwner], labels[LabelInstallation], labels[LabelHolds]}
}
